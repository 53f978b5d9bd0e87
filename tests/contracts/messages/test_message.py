"""Structs with fields in common."""

import pytest
from builders import an_intent

from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted


def test_fields_of_the_same_name_are_taken_over_unless_they_are_given() -> None:
    """Fields that only the other struct has keep their default."""
    intent = an_intent()
    outcome = converted(intent, EvictionOutcome, intent_id=intent.id, outcome=Outcome.PAUSED, settled_at=1.0, node="b")

    assert (outcome.intent_id, outcome.pod, outcome.node) == (intent.id, intent.pod, "b")
    assert outcome.expected_reduction is intent.expected_reduction
    assert outcome.detail == ""


def test_a_missing_field_is_an_error() -> None:
    """It has no default."""
    with pytest.raises(TypeError, match="settled_at"):
        converted(an_intent(), EvictionOutcome, intent_id="a", outcome=Outcome.PAUSED)
