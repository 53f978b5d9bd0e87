"""The descheduler: every replica watches the API server and subscribes; only the leader evaluates and publishes."""

import asyncio

import structlog

from equipoise.contracts.bus import subjects
from equipoise.contracts.load.latest import is_acceptable
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.contracts.messages.health import REAL, Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.shell.cluster_watch import ClusterWatch
from equipoise.descheduler.shell.evaluator import Evaluator
from equipoise.descheduler.shell.metrics import DeschedulerMetrics
from equipoise.descheduler.state.latest_messages import LatestMessages, with_recent_pods
from equipoise.descheduler.state.tracker import Tracker
from equipoise.runtime.bus import Delivery
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE, lead
from equipoise.runtime.process.lifecycle import Runtime

SYNC_TIMEOUT = 10.0
"""Seconds between log lines while the first list of a watched resource is missing."""

log = structlog.get_logger()


class Descheduler:
    """Runs until `run` is canceled. Publishes nothing while another replica leads."""

    def __init__(self, runtime: Runtime[DeschedulerSettings]) -> None:
        shared = runtime.configuration.shared
        self._runtime = runtime
        self._settings = settings = runtime.own
        self._load = shared.load
        self._bus = runtime.bus
        self._clock = runtime.clock
        self._health = runtime.health
        self._metrics = DeschedulerMetrics(runtime.metrics)
        self._messages = LatestMessages()
        self._tracker = Tracker(settings.tracker)
        self._watch = ClusterWatch(runtime.kube, runtime.clock, settings, volumes=shared.protection.persistent_volumes)
        self._evaluator = Evaluator(runtime, self._watch, self._messages, self._tracker, self._metrics)

    async def attach(self) -> None:
        """Subscribe to all messages."""
        prefix = subjects.PREFIX
        await self._bus.subscribe_latest(f"{prefix}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.subscribe_latest(
            f"{prefix}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization
        )
        await self._bus.subscribe_latest(f"{prefix}.placement.node.*", NodePlacement, self.on_placement)
        await self._bus.subscribe_latest(f"{prefix}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.subscribe_latest(f"{prefix}.eviction.outcome.*.*", EvictionOutcome, self.on_eviction_outcome)
        await self._bus.subscribe(f"{prefix}.health.binder.*", Heartbeat, self.on_heartbeat)

    async def run(self) -> None:
        """Run until canceled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run())
            tasks.create_task(self._run_election())
            tasks.create_task(self._prune())

    async def on_node_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        if is_acceptable(delivery.message, now := self._clock.now()):
            self._messages.on_utilization(delivery.message, now)

    async def on_workload_utilization(self, delivery: Delivery[WorkloadUtilization]) -> None:
        if is_acceptable(delivery.message, self._clock.now()):
            self._messages.on_workload(delivery.message)

    async def on_placement(self, delivery: Delivery[NodePlacement]) -> None:
        # The oldest mean that may be used ends one lifetime of the longest window ago, and covers the length of that
        # window. Pods that started before it are contained in every mean.
        now, longest = self._clock.now(), self._load.longest
        begin = now - longest.length - self._load.lifetime(longest)
        self._messages.on_placement(with_recent_pods(delivery.message, begin), now)

    async def on_utilization_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        if is_acceptable(delivery.message, self._clock.now()):
            self._messages.on_cycle(delivery.message)

    async def on_eviction_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        outcome = delivery.message
        self._tracker.on_outcome(outcome, self._clock.now())
        if not delivery.replayed:
            self._metrics.outcomes.labels(outcome.outcome.value).inc()
            log.info("outcome received", pod=f"{outcome.namespace}/{outcome.pod}", outcome=outcome.outcome.value)

    async def on_heartbeat(self, delivery: Delivery[Heartbeat]) -> None:
        self._messages.on_heartbeat(delivery.message, self._clock.monotonic())
        if delivery.message.evictions == REAL:
            self._tracker.end_dry_runs()

    async def _run_election(self) -> None:
        synced = False
        while not synced:
            try:
                await self._watch.synced(SYNC_TIMEOUT)
                synced = True
            except TimeoutError as error:
                log.warning("waiting for the first lists", reason=str(error))
        self._health.warmed_up()
        runtime, election = self._runtime, self._settings.leader_election
        await lead(
            runtime.kube,
            self._clock,
            namespace=runtime.configuration.shared.kubernetes.namespace,
            name=DESCHEDULER_LEASE,
            identity=runtime.identity,
            worker=self._evaluator.run,
            health=self._health,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )

    async def _prune(self) -> None:
        while True:
            await self._clock.sleep(self._settings.interval)
            if not self._health.leading:
                await self._evaluator.prune()
