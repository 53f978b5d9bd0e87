"""The recorder knows which intents must be answered for."""

from pathlib import Path
from typing import Any

import pytest
from builders import NOW, an_intent

from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.bus import Delivery
from equipoise.testbed.memory.clock import ManualClock
from faults.history import HARNESS
from faults.recording import Recorder


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def recorder(clock: ManualClock, tmp_path: Path) -> Recorder:
    return Recorder(clock, tmp_path / "audit.log")


def heard(message: Any) -> Delivery[Any]:
    return Delivery(subject="", message=message)


def an_outcome(intent: EvictionIntent) -> EvictionOutcome:
    return EvictionOutcome(
        intent_id=intent.id,
        outcome=Outcome.EVICTED,
        pod_uid=intent.pod_uid,
        namespace=intent.namespace,
        pod=intent.pod,
        node=intent.node,
        target=intent.target,
        reason=intent.reason,
        expected_reduction=Resources(),
        decided_at=intent.decided_at,
        settled_at=NOW,
    )


async def test_an_intent_is_open_until_its_outcome(recorder: Recorder) -> None:
    """One of a descheduler, as it passes on the bus."""
    intent = an_intent()
    await recorder.on_intent(heard(intent))
    assert recorder.open() == [intent.id]
    await recorder.on_outcome(heard(an_outcome(intent)))
    assert recorder.open() == []
    assert recorder.count(Outcome.EVICTED) == 1


async def test_what_the_stream_refused_is_not_waited_for(recorder: Recorder) -> None:
    """An own intent that the stream refused stays unsaid although it passes on the bus."""
    intent = an_intent(strategy=HARNESS)
    recorder.say(intent, epoch_held=True)
    recorder.unsay(intent.id)
    await recorder.on_intent(heard(intent))
    assert recorder.open() == []


async def test_a_second_intent_for_a_waiting_pod_was_refused(recorder: Recorder, clock: ManualClock) -> None:
    """The stream takes one per pod at a time; once that is settled the next one counts."""
    first, second, third = (an_intent(id=name, decided_at=NOW + at) for at, name in enumerate("abc"))
    await recorder.on_intent(heard(first))
    await clock.advance(1)
    await recorder.on_intent(heard(second))
    assert recorder.open() == ["a"]
    await clock.advance(0.5)
    await recorder.on_outcome(heard(an_outcome(first)))
    await clock.advance(1)
    await recorder.on_intent(heard(third))
    assert recorder.open() == ["c"]


async def test_lost_intents_are_nobodys_matter(recorder: Recorder) -> None:
    """After the streams were emptied what was open need not be answered, and is not said to be."""
    await recorder.on_intent(heard(an_intent()))
    recorder.lost()
    assert recorder.open() == []
    (said,) = recorder.history(0.0).intents
    assert not said.answered_for
