"""The descheduler: watches and listens on every replica; the leader evaluates every interval and says its intents."""

import asyncio

import structlog
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.contracts.eviction.protection import Rules
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.contracts.messages.health import REAL, Heartbeat
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.descheduler.decisions.evaluation.snapshot import Configured
from equipoise.descheduler.decisions.strategies import name_of
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.shell.cluster_watch import Watching
from equipoise.descheduler.shell.evaluator import Leader
from equipoise.descheduler.shell.looking import Health, Looking
from equipoise.descheduler.shell.metrics import Telemetry
from equipoise.descheduler.state.latest_messages import Heard
from equipoise.descheduler.state.tracker import Memory
from equipoise.runtime.bus import Bus, Delivery
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE, lead
from equipoise.runtime.process.clock import Clock

SYNC_TIMEOUT = 10.0
"""Seconds between reminders that a first list is still missing."""

log = structlog.get_logger()


class Descheduler:
    """`run` until cancelled. Says nothing while another replica leads."""

    def __init__(
        self,
        *,
        settings: DeschedulerSettings,
        load: LoadSettings,
        thresholds: Thresholds,
        namespaces: Namespaces,
        protection: Protection,
        own_namespace: str,
        identity: str,
        kube: Kube,
        bus: Bus,
        clock: Clock,
        health: Health,
        metrics: CollectorRegistry,
    ) -> None:
        """`own_namespace`: where Equipoise runs and its Lease lives. Raises ConfigurationError for unknown windows."""
        self._settings = settings
        self._load = load
        self._own_namespace = own_namespace
        self._identity = identity
        self._kube = kube
        self._bus = bus
        self._clock = clock
        self._health = health
        configured = Configured(
            load=load,
            thresholds=thresholds,
            rules=Rules(protection=protection, namespaces=namespaces, own_namespace=own_namespace),
            limits=settings.intent_limits,
        )
        self._telemetry = Telemetry(metrics)
        self._heard = Heard()
        self._memory = Memory(settings.tracker)
        self._watching = Watching(kube, clock, settings, self._heard, volumes=protection.persistent_volumes)
        self._looking = Looking(
            load=load,
            memory=self._memory,
            heard=self._heard,
            watching=self._watching,
            health=health,
            telemetry=self._telemetry,
        )
        self._leader = Leader(
            settings=settings,
            configured=configured,
            looking=self._looking,
            bus=bus,
            clock=clock,
            health=health,
            telemetry=self._telemetry,
        )
        self._check_windows()

    async def attach(self) -> None:
        """What this service hears."""
        prefix = subjects.PREFIX
        await self._bus.subscribe_latest(f"{prefix}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.subscribe_latest(
            f"{prefix}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization
        )
        await self._bus.subscribe_latest(f"{prefix}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.subscribe_latest(f"{prefix}.eviction.outcome.*.*", EvictionOutcome, self.on_eviction_outcome)
        await self._bus.subscribe(f"{prefix}.health.binder.*", Heartbeat, self.on_heartbeat)

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watching.run())
            tasks.create_task(self._stand_for_election())
            tasks.create_task(self._stay_tidy())

    async def on_node_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        self._heard.node(delivery.message)

    async def on_workload_utilization(self, delivery: Delivery[WorkloadUtilization]) -> None:
        self._heard.workload(delivery.message)

    async def on_utilization_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        self._heard.cycle(delivery.message)

    async def on_eviction_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        outcome = delivery.message
        self._memory.settled(outcome, self._clock.now())
        if not delivery.replayed:
            self._telemetry.outcomes.labels(outcome.outcome.value).inc()
            log.info("intent settled", pod=f"{outcome.namespace}/{outcome.pod}", outcome=outcome.outcome.value)

    async def on_heartbeat(self, delivery: Delivery[Heartbeat]) -> None:
        self._heard.heartbeat(delivery.message, self._clock.now())
        if delivery.message.evictions == REAL:
            self._memory.evictions_are_real()

    async def _stand_for_election(self) -> None:
        while not await self._synced():
            pass
        self._health.warmed_up()
        election = self._settings.leader_election
        await lead(
            self._kube,
            self._clock,
            namespace=self._own_namespace,
            name=DESCHEDULER_LEASE,
            identity=self._identity,
            worker=self._leader.run,
            health=self._health,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )

    async def _synced(self) -> bool:
        try:
            await self._watching.synced(SYNC_TIMEOUT)
        except TimeoutError as error:
            log.warning("waiting for the first lists", reason=str(error))
            return False
        return True

    async def _stay_tidy(self) -> None:
        """Without the lead nobody evaluates, and what is heard must not pile up."""
        while True:
            await self._clock.sleep(self._settings.interval)
            if not self._health.leading and not self._watching.problem:
                await self._looking.tidied(self._watching.watched(), self._clock.now())

    def _check_windows(self) -> None:
        known = [window.name for window in self._load.windows]
        for strategy in self._settings.strategies:
            for window in strategy.windows:
                if window not in known:
                    raise ConfigurationError(
                        f"descheduler.strategies: {name_of(strategy)} asks for window {window!r}, "
                        f"load.windows has {', '.join(known)}"
                    )
