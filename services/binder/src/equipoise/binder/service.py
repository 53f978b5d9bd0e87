"""The shell: one intent at a time from the queue to its outcome, in an order in which dying anywhere is safe."""

import asyncio
from functools import partial

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from equipoise.binder.answers import Reading, read_answer
from equipoise.binder.books import Books, Taken
from equipoise.binder.doubts import Verdict
from equipoise.binder.event import eviction_event
from equipoise.binder.examination import Examination
from equipoise.binder.ledger import Entry, Ledger
from equipoise.binder.ledger_store import Closed
from equipoise.binder.ledger_watch import LedgerWatch
from equipoise.binder.picture import Picture
from equipoise.binder.reading import has_left, read_pod
from equipoise.binder.settings import BinderSettings
from equipoise.contracts import subjects
from equipoise.contracts.messages import (
    EvictionIntent,
    NodePlacement,
    NodeUtilization,
    Outcome,
    UtilizationCycle,
)
from equipoise.contracts.protection import Rules
from equipoise.contracts.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.runtime.bus import Again, Bus, BusError, Delivery
from equipoise.runtime.clock import Clock
from equipoise.runtime.guarded import guarded, too_late
from equipoise.runtime.health import Health
from equipoise.runtime.kube import EVENTS, Conflict, EvictionAnswer, Kube, KubeError

log = structlog.get_logger()

_TRIES = 5
"""An intent that cannot be decided now is tried this often within its life."""


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
    ) -> None:
        self._settings = settings
        self._bus = bus
        self._kube = kube
        self._clock = clock
        self._health = health
        self._identity = identity
        self._picture = Picture()
        self._examination = Examination(
            kube=kube,
            clock=clock,
            picture=self._picture,
            rules=Rules(protection=protection, namespaces=namespaces, own_namespace=namespace),
            load=load,
            thresholds=thresholds,
        )
        self._books = Books(kube, clock, settings.limits, namespace)
        self._ledger_watch = LedgerWatch(self._books, clock, health)
        self._outcomes = Counter(
            "equipoise_binder_outcomes", "Outcomes of intents, by outcome.", ["outcome"], registry=metrics
        )
        self._seconds = Histogram(
            "equipoise_binder_intent_seconds", "Time from the delivery of an intent to its outcome.", registry=metrics
        )

    async def attach(self) -> None:
        """What it hears; the work queue is opened by `run`, once the last values are known."""
        await self._bus.follow("equipoise.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.follow("equipoise.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.follow("equipoise.placement.node.*", NodePlacement, self.on_node_placement)

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
        self._picture.measure(delivery.message)

    async def on_utilization_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        self._picture.end_round(delivery.message)

    async def on_node_placement(self, delivery: Delivery[NodePlacement]) -> None:
        self._picture.place(delivery.message)

    async def on_eviction_intent(self, delivery: Delivery[EvictionIntent]) -> Again | None:
        """None: its outcome was published."""
        intent = delivery.message
        started = self._clock.monotonic()
        try:
            ending = await self._carry_out(intent)
            if isinstance(ending, Again):
                return ending
            await self._conclude(intent, ending)
        except Taken as taken:
            log.info("intent left to another binder", intent=intent.id, pod=_name(intent), why=str(taken))
            return _again(intent)
        except KubeError as error:
            return await self._put_off(intent, error)
        except BusError as error:
            log.warning("intent put off", intent=intent.id, pod=_name(intent), why=str(error))
            return _again(intent)
        self._seconds.observe(self._clock.monotonic() - started)
        return None

    async def _put_off(self, intent: EvictionIntent, error: KubeError) -> Again | None:
        """The API server has no answer. At the last try that is told; a reservation stays in the ledger, and counts."""
        again = _again(intent, error.retry_after or 0.0)
        if self._clock.now() + again.after < intent.expires_at:
            log.warning("intent put off", intent=intent.id, pod=_name(intent), why=str(error))
            return again
        failed = Verdict(outcome=Outcome.FAILED, detail=f"not decided within its life: {error}")
        try:
            await self._publish(intent, failed, self._books.latest)
        except BusError:
            return again
        return None

    # From the intent to its end

    async def _carry_out(self, intent: EvictionIntent) -> "Again | _Ending":
        held = await self._books.read()
        self._ledger_watch.tell(held if isinstance(held, Closed) else held.ledger)
        if isinstance(held, Closed):
            return _Ending(verdict=Verdict(outcome=Outcome.PAUSED, detail=held.why), recorded=True)
        entry = held.ledger.entry(intent.id)
        if entry is not None and entry.outcome is not None:
            return _recorded(entry)
        if entry is not None:
            return await self._take_over(intent, entry, held.ledger)
        dry_run = not self._settings.evict
        examined = await self._examination.examine(intent, held.ledger)
        if isinstance(examined, Verdict):
            return _Ending(verdict=examined, dry_run=dry_run)
        doubt = partial(self._examination.doubt, intent, examined.lease)
        reserved = await self._books.reserve(intent, examined.move, dry_run=dry_run, doubt=doubt)
        if isinstance(reserved, Verdict):
            return _Ending(verdict=reserved, dry_run=dry_run, recorded=True)
        return await self._post(intent, reserved, dry_run=dry_run, inherited=False)

    async def _take_over(self, intent: EvictionIntent, entry: Entry, ledger: Ledger) -> "Again | _Ending":
        """Whoever reserved has died, or is slow: the POST may have happened, or may still."""
        pod = await read_pod(self._kube, intent.namespace, intent.pod)
        if has_left(pod, intent.pod_uid):
            return _Ending(verdict=_left(entry.dry_run), reserved=True)
        if ledger.paused:
            why = f"paused: {ledger.paused_why or 'no reason given'}"
            return _Ending(verdict=Verdict(outcome=Outcome.PAUSED, detail=why), reserved=True)
        examined = await self._examination.examine(intent, ledger)
        if isinstance(examined, Verdict):
            return _Ending(verdict=examined, reserved=True)
        await self._books.take_over(intent)
        dry_run = entry.dry_run or not self._settings.evict
        return await self._post(intent, entry, dry_run=dry_run, inherited=True)

    async def _post(self, intent: EvictionIntent, entry: Entry, *, dry_run: bool, inherited: bool) -> "Again | _Ending":
        """Asks the API server to evict. `inherited`: somebody may have asked before, so nothing is given back."""
        left = entry.expires_at - self._books.latest
        if left <= 0:
            late = Verdict(outcome=Outcome.EXPIRED, detail="expired while it was reserved")
            return _Ending(verdict=late, reserved=True, counted=inherited)
        reading = await self._ask_to_evict(intent, left, dry_run=dry_run)
        self._health.problem("eviction refused", reading.operator or None)
        if reading.verdict is not None:
            verdict = reading.verdict
            if inherited and verdict.outcome in (Outcome.ALREADY_GONE, Outcome.UID_CHANGED):
                verdict = _left(dry_run)
            return _Ending(verdict=verdict, reserved=True, counted=inherited or reading.meaning == "done")
        # No definite answer, or one that somebody else's earlier POST may have caused: look.
        if reading.meaning == "unknown":
            pod = await read_pod(self._kube, intent.namespace, intent.pod)
            if has_left(pod, intent.pod_uid):
                return _Ending(verdict=_left(dry_run), reserved=True)
        again = _again(intent, reading.retry_after)
        if self._clock.now() + again.after >= intent.expires_at:
            # Counted unless this POST was definitely refused: an unanswered one may still be carried out.
            failed = Verdict(outcome=Outcome.FAILED, detail=f"not carried out within its life: {reading.why}")
            return _Ending(verdict=failed, reserved=True, counted=inherited or reading.meaning == "unknown")
        if reading.meaning == "later" and not inherited:
            await self._books.release(intent)
        log.warning("intent put off", intent=intent.id, pod=_name(intent), why=reading.why)
        return again

    async def _ask_to_evict(self, intent: EvictionIntent, seconds: float, *, dry_run: bool) -> Reading:
        """The ledger relies on it that no POST is under way for longer than its intent lives."""
        request = self._kube.evict(intent.namespace, intent.pod, uid=intent.pod_uid, dry_run=dry_run)
        try:
            answer = await guarded(request, too_late(self._clock, seconds))
        except TimeoutError as error:
            answer = EvictionAnswer(status=0, reason="Timeout", message=str(error))
        return read_answer(
            answer.status,
            answer.message,
            disruption_budget=answer.disruption_budget,
            retry_after=answer.retry_after,
            dry_run=dry_run,
        )

    # What is said afterwards

    async def _conclude(self, intent: EvictionIntent, ending: "_Ending") -> None:
        """Into the ledger first: from then on every redelivery gives the same outcome."""
        verdict, settled_at = ending.verdict, ending.settled_at
        if not ending.recorded:
            entry = await self._books.settle(
                intent, verdict, dry_run=ending.dry_run, reserved=ending.reserved, counted=ending.counted
            )
            if entry is not None and entry.outcome is not None:
                verdict, settled_at = _verdict(entry.outcome, entry), entry.settled_at
        await self._publish(intent, verdict, self._books.latest if settled_at is None else settled_at)
        if verdict.outcome == Outcome.EVICTED:
            await self._write_event(intent)

    async def _publish(self, intent: EvictionIntent, verdict: Verdict, settled_at: float) -> None:
        """Exactly one outcome per intent: the bus drops a second one with the same id."""
        outcome = verdict.on(intent, settled_at)
        subject = subjects.eviction_outcome(intent.namespace, intent.pod)
        await self._bus.publish(subject, outcome, message_id=intent.id)
        self._outcomes.labels(verdict.outcome.value).inc()
        log.info(
            "intent settled",
            outcome=verdict.outcome.value,
            intent=intent.id,
            pod=_name(intent),
            node=intent.node,
            target=intent.target,
            reason=intent.reason,
            detail=verdict.detail,
        )

    async def _write_event(self, intent: EvictionIntent) -> None:
        try:
            await self._kube.create(EVENTS, eviction_event(intent, self._books.latest, self._identity))
        except Conflict:
            pass  # written before this intent came again
        except KubeError as error:
            log.warning("event not written", pod=_name(intent), error=str(error))


class _Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How an intent ends."""

    verdict: Verdict
    dry_run: bool = False
    reserved: bool = False
    """The reservation in the ledger is ours to settle."""

    counted: bool = True
    """Against the limits, if it was reserved."""

    recorded: bool = False
    """The ledger has it already, or there is no ledger."""

    settled_at: float | None = None


def _recorded(entry: Entry) -> _Ending:
    assert entry.outcome is not None
    return _Ending(verdict=_verdict(entry.outcome, entry), recorded=True, settled_at=entry.settled_at)


def _verdict(outcome: Outcome, entry: Entry) -> Verdict:
    return Verdict(outcome=outcome, detail=entry.detail, limit=entry.limit, room_at=entry.room_at)


def _again(intent: EvictionIntent, at_least: float = 0.0) -> Again:
    """The tries that the queue allows are spread over the intent's life."""
    return Again(after=max(at_least, (intent.expires_at - intent.decided_at) / _TRIES))


def _left(dry_run: bool) -> Verdict:
    """A pod that left after its eviction was reserved: by our POST, unless that was a dry run."""
    if dry_run:
        return Verdict(outcome=Outcome.ALREADY_GONE, detail="the pod left during the dry run")
    return Verdict(outcome=Outcome.EVICTED, detail="the answer was lost, but the pod has left")


def _name(intent: EvictionIntent) -> str:
    return f"{intent.namespace}/{intent.pod}"
