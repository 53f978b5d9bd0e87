"""When a value is written."""

from itertools import pairwise

import pytest
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.write_decision import (
    DueWrite,
    Scale,
    WriteThreshold,
    WrittenValue,
    decide,
    retry_backoff,
)
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.configuration.duration import Duration

THRESHOLD = AnnotatorSettings().nodes
MEANS = st.dictionaries(st.sampled_from(["5m cpu", "5m memory", "1h cpu"]), st.floats(0, 2))


def last(means: dict[str, float], ago: float = 90.0) -> WrittenValue:
    return WrittenValue(at=NOW - ago, sampled_at=NOW - ago, means=means)


def decision(
    written: WrittenValue | None,
    means: dict[str, float],
    *,
    key: str = "node/a",
    sampled_at: float = NOW,
    now: float = NOW,
    scale: Scale = "points",
) -> DueWrite | None:
    return decide(key, written, means, sampled_at=sampled_at, now=now, threshold=THRESHOLD, scale=scale)


def a_key_without_a_refresh_between(before: float, now: float) -> str:
    """So that only a change causes a write."""
    keys = (f"node/{number}" for number in range(1_000))
    return next(
        key for key in keys if decision(last({"x": 1.0}, ago=now - before), {"x": 1.0}, key=key, now=now) is None
    )


QUIET = a_key_without_a_refresh_between(NOW - 90, NOW)


def test_an_object_without_a_value_is_written() -> None:
    """No change is needed."""
    assert decision(None, {"5m cpu": 0.5}) == DueWrite(why="not written before")


def test_unknown_values_are_never_written() -> None:
    """Not even on an object without a value."""
    assert decision(None, {}) is None


@pytest.mark.parametrize(("cpu", "written"), [(0.55, False), (0.5501, True), (0.4499, True), (0.5, False)])
def test_a_node_is_written_on_a_change_of_more_than_five_points(cpu: float, written: bool) -> None:
    """Up or down; exactly five points are within the write threshold."""
    write = decision(last({"5m cpu": 0.5}), {"5m cpu": cpu}, key=QUIET)
    assert (write is not None) == written
    if write is not None:
        assert write == DueWrite(why="5m cpu changed by 5.0 points", urgent=True)


def test_a_workload_is_written_on_a_change_relative_to_its_existing_value() -> None:
    """20 % of 10 cores are two cores; any change from 0 is large enough."""
    assert decision(last({"1h cpu": 10.0}), {"1h cpu": 10.4}, key=QUIET, scale="relative") is None
    write = decision(last({"1h cpu": 10.0}), {"1h cpu": 12.0}, key=QUIET, scale="relative")
    assert write == DueWrite(why="1h cpu changed by 20.0 %", urgent=True)
    assert decision(last({"1h cpu": 0.0}), {"1h cpu": 0.01}, key=QUIET, scale="relative") is not None
    assert decision(last({"1h cpu": 0.0}), {"1h cpu": 0.0}, key=QUIET, scale="relative") is None


def test_a_window_that_becomes_known_is_a_change_and_one_that_becomes_unknown_is_none() -> None:
    """There is nothing new to write about an unknown window."""
    both = {"5m cpu": 0.5, "1h cpu": 0.5}
    assert decision(last({"5m cpu": 0.5}), both, key=QUIET) == DueWrite(why="1h cpu is known now", urgent=True)
    assert decision(last(both), {"5m cpu": 0.5}, key=QUIET) is None


@given(MEANS, MEANS, st.floats(0, 59.9))
def test_no_object_is_written_twice_within_the_minimum_interval(
    before: dict[str, float], now: dict[str, float], ago: float
) -> None:
    """However much it changes."""
    assert decision(last(before, ago), now, sampled_at=NOW) is None


@given(MEANS, MEANS, st.floats(60, 1e6), st.floats(0, 1e6))
def test_an_older_value_never_replaces_a_newer_one(
    before: dict[str, float], now: dict[str, float], ago: float, older: float
) -> None:
    """The same sample is not written twice either."""
    written = last(before, ago)
    assert decision(written, now, sampled_at=written.sampled_at - older) is None


@given(st.text(min_size=1, max_size=20), st.floats(1_800, 1e6))
def test_every_object_is_refreshed_once_per_refresh_period(key: str, ago: float) -> None:
    """Without any change it is written again half an hour after the last write at the latest."""
    assert decision(last({"5m cpu": 0.5}, ago), {"5m cpu": 0.5}, key=key) is not None


def test_the_backoff_after_refusals_doubles_up_to_the_refresh_period() -> None:
    """From a minute to half an hour, for a node."""
    backoffs = [0.0]
    for _ in range(7):
        backoffs.append(retry_backoff(backoffs[-1], THRESHOLD.min_interval, THRESHOLD.refresh_period))
    assert backoffs == [0, 60, 120, 240, 480, 960, 1_800, 1_800]


def test_refreshes_are_spread_over_the_refresh_period() -> None:
    """A thousand nodes that were written at the same time are refreshed one after the other."""
    threshold = WriteThreshold(min_change=5, min_interval=Duration(60), refresh_period=Duration(1_800))
    counts = []
    for minute in range(2, 31):
        now = NOW + 60 * minute
        due = [
            decide(f"node/{number}", last({"x": 0.5}, ago=0), {"x": 0.5}, sampled_at=now, now=now, threshold=threshold,
                   scale="points")
            for number in range(1_000)
        ]  # fmt: skip
        counts.append(sum(write is not None for write in due))
    assert counts == sorted(counts)
    assert max(after - before for before, after in pairwise(counts)) < 70
    assert counts[-1] == 1_000
