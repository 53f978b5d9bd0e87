"""Events as the API server accepts them."""

import msgspec
from builders import an_intent

from equipoise.binder.decisions.event import intent_event, pod_reference
from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.contracts.messages.eviction import EvictionIntent


def eviction_event(intent: EvictionIntent, now: float, instance: str) -> Event:
    return intent_event(intent, now, instance, pod_reference(intent))


def test_an_event_has_the_form_that_the_api_server_requires() -> None:
    """Six digits of a second even at a whole one, a note of at most 1,024 bytes, and the same name each time."""
    intent = an_intent("p" * 253, reason="ü" * 2_000)
    event = eviction_event(intent, 1_800_000_000.0, "binder" * 40)
    assert b'"eventTime":"2027-01-15T08:00:00.000001Z"' in msgspec.json.encode(event)
    assert len(event.note.encode()) <= 1_024
    assert len(event.metadata.name) <= 253
    assert len(event.reporting_instance) <= 128
    assert eviction_event(intent, 1_800_000_009.0, "other").metadata.name == event.metadata.name
    assert eviction_event(an_intent("p" * 253, id="x"), 0.0, "b").metadata.name != event.metadata.name
