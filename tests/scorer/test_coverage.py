"""When too little is known to tell nodes apart."""

import pytest
from builders import NOW
from scorer.fleets import a_cycle

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.scorer.decisions.coverage import doubt


def ask(*cycles: UtilizationCycle, fresh_here: int = 1_000, now: float = NOW) -> str:
    return doubt(cycles, fresh_here=fresh_here, load=LoadSettings(), now=now)


def test_enough_is_known() -> None:
    """At 70 % of the expected nodes there is no doubt."""
    assert ask(a_cycle(100, 70)) == ""


@pytest.mark.parametrize(
    ("cycles", "fresh_here", "why"),
    [
        ([], 1_000, "no collector has ended a round yet"),
        ([a_cycle(100, 69)], 1_000, "69 of 100 nodes"),
        ([a_cycle(100)], 69, "69 of 100 nodes"),
        ([a_cycle(0)], 0, "no node is expected"),
        ([a_cycle(100, skew=-11.0)], 1_000, "clock is -11.0 s off"),
        ([a_cycle(100, queried_at=NOW - 181)], 1_000, "no collector has ended a round within 3m"),
        ([a_cycle(50), a_cycle(50, shard="1", queried_at=NOW - 181)], 1_000, "50 of 100 nodes"),
        ([a_cycle(100, queried_at=NOW + 60)], 1_000, "no collector has ended a round"),
    ],
)
def test_reasons_to_doubt(cycles: list[UtilizationCycle], fresh_here: int, why: str) -> None:
    """Too few nodes, at the collector or here; a silent shard; a foreign clock; nothing at all."""
    assert why in ask(*cycles, fresh_here=fresh_here)


def test_shards_add_up() -> None:
    """Two shards of which one knows all and one half of its nodes cover three quarters."""
    assert ask(a_cycle(50), a_cycle(50, 25, shard="1")) == ""


def test_a_shard_that_was_dissolved_is_forgotten() -> None:
    """After half an hour of silence a shard's nodes are nobody's, and no longer expected."""
    assert ask(a_cycle(50), a_cycle(500, shard="1", queried_at=NOW - 1_801)) == ""
