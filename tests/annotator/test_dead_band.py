"""When a value is worth a write."""

from itertools import pairwise

import pytest
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.write_decision import DeadBand, Scale, Write, Written, decide, rest_after
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.configuration.duration import Duration

BAND = AnnotatorSettings().nodes
MEANS = st.dictionaries(st.sampled_from(["5m cpu", "5m memory", "1h cpu"]), st.floats(0, 2))


def last(means: dict[str, float], ago: float = 90.0) -> Written:
    return Written(at=NOW - ago, sampled_at=NOW - ago, means=means)


def asked(
    written: Written | None,
    means: dict[str, float],
    *,
    key: str = "node/a",
    sampled_at: float = NOW,
    now: float = NOW,
    scale: Scale = "points",
) -> Write | None:
    return decide(key, written, means, sampled_at=sampled_at, now=now, band=BAND, scale=scale)


def a_key_whose_turn_is_not_between(before: float, now: float) -> str:
    """A key that has no turn in that time, so that only a change can make a write."""
    keys = (f"node/{number}" for number in range(1_000))
    return next(key for key in keys if asked(last({"x": 1.0}, ago=now - before), {"x": 1.0}, key=key, now=now) is None)


QUIET = a_key_whose_turn_is_not_between(NOW - 90, NOW)


def test_what_was_never_written_is_written() -> None:
    """By us, since we began."""
    assert asked(None, {"5m cpu": 0.5}) == Write(why="not written before")


def test_nothing_known_is_never_written() -> None:
    """Not even for the first time."""
    assert asked(None, {}) is None


@pytest.mark.parametrize(("cpu", "written"), [(0.55, False), (0.5501, True), (0.4499, True), (0.5, False)])
def test_a_node_is_written_on_a_change_of_more_than_five_points(cpu: float, written: bool) -> None:
    """Up or down; exactly five points are within the band."""
    write = asked(last({"5m cpu": 0.5}), {"5m cpu": cpu}, key=QUIET)
    assert (write is not None) == written
    if write is not None:
        assert write == Write(why="5m cpu changed by 5.0 points", urgent=True)


def test_a_workload_is_written_on_a_change_relative_to_what_stands_there() -> None:
    """5 % of 10 cores are half a core; from nothing to something is always a change."""
    assert asked(last({"1h cpu": 10.0}), {"1h cpu": 10.4}, key=QUIET, scale="relative") is None
    write = asked(last({"1h cpu": 10.0}), {"1h cpu": 12.0}, key=QUIET, scale="relative")
    assert write == Write(why="1h cpu changed by 20.0 %", urgent=True)
    assert asked(last({"1h cpu": 0.0}), {"1h cpu": 0.01}, key=QUIET, scale="relative") is not None
    assert asked(last({"1h cpu": 0.0}), {"1h cpu": 0.0}, key=QUIET, scale="relative") is None


def test_a_window_that_becomes_known_is_a_change_and_one_that_is_lost_is_none() -> None:
    """There is nothing new to write about what is no longer known."""
    both = {"5m cpu": 0.5, "1h cpu": 0.5}
    assert asked(last({"5m cpu": 0.5}), both, key=QUIET) == Write(why="1h cpu is known now", urgent=True)
    assert asked(last(both), {"5m cpu": 0.5}, key=QUIET) is None


@given(MEANS, MEANS, st.floats(0, 59.9))
def test_no_object_is_written_twice_within_a_minute(
    before: dict[str, float], now: dict[str, float], ago: float
) -> None:
    """However much it changes."""
    assert asked(last(before, ago), now, sampled_at=NOW) is None


@given(MEANS, MEANS, st.floats(60, 1e6), st.floats(0, 1e6))
def test_an_older_value_never_replaces_a_newer_one(
    before: dict[str, float], now: dict[str, float], ago: float, older: float
) -> None:
    """Nor does the same sample come twice."""
    written = last(before, ago)
    assert asked(written, now, sampled_at=written.sampled_at - older) is None


@given(st.text(min_size=1, max_size=20), st.floats(1_800, 1e6))
def test_every_object_has_its_turn_in_every_period(key: str, ago: float) -> None:
    """Without any change it is written again half an hour after the last write at the latest."""
    assert asked(last({"5m cpu": 0.5}, ago), {"5m cpu": 0.5}, key=key) is not None


def test_the_rest_after_refusals_doubles_up_to_the_period() -> None:
    """From a minute to half an hour, for a node."""
    rests = [0.0]
    for _ in range(7):
        rests.append(rest_after(rests[-1], BAND))
    assert rests == [0, 60, 120, 240, 480, 960, 1_800, 1_800]


def test_turns_are_spread_over_the_period() -> None:
    """A thousand nodes that were all written at once come back one after the other."""
    band = DeadBand(change=5, least_interval=Duration(60), period=Duration(1_800))
    counts = []
    for minute in range(2, 31):
        now = NOW + 60 * minute
        due = [
            decide(f"node/{number}", last({"x": 0.5}, ago=0), {"x": 0.5}, sampled_at=now, now=now, band=band,
                   scale="points")
            for number in range(1_000)
        ]  # fmt: skip
        counts.append(sum(write is not None for write in due))
    assert counts == sorted(counts)
    assert max(after - before for before, after in pairwise(counts)) < 70
    assert counts[-1] == 1_000
