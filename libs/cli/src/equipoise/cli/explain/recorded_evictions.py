"""Evictions as the API server has them, in the ledger and in Events, which remain when the bus is restarted."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from equipoise.binder.decisions.event import CONTROLLER
from equipoise.binder.shell.ledger_store import NAME, NotInstalled, read_installed
from equipoise.binder.state.ledger import CERTAIN, Ledger, LedgerClosed, LedgerEntry, LedgerRecord
from equipoise.cli.explain.eviction_history import EvictionRecord
from equipoise.cli.terminal import count, listed, time_of_day
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectReference
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.kubernetes.client import Kube, KubeError, Resource

NO_REASON = "not recorded: an earlier version of Equipoise reserved it"

MAX_NAMED = 5
"""Other evictions that are named."""


class RecordedEvent(Object, frozen=True, kw_only=True):
    """An Event of the core group, whose API server finds those of one object."""

    message: str = ""
    event_time: datetime | None = None
    involved_object: ObjectReference = ObjectReference()
    reporting_component: str = ""
    reason: str = ""


POD_EVENTS: Resource[RecordedEvent] = Resource(
    group="", version="v1", plural="events", kind="Event", model=RecordedEvent
)


class RecordedEvictions(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server has of one pod, and of how many evictions it has the reason."""

    evictions: list[EvictionRecord] = []
    """Oldest first."""

    searched: list[str] = []
    """What was searched, and what it contains: shown if nothing was found about the pod."""


async def read_recorded(kube: Kube, own_namespace: str, namespace: str, pod: str, now: float) -> RecordedEvictions:
    """The evictions in the ledger, else in the Events of the pod. `searched` states what was read."""
    try:
        stored = await read_installed(kube, own_namespace)
    except (KubeError, NotInstalled) as error:
        evictions, searched = [], [f"the ledger cannot be read: {error}"]
    else:
        ledger = stored if isinstance(stored, LedgerClosed) else stored.ledger
        evictions = [] if isinstance(ledger, LedgerClosed) else of_ledger(ledger, own_namespace, namespace, pod)
        searched = [ledger.why if isinstance(ledger, LedgerClosed) else ledger_text(ledger, now)]
    if evictions:
        return RecordedEvictions(evictions=evictions, searched=searched)
    try:
        events = await kube.list(POD_EVENTS, namespace, field_selector=f"involvedObject.name={pod}")
    except KubeError as error:
        return RecordedEvictions(searched=[*searched, f"Events of {namespace} cannot be read: {error.message}"])
    return RecordedEvictions(
        evictions=of_events(events, namespace, pod),
        searched=[*searched, f"namespace {namespace} has no Event about it (Events are kept for an hour by default)"],
    )


def of_ledger(ledger: Ledger, own_namespace: str, namespace: str, pod: str) -> list[EvictionRecord]:
    """The ledger's evictions of the pod, oldest first: those carried out in the last day, and those reserved."""
    source = f"the ledger, ConfigMap {own_namespace}/{NAME}"
    past = {
        each.intent_id: _record(each, each.settled_at, source) for each in ledger.past if _is_of(each, namespace, pod)
    }
    entries = (each for each in ledger.entries if _is_of(each, namespace, pod) and not each.preempted_for)
    latest = {
        each.intent_id: _record(each, each.settled_at, source)
        for each in entries
        if each.outcome is None or each.outcome in CERTAIN
    }
    return sorted((latest | past).values(), key=lambda each: each.decided_at)


def _is_of(each: LedgerRecord, namespace: str, pod: str) -> bool:
    return (each.namespace, each.pod) == (namespace, pod)


def _record(of: LedgerRecord, settled_at: float | None, source: str) -> EvictionRecord:
    outcome = None
    if settled_at is not None:
        outcome = converted(
            of,
            EvictionOutcome,
            outcome=Outcome.DRY_RUN if of.dry_run else Outcome.EVICTED,
            pod_uid="",
            expected_reduction=Resources(),
            decided_at=of.reserved_at,
            settled_at=settled_at,
        )
    return converted(
        of,
        EvictionRecord,
        pod_uid="",
        reason=of.reason or NO_REASON,
        expected_reduction=Resources(),
        decided_at=of.reserved_at,
        expires_at=None,
        outcome=outcome,
        source=source,
    )


def of_events(events: Sequence[RecordedEvent], namespace: str, pod: str) -> list[EvictionRecord]:
    """The evictions in Events that binders wrote about the pod, oldest first."""
    of_pod = [each for each in events if each.reporting_component == CONTROLLER and each.involved_object.kind == "Pod"]
    found = [_of_event(each, each.event_time.timestamp(), namespace, pod) for each in of_pod if each.event_time]
    return sorted(found, key=lambda each: each.decided_at)


def _of_event(event: RecordedEvent, at: float, namespace: str, pod: str) -> EvictionRecord:
    entry = LedgerEntry(
        intent_id="",
        pod_uid="",
        namespace=namespace,
        pod=pod,
        node="",
        reason=event.message,
        reserved_at=at,
        expires_at=at,
    )
    return _record(entry, at, f"the Event {namespace}/{event.metadata.name}")


def ledger_text(ledger: Ledger, now: float) -> str:
    """How many evictions the ledger counts, as `equipoise status` does, and those whose reasons it has."""
    last_day = ledger.last_day(now)
    counts = f"{count(last_day.evictions, 'eviction')}, {count(last_day.dry_runs, 'dry run')}"
    latest = [f"{each.namespace}/{each.pod} at {time_of_day(each.settled_at)}" for each in ledger.past[::-1]]
    reasons = f", with reasons of {listed(latest, MAX_NAMED)}" if latest else ""
    return f"the ledger counts {counts} in the last 24 hours{reasons}"
