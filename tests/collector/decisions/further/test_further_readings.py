"""The usage of further resources that the results of the user's PromQL show, or why they show none."""

import math

import pytest
from builders import NOW
from collector.samples import a_sample

from equipoise.collector.decisions.further.readings import (
    FurtherReading,
    WindowSamples,
    capacities,
    pod_amounts,
    readings,
)
from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.query import Sample, SourceError

NODES = {"a": NOW - 90_000, "b": NOW - 90_000}
NAMES = node_names({"a": ["10.0.0.1"], "b": []})


def the_readings(
    mean: list[Sample] | None = None, newest: list[Sample] | None = None, oldest: list[Sample] | None = None
) -> tuple[dict[str, FurtherReading], tuple[str, ...]]:
    samples = WindowSamples(
        mean=[a_sample(5.0)] if mean is None else mean,
        newest=[[a_sample(NOW - 5)] if newest is None else newest],
        oldest=[[a_sample(NOW - 290)] if oldest is None else oldest],
    )
    return readings(samples, NODES, NAMES, at=NOW, length=300.0, coverage=0.8, max_age=180.0)


def test_a_value_with_samples_in_the_whole_window_is_the_usage() -> None:
    """Other nodes have no sample."""
    measured, strangers = the_readings()
    assert FurtherReading(mean=5.0, sampled_at=NOW - 5) == measured["a"]
    assert (None, "no sample") == (measured["b"].mean, measured["b"].unknown)
    assert () == strangers


def test_a_node_is_found_by_its_address() -> None:
    """Exporters name their target, with a port."""
    of_address = [a_sample(7.0, node="10.0.0.1")]
    measured, _ = the_readings(of_address, [a_sample(NOW - 5, node="10.0.0.1")], [a_sample(NOW, node="10.0.0.1")])
    assert "samples cover 0% of a window of 300 s" == measured["a"].unknown


@pytest.mark.parametrize(
    ("mean", "newest", "oldest", "why"),
    [
        ([], None, None, "no series of the result names this node"),
        ([a_sample(1.0), a_sample(1.0, device="b")], None, None, "2 series claim to be this node"),
        ([a_sample(math.nan)], None, None, "value is nan"),
        ([a_sample(-1.0)], None, None, "value is -1"),
        ([a_sample(math.inf)], None, None, "value is inf"),
        (None, [a_sample(NOW - 200)], None, "newest sample is 200 s old"),
        (None, [a_sample(NOW + 60)], None, "newest sample lies 60 s in the future"),
        (None, [a_sample(NOW - 100_000)], None, "newest sample is older than the node"),
        (None, [], None, "no sample"),
        (None, None, [a_sample(NOW - 100)], "samples cover 32% of a window of 300 s"),
        (None, None, [], "samples cover 0% of a window of 300 s"),
    ],
)
def test_a_value_that_is_not_certain_is_unknown(
    mean: list[Sample] | None, newest: list[Sample] | None, oldest: list[Sample] | None, why: str
) -> None:
    """The reason is a text for people."""
    measured, _ = the_readings(mean, newest, oldest)
    assert (None, why) == (measured["a"].mean, measured["a"].unknown)


def test_with_several_series_in_a_query_the_oldest_gives_the_age() -> None:
    """Usage of two exporters is as old as the one that ended first."""
    samples = WindowSamples(
        mean=[a_sample(5.0)],
        newest=[[a_sample(NOW - 5)], [a_sample(NOW - 190)]],
        oldest=[[a_sample(NOW - 299)], [a_sample(NOW - 299)]],
    )
    measured, _ = readings(samples, NODES, NAMES, at=NOW, length=300.0, coverage=0.8, max_age=180.0)
    assert "newest sample is 190 s old" == measured["a"].unknown


@pytest.mark.parametrize("position", [0, 1])
def test_of_two_exporters_one_suffices_unless_the_other_has_just_ended(position: int) -> None:
    """`rate(a[$window]) or rate(b[$window])`: a node has one of them. One that was there counts until its window ends.

    The order of the selectors does not matter.
    """

    def measured(newest: list[Sample], oldest: list[Sample]) -> FurtherReading:
        both = [[a_sample(NOW - 5)], newest], [[a_sample(NOW - 299)], oldest]
        new, old = (samples if position else samples[::-1] for samples in both)
        samples = WindowSamples(mean=[a_sample(5.0)], newest=new, oldest=old)
        return readings(samples, NODES, NAMES, at=NOW, length=300.0, coverage=0.8, max_age=180.0)[0]["a"]

    assert FurtherReading(mean=5.0, sampled_at=NOW - 5) == measured([], [])
    assert FurtherReading(unknown="no sample") == measured([], [a_sample(NOW - 290)])
    assert "samples cover 32% of a window of 300 s" == measured([a_sample(NOW - 5)], [a_sample(NOW - 100)]).unknown


def test_an_exporter_that_was_restarted_leaves_no_window_uncovered() -> None:
    """Its series before and after have another `instance`, and both are in a window for as long as it lasts."""
    before, after = {"instance": "10.1.0.7:9400"}, {"instance": "10.1.0.9:9400"}
    newest = [a_sample(NOW - 120, **before), a_sample(NOW - 5, **after)]
    oldest = [a_sample(NOW - 110, **after), a_sample(NOW - 299, **before)]
    measured, _ = the_readings(newest=newest, oldest=oldest)
    assert FurtherReading(mean=5.0, sampled_at=NOW - 5) == measured["a"]


def test_series_of_another_cluster_are_ignored_and_named() -> None:
    """One name is enough to find the wrong matcher."""
    measured, strangers = the_readings([a_sample(5.0), a_sample(9.0, node="other")])
    assert 5.0 == measured["a"].mean
    assert 1 == len(strangers)
    assert 'node="other"' in strangers[0]


def test_far_more_series_than_nodes_are_refused_with_advice() -> None:
    """The query is about devices or pods, not about nodes."""
    with pytest.raises(SourceError, match="10000 series for 2 nodes: aggregate by node"):
        the_readings([a_sample(1.0, device=str(number)) for number in range(10_000)])


@pytest.mark.parametrize(
    ("samples", "capacity"),
    [
        ([a_sample(100.0)], (100.0, "")),
        ([a_sample(0.0)], (None, "its capacity is 0")),
        ([], (None, "its capacity is unknown: no series of the result names this node")),
        ([a_sample(1.0), a_sample(2.0, device="b")], (None, "its capacity is unknown: 2 series claim to be this node")),
    ],
)
def test_a_capacity_that_is_missing_or_0_is_unknown(samples: list[Sample], capacity: tuple[float | None, str]) -> None:
    """A share of nothing is no load."""
    assert capacity == capacities(samples, NODES, NAMES)["a"]


def test_a_pod_with_several_series_is_left_out() -> None:
    """Which one is its usage is not known."""
    samples = [
        a_sample(1.0, namespace="shop", pod="web-0"),
        a_sample(2.0, namespace="shop", pod="web-1"),
        a_sample(3.0, namespace="shop", pod="web-1", interface="eth1"),
        a_sample(4.0, namespace="shop", pod="unknown"),
    ]
    assert {"uid-0": 1.0} == pod_amounts(samples, {("shop", "web-0"): "uid-0", ("shop", "web-1"): "uid-1"})
