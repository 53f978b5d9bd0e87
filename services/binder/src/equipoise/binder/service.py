"""The shell: one intent at a time from the queue to its outcome, in an order in which dying anywhere is safe."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import structlog
from prometheus_client import CollectorRegistry, Histogram

from equipoise.binder.decisions.ending import Ending, left, paused, recorded, verdict_of
from equipoise.binder.decisions.fleet_state import Picture
from equipoise.binder.decisions.staleness import Verdict
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.eviction_client import Posting, again_for
from equipoise.binder.shell.ledger_watch import LedgerWatch
from equipoise.binder.shell.ledger_writer import Books, Taken
from equipoise.binder.shell.live_reads import has_left, read_pod
from equipoise.binder.shell.outcome_reporter import Telling
from equipoise.binder.shell.validation import Examination
from equipoise.binder.state.ledger import Closed, Entry, Ledger
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.contracts.eviction.protection import Rules
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.health import DRY_RUN, REAL
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.runtime.bus import Bus, BusError, Delivery, Redeliver
from equipoise.runtime.kubernetes.client import Kube, KubeError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

log = structlog.get_logger()


class Binder:
    """Several may run: they share the queue, and the ledger keeps them within one set of limits."""

    def __init__(
        self,
        *,
        settings: BinderSettings,
        load: LoadSettings,
        thresholds: Thresholds,
        namespaces: Namespaces,
        protection: Protection,
        namespace: str,
        bus: Bus,
        kube: Kube,
        clock: Clock,
        health: Health,
        metrics: CollectorRegistry,
        identity: str,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` gives 0..1 and spreads what would else come at the same moment."""
        self._settings = settings
        self._bus = bus
        self._kube = kube
        self._clock = clock
        self._health = health
        self._picture = Picture()
        self._examination = Examination(
            kube=kube,
            clock=clock,
            picture=self._picture,
            rules=Rules(protection=protection, namespaces=namespaces, own_namespace=namespace),
            load=load,
            thresholds=thresholds,
        )
        self._books = Books(kube, clock, settings.limits, namespace, lambda: self._picture.preempted)
        evictions = REAL if settings.evict else DRY_RUN
        self._ledger_watch = LedgerWatch(self._books, clock, health, evictions=evictions)
        self._telling = Telling(bus=bus, kube=kube, books=self._books, identity=identity, metrics=metrics)
        self._posting = Posting(
            kube=kube,
            clock=clock,
            books=self._books,
            examination=self._examination,
            health=health,
            sample_life=load.freshness.eviction,
            chance=chance,
        )
        self._seconds = Histogram(
            "equipoise_binder_intent_seconds", "Time from the delivery of an intent to its outcome.", registry=metrics
        )

    async def attach(self) -> None:
        """What it hears; the work queue is opened by `run`, once the last values are known."""
        await self._bus.subscribe_latest("equipoise.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.subscribe_latest("equipoise.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.subscribe_latest("equipoise.placement.node.*", NodePlacement, self.on_node_placement)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._ledger_watch.learn_the_time()
        self._health.warmed_up()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ledger_watch.run(), name="watch the ledger")
            tasks.create_task(
                self._bus.work(EvictionIntent, self.on_eviction_intent, concurrency=self._settings.concurrency),
                name="work on intents",
            )

    async def on_node_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        self._books.outages.heard(self._clock.monotonic())
        self._picture.measure(delivery.message)

    async def on_utilization_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        self._books.outages.heard(self._clock.monotonic())
        self._picture.end_round(delivery.message)

    async def on_node_placement(self, delivery: Delivery[NodePlacement]) -> None:
        self._books.outages.heard(self._clock.monotonic())
        self._picture.place(delivery.message)

    async def on_eviction_intent(self, delivery: Delivery[EvictionIntent]) -> Redeliver | None:
        """None: its outcome was published, or is another binder's to publish.

        Even one that is put off for the last time has an outcome.
        """
        intent = delivery.message
        try:
            again = await self._settle(intent)
        except Taken as taken:
            log.info("intent left to another binder", intent=intent.id, pod=_name(intent), why=str(taken))
            # One outcome is kept for each intent: "failed" from here would hide the eviction of the other.
            return None if delivery.last_attempt else again_for(intent)
        if again is None or not delivery.last_attempt:
            return again
        often = Verdict(outcome=Outcome.FAILED, detail="tried too often: not decided, or not carried out")
        try:
            await self._telling.outcome(intent, often, self._books.latest)
        except BusError:
            return again
        return None

    async def _settle(self, intent: EvictionIntent) -> Redeliver | None:
        """Raises Taken."""
        started = self._clock.monotonic()
        if waiting := self._posting.left_alone:
            throttled = KubeError(429, "Throttled", "the API server wants to be left alone", retry_after=waiting)
            return await self._put_off(intent, throttled)
        try:
            ending = await self._carry_out(intent)
            if isinstance(ending, Redeliver):
                return ending
            await self._conclude(intent, ending)
        except KubeError as error:
            if error.status == 429:
                self._posting.leave_alone(error.retry_after or 0.0)
            return await self._put_off(intent, error)
        except BusError as error:
            log.warning("intent put off", intent=intent.id, pod=_name(intent), why=str(error))
            return again_for(intent)
        self._posting.answered()
        self._seconds.observe(self._clock.monotonic() - started)
        return None

    async def _put_off(self, intent: EvictionIntent, error: KubeError) -> Redeliver | None:
        """The API server has no answer. At the last try that is told; a reservation stays in the ledger, and counts."""
        again = again_for(intent, error.retry_after or 0.0)
        if self._clock.now() + again.after < intent.expires_at:
            log.warning("intent put off", intent=intent.id, pod=_name(intent), why=str(error))
            return again
        failed = Verdict(outcome=Outcome.FAILED, detail=f"not decided within its life: {error}")
        try:
            await self._telling.outcome(intent, failed, self._books.latest)
        except BusError:
            return again
        return None

    # From the intent to its end

    async def _carry_out(self, intent: EvictionIntent) -> Redeliver | Ending:
        held = await self._books.read()
        self._ledger_watch.tell(held if isinstance(held, Closed) else held.ledger)
        if isinstance(held, Closed):
            return Ending(verdict=Verdict(outcome=Outcome.PAUSED, detail=held.why), recorded=True)
        entry = held.ledger.entry(intent.id)
        if entry is not None and entry.outcome is not None:
            return recorded(entry)
        if entry is not None:
            return await self._take_over(intent, entry, held.ledger)
        dry_run = not self._settings.evict
        examined = await self._examination.examine(intent, held.ledger)
        if isinstance(examined, Verdict):
            return Ending(verdict=examined, dry_run=dry_run)
        asked_at = self._clock.monotonic()
        blocked = self._posting.blocked(intent, examined.move.workload, dry_run=dry_run)
        if blocked is not None:
            return blocked
        doubt = partial(self._examination.doubt, intent, examined.lease)
        reserved = await self._books.reserve(intent, examined.move, dry_run=dry_run, doubt=doubt)
        if isinstance(reserved, Verdict):
            return Ending(verdict=reserved, dry_run=dry_run, recorded=True)
        return await self._posting.post(intent, reserved, examined, asked_at, dry_run=dry_run, inherited=False)

    async def _take_over(self, intent: EvictionIntent, entry: Entry, ledger: Ledger) -> Redeliver | Ending:
        """Whoever reserved has died, or is slow: the POST may have happened, or may still."""
        asked_at = self._clock.monotonic()
        pod = await read_pod(self._kube, intent.namespace, intent.pod)
        if has_left(pod, intent.pod_uid):
            return Ending(verdict=left(dry_run=entry.dry_run), reserved=True)
        if ledger.paused:
            return Ending(verdict=paused(ledger.paused_why), reserved=True)
        examined = await self._examination.examine(intent, ledger)
        if isinstance(examined, Verdict):
            return Ending(verdict=examined, reserved=True)
        await self._books.take_over(intent)
        dry_run = entry.dry_run or not self._settings.evict
        return await self._posting.post(intent, entry, examined, asked_at, dry_run=dry_run, inherited=True)

    # What is said afterwards

    async def _conclude(self, intent: EvictionIntent, ending: Ending) -> None:
        """Into the ledger first: from then on every redelivery gives the same outcome."""
        verdict, settled_at, workload = ending.verdict, ending.settled_at, intent.workload
        if not ending.recorded:
            entry = await self._books.settle(
                intent, verdict, dry_run=ending.dry_run, reserved=ending.reserved, counted=ending.counted
            )
            if entry is not None and entry.outcome is not None:
                verdict, settled_at = verdict_of(entry), entry.settled_at
                workload = entry.workload or workload
        await self._telling.outcome(intent, verdict, self._books.latest if settled_at is None else settled_at)
        if verdict.outcome == Outcome.EVICTED:
            await self._telling.evicted(intent, workload)
        elif ending.of_workload:
            await self._telling.refused(intent, workload, verdict.detail)


def _name(intent: EvictionIntent) -> str:
    return f"{intent.namespace}/{intent.pod}"
