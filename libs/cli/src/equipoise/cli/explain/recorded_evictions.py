"""Evictions in the ledger and in Events. The API server has them, so they are kept when the bus is restarted."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from equipoise.binder.decisions.event import CONTROLLER
from equipoise.binder.shell.ledger_store import NAME, NotInstalled, read_installed
from equipoise.binder.state.ledger import Ledger, LedgerClosed
from equipoise.binder.state.ledger_entry import CERTAIN, LedgerEntry, LedgerRecord
from equipoise.cli.explain.eviction_history import EvictionRecord
from equipoise.cli.terminal import count, listed, time_of_day
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectReference
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.kubernetes.client import Kube, KubeError, Resource

NO_REASON = "not recorded: an earlier version of Equipoise reserved it"

MAX_NAMED = 5
"""The maximum number of other evictions to name."""


class RecordedEvent(Object, frozen=True, kw_only=True):
    """An Event of the core group, whose Events the API server can select by their object."""

    message: str = ""
    event_time: datetime | None = None
    involved_object: ObjectReference = ObjectReference()
    reporting_component: str = ""
    reason: str = ""


POD_EVENTS: Resource[RecordedEvent] = Resource(
    group="", version="v1", plural="events", kind="Event", model=RecordedEvent
)


class RecordedEvictions(msgspec.Struct, frozen=True, kw_only=True):
    """The evictions of one pod that the API server has."""

    evictions: list[EvictionRecord] = []
    """The evictions, oldest first."""

    searched: list[str] = []
    """The sources that were searched, each with its contents or an error. They are shown if no eviction was found."""


async def read_recorded(kube: Kube, own_namespace: str, namespace: str, pod: str, now: float) -> RecordedEvictions:
    """The evictions in the ledger; if it has none, those in the Events of the pod."""
    evictions: list[EvictionRecord] = []
    try:
        stored = await read_installed(kube, own_namespace)
    except (KubeError, NotInstalled) as error:
        searched = [f"the ledger cannot be read: {error}"]
    else:
        if isinstance(stored, LedgerClosed):
            searched = [stored.why]
        else:
            evictions = of_ledger(stored.ledger, own_namespace, namespace, pod)
            searched = [ledger_text(stored.ledger, now)]
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
        eviction.intent_id: _record(eviction, eviction.settled_at, source)
        for eviction in ledger.past
        if _is_of(eviction, namespace, pod)
    }
    latest = {
        entry.intent_id: _record(entry, entry.settled_at, source)
        for entry in ledger.entries
        if _is_of(entry, namespace, pod)
        and not entry.preempted_for
        and (entry.outcome is None or entry.outcome in CERTAIN)
    }
    return sorted((latest | past).values(), key=lambda record: record.decided_at)


def _is_of(eviction: LedgerRecord, namespace: str, pod: str) -> bool:
    return (eviction.namespace, eviction.pod) == (namespace, pod)


def _record(eviction: LedgerRecord, settled_at: float | None, source: str) -> EvictionRecord:
    outcome = None
    if settled_at is not None:
        outcome = converted(
            eviction,
            EvictionOutcome,
            outcome=Outcome.DRY_RUN if eviction.dry_run else Outcome.EVICTED,
            pod_uid="",
            expected_reduction=Resources(),
            decided_at=eviction.reserved_at,
            settled_at=settled_at,
        )
    return converted(
        eviction,
        EvictionRecord,
        pod_uid="",
        reason=eviction.reason or NO_REASON,
        expected_reduction=Resources(),
        decided_at=eviction.reserved_at,
        expires_at=None,
        outcome=outcome,
        source=source,
    )


def of_events(events: Sequence[RecordedEvent], namespace: str, pod: str) -> list[EvictionRecord]:
    """The evictions in Events that binders wrote about the pod, oldest first."""
    records = [
        _of_event(event, event.event_time.timestamp(), namespace, pod)
        for event in events
        if event.event_time and event.reporting_component == CONTROLLER and event.involved_object.kind == "Pod"
    ]
    return sorted(records, key=lambda record: record.decided_at)


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
    """The number of evictions in the last day, as `equipoise status` counts them, and the latest recorded evictions."""
    last_day = ledger.last_day(now)
    counts = f"{count(last_day.evictions, 'eviction')}, {count(last_day.dry_runs, 'dry run')}"
    latest = [f"{past.namespace}/{past.pod} at {time_of_day(past.settled_at)}" for past in ledger.past[::-1]]
    reasons = f", with reasons of {listed(latest, MAX_NAMED)}" if latest else ""
    return f"the ledger counts {counts} in the last 24 hours{reasons}"
