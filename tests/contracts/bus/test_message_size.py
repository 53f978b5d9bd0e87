"""Messages that would be too large for the bus."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.bus.message_size import shortened
from equipoise.contracts.messages.descheduling import DESCHEDULE_DECISION, DescheduleDecision, RefusedMove
from equipoise.contracts.messages.plan import PLAN_RESPONSE


def refusals(number: int, text: str = "x") -> list[RefusedMove]:
    return [RefusedMove(pod=f"web-{each}", node="node-a", why=text) for each in range(number)]


def test_a_message_that_fits_stays_as_it_is() -> None:
    assert shortened(DESCHEDULE_DECISION, 100_000) == (DESCHEDULE_DECISION, "")


def test_long_texts_are_cut_before_anything_is_left_out() -> None:
    """Five pods with a quarter of a megabyte each."""
    large = msgspec.structs.replace(DESCHEDULE_DECISION, refused=refusals(5, "x" * 250_000))

    message, what = shortened(large, 900_000)

    assert what == "with shortened texts"
    assert [each.pod for each in message.refused] == [f"web-{each}" for each in range(5)]
    assert (message.nodes, message.moves) == (DESCHEDULE_DECISION.nodes, DESCHEDULE_DECISION.moves)


def test_the_longest_list_loses_its_end_and_is_named() -> None:
    """Proposals stay: they are few."""
    large = msgspec.structs.replace(DESCHEDULE_DECISION, refused=refusals(800, "x" * 200))

    message, what = shortened(large, 60_000)

    assert what == "without 600 of 800 refused"
    assert message.refused == large.refused[:200]
    assert message.moves == large.moves


@pytest.mark.parametrize("example", [DESCHEDULE_DECISION, PLAN_RESPONSE], ids=["decision", "plan"])
@given(number=st.integers(0, 300), length=st.integers(0, 5_000), limit=st.integers(4_000, 50_000))
def test_whatever_it_contains_it_fits(example: DescheduleDecision, number: int, length: int, limit: int) -> None:
    large = msgspec.structs.replace(example, refused=refusals(number, "\x1b" * length))

    message, what = shortened(large, limit)

    assert len(msgspec.json.encode(message)) <= limit
    assert (message == large) == (what == "")
