"""The descheduler: every replica watches the API server and subscribes to messages; only the leader evaluates and
publishes."""

import asyncio

import structlog

from equipoise.contracts.bus import channels
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.contracts.messages.health import REAL, Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.shell.cluster_watch import ClusterWatch
from equipoise.descheduler.shell.evaluator import Evaluator
from equipoise.descheduler.shell.metrics import DeschedulerMetrics
from equipoise.descheduler.state.latest_messages import LatestMessages, with_recent_pods
from equipoise.descheduler.state.moves.tracker import Tracker
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
        follow, messages, tracker = self._bus.follow, self._messages, self._tracker
        await follow(channels.NODE_UTILIZATIONS, messages.on_utilization)
        await follow(channels.WORKLOAD_UTILIZATIONS, messages.on_workload)
        await follow(channels.NODE_PLACEMENTS, self.on_placement)
        await follow(channels.UTILIZATION_CYCLES, messages.on_cycle)
        await follow(channels.EVICTION_OUTCOMES, self.on_eviction_outcome, on_replayed=tracker.on_outcome)
        await follow(channels.HEARTBEATS.of("binder"), self.on_heartbeat)

    async def run(self) -> None:
        """Run until canceled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run())
            tasks.create_task(self._run_election())
            tasks.create_task(self._prune())

    def on_placement(self, message: NodePlacement, now: float) -> bool:
        # The oldest mean that may be used ends one lifetime of the longest window ago, and covers the length of that
        # window. Pods that started before it are contained in every mean.
        longest = self._load.longest
        begin = now - longest.length - self._load.lifetime(longest)
        return self._messages.on_placement(with_recent_pods(message, begin), now)

    def on_eviction_outcome(self, outcome: EvictionOutcome, now: float) -> None:
        self._tracker.on_outcome(outcome, now)
        self._metrics.outcomes.labels(outcome.outcome.value).inc()
        log.info("outcome received", pod=outcome.pod_name, outcome=outcome.outcome.value)

    def on_heartbeat(self, heartbeat: Heartbeat, _: float) -> None:
        self._messages.on_heartbeat(heartbeat, self._clock.monotonic())
        if heartbeat.evictions == REAL:
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
