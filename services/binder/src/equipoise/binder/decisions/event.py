"""The Events for the owner of a pod: why it was evicted, or why it cannot be."""

import hashlib
from datetime import UTC, datetime

from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ObjectReference
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.plain_text import plain_text

CONTROLLER = "equipoise.dev/binder"

_NOTE_BYTES = 1_024
_INSTANCE_LENGTH = 128
_NAME_LENGTH = 230


def pod_reference(intent: EvictionIntent) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=intent.namespace, name=intent.pod, uid=intent.pod_uid
    )


def workload_reference(workload: WorkloadObject) -> ObjectReference:
    meta = workload.metadata
    return ObjectReference(
        api_version=workload.api_version, kind=workload.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


def fence_probe(namespace: str, name: str, now: float) -> Event:
    """A valid Event of this name in the namespace of Equipoise."""
    ledger = ObjectReference(api_version="v1", kind="ConfigMap", namespace=namespace, name="equipoise-ledger")
    return Event(
        metadata=ObjectMeta(name=name, namespace=namespace),
        event_time=_event_time(now),
        reason="FenceCheck",
        action="Checking",
        regarding=ledger,
        reporting_controller=CONTROLLER,
        reporting_instance="binder",
    )


def intent_event(
    intent: EvictionIntent,
    now: float,
    instance: str,
    regarding: ObjectReference,
    *,
    refusal: str = "",
    campaign: str = "",
) -> Event:
    """The Event that the pod was evicted, or, with a `refusal`, that it cannot be until its owner changes something.

    `campaign`: the name of the campaign to which the move belongs.

    There is one Event per intent and object: both determine its name, so that a second write conflicts.
    """
    digest = hashlib.sha256(f"{intent.id} {regarding.kind}".encode()).hexdigest()[:16]
    pod = "Pod" if regarding.kind == "Pod" else f"Pod {intent.pod}"
    part_of = f' in campaign "{campaign}"' if campaign else ""
    note = f'{pod} evicted from node "{intent.node}"{part_of} by the reason "{intent.reason}"'
    if refusal:
        note = f"{pod} cannot be evicted: {refusal}"
    return Event(
        metadata=ObjectMeta(name=f"{regarding.name[:_NAME_LENGTH]}.{digest}", namespace=intent.namespace),
        event_time=_event_time(now),
        type="Warning" if refusal else "Normal",
        reason="EvictionRefused" if refusal else "Descheduled",
        action="Migrating",
        note=plain_text(note, _NOTE_BYTES).encode()[:_NOTE_BYTES].decode(errors="ignore"),
        regarding=regarding,
        reporting_controller=CONTROLLER,
        reporting_instance=instance[:_INSTANCE_LENGTH] or "binder",
    )


def _event_time(now: float) -> datetime:
    """The time of an Event, never a whole second: the API server requires six digits, and msgspec would write none."""
    time = datetime.fromtimestamp(now, UTC)
    return time.replace(microsecond=time.microsecond or 1)
