"""The Event that tells the owner of a pod why it was evicted."""

import hashlib
from datetime import UTC, datetime

from equipoise.contracts.messages import EvictionIntent
from equipoise.contracts.objects import Event, ObjectMeta, ObjectReference

CONTROLLER = "equipoise.dev/binder"

_NOTE_BYTES = 1_024
_INSTANCE_LENGTH = 128
_NAME_LENGTH = 230


def eviction_event(intent: EvictionIntent, now: float, instance: str) -> Event:
    """One Event per intent: its name follows from the intent, so that writing it twice conflicts."""
    note = f'Pod evicted from node "{intent.node}" by the reason "{intent.reason}"'
    digest = hashlib.sha256(intent.id.encode()).hexdigest()[:16]
    moment = datetime.fromtimestamp(now, UTC)
    return Event(
        metadata=ObjectMeta(name=f"{intent.pod[:_NAME_LENGTH]}.{digest}", namespace=intent.namespace),
        # The API server reads exactly six digits of a second, and whole seconds are written without any.
        event_time=moment.replace(microsecond=moment.microsecond or 1),
        type="Normal",
        reason="Descheduled",
        action="Migrating",
        note=note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
        regarding=ObjectReference(
            api_version="v1", kind="Pod", namespace=intent.namespace, name=intent.pod, uid=intent.pod_uid
        ),
        reporting_controller=CONTROLLER,
        reporting_instance=instance[:_INSTANCE_LENGTH] or "binder",
    )
