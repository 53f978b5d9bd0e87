"""The recorder knows which intents must have an outcome."""

from pathlib import Path
from typing import Any

import pytest
from builders import NOW, an_intent

from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.values.resources import Resources
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


def delivered(message: Any) -> Delivery[Any]:
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
    """An intent of a descheduler, received from the bus."""
    intent = an_intent()
    await recorder.on_intent(delivered(intent))
    assert recorder.pending() == [intent.id]
    await recorder.on_outcome(delivered(an_outcome(intent)))
    assert recorder.pending() == []
    assert recorder.count(Outcome.EVICTED) == 1


async def test_emptied_streams_may_lose_events_and_outcomes(recorder: Recorder) -> None:
    """Those of before; not what is acknowledged later."""
    intent = an_intent()
    await recorder.on_intent(delivered(intent))
    await recorder.on_outcome(delivered(an_outcome(intent)))
    recorder.record_event("before")
    recorder.streams_emptied()
    recorder.record_event("after")
    recorder.stored_events({"before"})
    assert [(event.stored, event.loss_expected) for event in recorder.events] == [(True, True), (False, False)]
    assert recorder.intents[intent.id].outcome_lost


async def test_an_intent_that_the_stream_refused_is_not_pending(recorder: Recorder) -> None:
    """Although a core subscription receives it."""
    intent = an_intent(strategy=HARNESS)
    recorder.record_intent(intent, epoch_held=True)
    recorder.remove_intent(intent.id)
    await recorder.on_intent(delivered(intent))
    assert recorder.pending() == []


async def test_a_second_intent_for_a_pod_is_not_pending(recorder: Recorder, clock: ManualClock) -> None:
    """The stream accepts one per pod; after its outcome the next one is pending."""
    first, second, third = (an_intent(id=name, decided_at=NOW + at) for at, name in enumerate("abc"))
    await recorder.on_intent(delivered(first))
    await clock.advance(1)
    await recorder.on_intent(delivered(second))
    assert recorder.pending() == ["a"]
    await clock.advance(0.5)
    await recorder.on_outcome(delivered(an_outcome(first)))
    await clock.advance(1)
    await recorder.on_intent(delivered(third))
    assert recorder.pending() == ["c"]


async def test_intents_of_emptied_streams_are_not_pending(recorder: Recorder) -> None:
    await recorder.on_intent(delivered(an_intent()))
    recorder.streams_emptied()
    assert recorder.pending() == []
    (published,) = recorder.history(0.0).intents
    assert not published.outcome_expected


async def test_what_is_forgotten_stays_counted(recorder: Recorder, clock: ManualClock) -> None:
    """A repeated outcome of a forgotten intent counts no more."""
    old = an_intent()
    await recorder.on_intent(delivered(old))
    await recorder.on_outcome(delivered(an_outcome(old)))
    await clock.advance(100)
    recorder.record_intent(new := an_intent(id="new", strategy=HARNESS), epoch_held=True)
    recorder.forget(NOW + 50)
    await recorder.on_outcome(delivered(an_outcome(old)))
    assert [published.intent.id for published in recorder.history(0.0).intents] == [new.id]
    assert (recorder.seen, recorder.first_outcomes) == (2, {Outcome.EVICTED: 1})


async def test_an_outcome_in_the_stream_settles_an_intent(recorder: Recorder) -> None:
    """The harness may have had no connection when it was published."""
    intent = an_intent()
    await recorder.on_intent(delivered(intent))
    recorder.record_missed(intent.id, Outcome.EVICTED)
    recorder.record_missed("of an earlier run", Outcome.EVICTED)
    assert recorder.pending() == []
    assert len(recorder.outcomes) == 1
