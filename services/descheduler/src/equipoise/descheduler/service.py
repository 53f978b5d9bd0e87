"""The descheduler: watches and listens on every replica; the leader evaluates every interval and says its intents."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry

from equipoise.contracts import subjects
from equipoise.contracts.messages import (
    DescheduleDecision,
    EvictionIntent,
    EvictionOutcome,
    LeaseEpoch,
    NodeUtilization,
    UtilizationCycle,
    WorkloadUtilization,
)
from equipoise.contracts.protection import Rules
from equipoise.contracts.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.contracts.workload import Workload
from equipoise.descheduler.coverage import blindness, skew_of
from equipoise.descheduler.fleet import Fleet, IntentLimits, Move, Plan
from equipoise.descheduler.heard import Heard
from equipoise.descheduler.intents import decision_of, intent_of
from equipoise.descheduler.measures import Measures
from equipoise.descheduler.memory import Memory
from equipoise.descheduler.misread import misread_annotations
from equipoise.descheduler.picture import Picture, Remembered, Watched, arrivals_of, pods_of
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.strategies import name_of, readings
from equipoise.descheduler.telemetry import Telemetry
from equipoise.descheduler.watching import Watching
from equipoise.runtime.bus import Bus, BusError, Delivery, Refused
from equipoise.runtime.clock import Clock
from equipoise.runtime.kube import Kube
from equipoise.runtime.lease import DESCHEDULER_LEASE, lead
from equipoise.runtime.settings import ConfigurationError

SYNC_TIMEOUT = 10.0
"""Seconds between reminders that a first list is still missing."""

log = structlog.get_logger()


class Health(Protocol):
    """Where the descheduler shows how it fares."""

    leading: bool | None

    def problem(self, key: str, text: str | None) -> None: ...

    def warmed_up(self) -> None: ...


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
        self._thresholds = thresholds
        self._own_namespace = own_namespace
        self._identity = identity
        self._kube = kube
        self._bus = bus
        self._clock = clock
        self._health = health
        self._rules = Rules(protection=protection, namespaces=namespaces, own_namespace=own_namespace)
        self._limits = IntentLimits(
            per_evaluation=settings.max_intents_per_evaluation,
            per_node=settings.max_intents_per_node,
            per_workload=settings.max_intents_per_workload,
        )
        self._telemetry = Telemetry(metrics)
        self._heard = Heard()
        self._memory = Memory(settings)
        self._watching = Watching(kube, clock, settings, self._heard, volumes=protection.persistent_volumes)
        self._check_windows()

    async def attach(self) -> None:
        """What this service hears."""
        prefix = subjects.PREFIX
        await self._bus.follow(f"{prefix}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.follow(
            f"{prefix}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization
        )
        await self._bus.follow(f"{prefix}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.follow(f"{prefix}.eviction.outcome.*.*", EvictionOutcome, self.on_eviction_outcome)

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

    # The leader

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
            worker=self._lead,
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

    async def _lead(self, epoch: LeaseEpoch) -> None:
        self._memory.forget_counts()
        await self._clock.sleep(self._settings.warm_up)
        while True:
            begun = self._clock.monotonic()
            await self._evaluate(epoch)
            took = self._clock.monotonic() - begun
            self._telemetry.evaluation_seconds.observe(took)
            await self._clock.sleep(max(0.0, self._settings.interval - took))

    async def _evaluate(self, epoch: LeaseEpoch) -> None:
        """One evaluation: what every node is, how often in a row, and what follows."""
        now = self._clock.now()
        watched = self._watching.watched()
        self._tidy(watched, now)
        fleet = self._fleet(watched, now)
        blind = self._blindness(fleet)
        self._health.problem("blind", blind or None)
        self._health.problem("annotations", misread_annotations(watched) or None)
        taken: set[str] = set()
        for strategy in self._settings.strategies:
            name = name_of(strategy)
            verdicts = strategy.verdicts(fleet)
            self._telemetry.saw(name, verdicts)
            counts = self._memory.count(name, readings(strategy, fleet, verdicts), now)
            plan = Plan(why=blind) if blind else strategy.plan(fleet, self._memory.abnormal(name))
            moves = [move for move in plan.moves if move.pod.uid not in taken]
            taken |= {move.pod.uid for move in moves}
            published = await self._propose(moves, name, watched, epoch, now)
            await self._tell(
                decision_of(name, verdicts=verdicts, counts=counts, plan=plan, published=published, now=now)
            )

    async def _propose(
        self, moves: Sequence[Move], strategy: str, watched: Watched, epoch: LeaseEpoch, now: float
    ) -> list[str]:
        """Publishes the intents of a plan; returns the ids of those that the bus took."""
        life = self._settings.intent_life
        siblings = pods_of(watched, [move.pod.workload for move in moves if move.pod.workload is not None])
        published: list[str] = []
        for move in moves:
            intent = intent_of(move, strategy=strategy, now=now, life=life, epoch=epoch)
            known = [pod.metadata.uid for pod in siblings[move.pod.workload]] if move.pod.workload else []
            self._memory.proposed(intent, known=known, fit=move.pod.fit)
            if await self._say_intent(intent):
                published.append(intent.id)
                self._telemetry.intents.labels(strategy).inc()
                log.info(
                    "eviction proposed",
                    pod=f"{intent.namespace}/{intent.pod}",
                    node=intent.node,
                    target=intent.target,
                    reason=intent.reason,
                )
            else:
                self._memory.withdrawn(intent.id)
        return published

    async def _say_intent(self, intent: EvictionIntent) -> bool:
        subject = subjects.eviction_intent(intent.namespace, intent.pod)
        try:
            await self._bus.publish(subject, intent, message_id=intent.id)
        except Refused:
            log.debug("intent waiting already", pod=f"{intent.namespace}/{intent.pod}")
            return False
        except BusError as error:
            self._health.problem("intents", f"intents are not taken: {error}")
            return False
        self._health.problem("intents", None)
        return True

    async def _tell(self, decision: DescheduleDecision) -> None:
        """For people and records: nothing depends on it."""
        try:
            await self._bus.publish(subjects.decision("descheduler", decision.strategy), decision)
        except BusError as error:
            self._health.problem("decisions", f"decisions are not kept: {error}")
        else:
            self._health.problem("decisions", None)

    # What it stands on

    async def _stay_tidy(self) -> None:
        """Without the lead nobody evaluates, and what is heard must not pile up."""
        while True:
            await self._clock.sleep(self._settings.interval)
            if not self._health.leading and not self._watching.problem:
                self._tidy(self._watching.watched(), self._clock.now())

    def _tidy(self, watched: Watched, now: float) -> None:
        longest = self._load.longest
        self._heard.forget(nodes=self._watching.node_names(), before=now - self._load.life(longest))
        # A sample may be as old as it lives, and looks back over its window from there.
        self._watching.stays.forget(before=now - longest.length - self._load.life(longest))
        for back in self._memory.tidied(lambda workloads: arrivals_of(watched, workloads), now):
            self._telemetry.returns.inc()
            log.warning("replacement came back", workload=str(back.workload), node=back.node)

    def _fleet(self, watched: Watched, now: float) -> Fleet:
        measures = Measures(
            nodes=self._heard.nodes,
            workloads=self._heard.workloads,
            stays=self._watching.stays,
            settings=self._load,
            skew=skew_of(self._heard.cycles),
        )
        flights = self._memory.flights
        remembered = Remembered(flights=flights, cool_downs=self._memory.cool_downs)
        picture = Picture(watched, measures, remembered, self._rules, now=now)
        busy: dict[Workload, int] = {}
        for flight in flights.values():
            if flight.workload is not None:
                busy[flight.workload] = busy.get(flight.workload, 0) + 1
        return Fleet(
            now=now,
            nodes=picture.nodes(settling=self._load.coverage.node_settling),
            thresholds=self._thresholds,
            windows=[window.name for window in self._load.windows],
            limits=self._limits,
            busy_workloads=busy,
            in_flight=sum(flight.evicted_at is None for flight in flights.values()),
        )

    def _blindness(self, fleet: Fleet) -> str:
        """Why nothing may be moved at present; "" when enough is seen."""
        if self._watching.problem:
            return f"the API server is not followed: {self._watching.problem}"
        return blindness(self._heard.cycles, sum(not node.unknown for node in fleet.nodes), self._load)

    def _check_windows(self) -> None:
        known = [window.name for window in self._load.windows]
        for strategy in self._settings.strategies:
            for window in strategy.windows:
                if window not in known:
                    raise ConfigurationError(
                        f"descheduler.strategies: {name_of(strategy)} asks for window {window!r}, "
                        f"load.windows has {', '.join(known)}"
                    )
