"""What is said once an intent has ended: its outcome on the bus, Events for people."""

import structlog
from prometheus_client import CollectorRegistry, Counter

from equipoise.binder.decisions.event import eviction_event, refusal_event, workload_reference
from equipoise.binder.decisions.staleness import Verdict
from equipoise.binder.shell.ledger_writer import Books
from equipoise.binder.shell.live_reads import Unreadable, read_workload
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects import Event, ObjectReference
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.runtime.bus import Bus
from equipoise.runtime.kubernetes.client import EVENTS, Conflict, Kube, KubeError

log = structlog.get_logger()


class Telling:
    def __init__(self, *, bus: Bus, kube: Kube, books: Books, identity: str, metrics: CollectorRegistry) -> None:
        self._bus = bus
        self._kube = kube
        self._books = books
        self._identity = identity
        self._outcomes = Counter(
            "equipoise_binder_outcomes", "Outcomes of intents, by outcome.", ["outcome"], registry=metrics
        )

    async def outcome(self, intent: EvictionIntent, verdict: Verdict, settled_at: float) -> None:
        """Exactly one outcome per intent: the bus drops a second one with the same id. Raises BusError."""
        outcome = verdict.on(intent, settled_at)
        subject = subjects.eviction_outcome(intent.namespace, intent.pod)
        await self._bus.publish(subject, outcome, message_id=intent.id)
        self._outcomes.labels(verdict.outcome.value).inc()
        log.info(
            "intent settled",
            outcome=verdict.outcome.value,
            intent=intent.id,
            pod=f"{intent.namespace}/{intent.pod}",
            node=intent.node,
            target=intent.target,
            reason=intent.reason,
            detail=verdict.detail,
        )

    async def evicted(self, intent: EvictionIntent, workload: Workload | None) -> None:
        """Events on the pod and on its workload; one that cannot be written is only logged."""
        now = self._books.latest
        await self._write(eviction_event(intent, now, self._identity))
        regarding = await self._reference(workload)
        if regarding is not None:
            await self._write(eviction_event(intent, now, self._identity, regarding=regarding))

    async def refused(self, intent: EvictionIntent, workload: Workload | None, why: str) -> None:
        """An Event on the workload."""
        regarding = await self._reference(workload)
        if regarding is not None:
            await self._write(refusal_event(intent, self._books.latest, self._identity, why, regarding=regarding))

    async def _reference(self, workload: Workload | None) -> ObjectReference | None:
        """With its UID, without which `kubectl describe` does not find the Event."""
        if workload is None:
            return None
        try:
            return workload_reference(await read_workload(self._kube, workload))
        except (KubeError, Unreadable) as error:
            log.warning("event not written", workload=str(workload), error=str(error))
            return None

    async def _write(self, event: Event) -> None:
        try:
            await self._kube.create(EVENTS, event)
        except Conflict:
            pass  # written before this intent came again
        except KubeError as error:
            log.warning("event not written", event=event.metadata.name, error=str(error))
