"""The Events that tell the owner of a pod why it was evicted, or why it cannot be."""

import hashlib
from datetime import UTC, datetime
from typing import Literal

from equipoise.contracts.kubernetes.objects import Event, ObjectMeta, ObjectReference, WorkloadObject
from equipoise.contracts.messages.eviction import EvictionIntent

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


def eviction_event(
    intent: EvictionIntent, now: float, instance: str, *, regarding: ObjectReference | None = None
) -> Event:
    """The pod was evicted. On the pod, or on the object that `regarding` names."""
    pod = "Pod" if regarding is None else f"Pod {intent.pod}"
    note = f'{pod} evicted from node "{intent.node}" by the reason "{intent.reason}"'
    return _event(intent, now, instance, regarding or pod_reference(intent), "Normal", "Descheduled", note)


def refusal_event(intent: EvictionIntent, now: float, instance: str, why: str, *, regarding: ObjectReference) -> Event:
    """The pod cannot be evicted until its owner changes something."""
    note = f"Pod {intent.pod} cannot be evicted: {why}"
    return _event(intent, now, instance, regarding, "Warning", "EvictionRefused", note)


def _event(
    intent: EvictionIntent,
    now: float,
    instance: str,
    regarding: ObjectReference,
    kind: Literal["Normal", "Warning"],
    reason: str,
    note: str,
) -> Event:
    """One Event per intent and object: both determine its name, so that a second write conflicts."""
    digest = hashlib.sha256(f"{intent.id} {regarding.kind}".encode()).hexdigest()[:16]
    time = datetime.fromtimestamp(now, UTC)
    return Event(
        metadata=ObjectMeta(name=f"{regarding.name[:_NAME_LENGTH]}.{digest}", namespace=intent.namespace),
        # The API server requires six digits of a second, and msgspec writes none for a whole second.
        event_time=time.replace(microsecond=time.microsecond or 1),
        type=kind,
        reason=reason,
        action="Migrating",
        note=note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
        regarding=regarding,
        reporting_controller=CONTROLLER,
        reporting_instance=instance[:_INSTANCE_LENGTH] or "binder",
    )
