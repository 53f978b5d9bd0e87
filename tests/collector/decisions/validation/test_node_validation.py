"""Which samples are measurements of a node, and why the others are not."""

import math
from typing import Any

import msgspec
import pytest
from builders import NOW
from collector.samples import CRITERIA, NODE, a_sample
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.query import Sample
from equipoise.collector.decisions.validation.nodes import validate_nodes
from equipoise.collector.decisions.validation.pods import validate_pods
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.collector.decisions.validation.window import MeasurementTarget
from equipoise.contracts.messages.values.resources import Resources


def complete_samples(mean: Any = 2.5, count: float = 20, newest: float = NOW - 5) -> dict[Any, Any]:
    return {"mean": [a_sample(mean)], "count": [a_sample(count)], "newest": [a_sample(newest)]}


def reading_of(samples: dict[Any, Any], target: MeasurementTarget = NODE, **criteria: Any) -> Any:
    return validate_nodes({"a": target}, "cpu", samples, msgspec.structs.replace(CRITERIA, **criteria))[0]["a"]


def test_complete_samples_are_a_measurement() -> None:
    """Value, sample time, no reason."""
    reading = reading_of({**complete_samples(), "p95": [a_sample(4.0)]})

    assert (2.5, {"p95": 4.0}, NOW - 5, "") == (reading.mean, reading.statistics, reading.sampled_at, reading.why)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.01, 10.51, 55.0])
def test_impossible_values_are_unknown(value: float) -> None:
    """NaN, infinite, negative, and above 105 % of the capacity."""
    reading = reading_of(complete_samples(mean=value))

    assert reading.mean is None
    assert "value is" in reading.why


@pytest.mark.parametrize(("machine", "known"), [(10.0, True), (10.4, True), (8.0, True), (16.0, False)])
def test_the_usage_of_a_larger_machine_is_not_that_of_the_node(machine: float, known: bool) -> None:
    """A node in a container may have an exporter that sees the machine around it, with all that runs there."""
    intervals = ScrapeIntervals(default=15.0, machines={"cpu": {"a": machine}, "memory": {"a": 1e15}})
    reading = reading_of(complete_samples(), intervals=intervals)

    assert known == (reading.mean is not None)
    assert known or "cpu: its exporter measures 16 where the node has 10" == reading.why


def test_a_slightly_too_large_value_is_capped() -> None:
    """Rounding may result in 103 % of a machine."""
    assert 10.0 == reading_of(complete_samples(mean=10.3)).mean


def test_a_measured_zero_is_zero() -> None:
    """An idle counter is a measurement; minus zero is zero."""
    assert 0.0 == reading_of(complete_samples(mean=0.0)).mean
    assert 1.0 == math.copysign(1.0, reading_of(complete_samples(mean=-0.0)).mean)


@pytest.mark.parametrize(
    ("samples", "word"),
    [
        ({}, "no sample"),
        ({"mean": [a_sample(2.5)], "count": [a_sample(20)]}, "no sample"),
        ({**complete_samples(), "newest": [a_sample(math.nan)]}, "no sample"),
        ({**complete_samples(), "mean": []}, "no value"),
        ({**complete_samples(), "count": []}, "cover 0%"),
        ({**complete_samples(), "count": [a_sample(math.nan)]}, "cover 0%"),
        (complete_samples(count=15), "cover 79%"),
        (complete_samples(count=4), "cover 21%"),
        (complete_samples(newest=NOW + 6), "future"),
        (complete_samples(newest=NOW - 181), "181 s old"),
        (complete_samples(newest=NOW - 90_001), "older than the node"),
    ],
)
def test_missing_or_untimely_samples_are_unknown(samples: dict[Any, Any], word: str) -> None:
    """A gap, a partly covered window, a sample from the future, a stale one, one of an earlier node."""
    reading = reading_of(samples)

    assert reading.mean is None
    assert word in reading.why


def test_a_rate_without_raw_samples_is_unknown() -> None:
    """rate() returns values for a whole window after its source died."""
    reading = reading_of({**complete_samples(), "newest": [], "last": []})

    assert reading.mean is None


def test_a_series_that_just_ended_has_the_age_of_its_last_sample() -> None:
    """After one failed scrape the window is still known."""
    reading = reading_of({**complete_samples(), "newest": [], "last": [a_sample(NOW - 40)]})

    assert (2.5, NOW - 40) == (reading.mean, reading.sampled_at)


def test_two_live_series_of_one_node_are_unknown() -> None:
    """It is not known which one is right."""
    duplicates = [a_sample(NOW - 5), a_sample(NOW - 5, job="twin")]
    reading = reading_of({**complete_samples(), "newest": duplicates})

    assert reading.mean is None
    assert "2 series" in reading.why


def test_an_ended_series_of_the_node_is_ignored() -> None:
    """Its samples in the window are not mixed in."""
    samples = complete_samples()
    samples["mean"].append(a_sample(9.0, instance="old"))
    samples["count"].append(a_sample(300, instance="old"))
    samples["last"] = [a_sample(NOW - 200, instance="old")]

    assert 2.5 == reading_of(samples).mean


def test_a_window_longer_than_the_age_of_the_node_is_unknown() -> None:
    """A recreated node does not get the samples of its predecessor."""
    young = MeasurementTarget(since=NOW - 200, capacity=NODE.capacity)

    assert "200 s" in reading_of(complete_samples(), target=young).why
    assert 2.5 == reading_of(complete_samples(count=8), target=young, length=120.0).mean


def test_each_node_has_its_own_scrape_interval() -> None:
    """A node scraped once a minute covers its window with five samples."""
    slow = ScrapeIntervals(by_node={"a": 60.0}, default=15.0)

    assert 2.5 == reading_of(complete_samples(count=5), intervals=slow).mean
    assert reading_of(complete_samples(count=5)).mean is None


@pytest.mark.parametrize(("interval", "known"), [(150.0, True), (151.0, False), (600.0, False)])
def test_a_window_that_holds_no_two_samples_is_unknown(interval: float, known: bool) -> None:
    """Nodes and pods are unknown with a reason: no scrape is missing."""
    intervals = ScrapeIntervals(default=interval)
    reading = reading_of(complete_samples(count=2), intervals=intervals)
    pod = MeasurementTarget(since=NODE.since, capacity=NODE.capacity, node="a")
    pods, _ = validate_pods(
        {("shop", "web-1"): pod}, "cpu", {"mean": [a_sample(0.5, "a", "shop", "web-1")]},
        msgspec.structs.replace(CRITERIA, intervals=intervals),
    )  # fmt: skip

    assert (known, known) == (reading.mean is not None, bool(pods))
    assert known or reading.unknown == UnknownUsage(
        "short window", f"cpu: a window of 300 s at one sample per {interval:g} s holds no two"
    )


def test_without_a_scrape_interval_everything_is_unknown() -> None:
    """Coverage cannot be computed."""
    assert "interval" in reading_of(complete_samples(), intervals=ScrapeIntervals()).why


def test_samples_of_unknown_nodes_are_ignored() -> None:
    """Such as those of a deleted node."""
    assert {"b"} == validate_nodes({"b": NODE}, "cpu", complete_samples(), CRITERIA)[0].keys()


VALUES = st.floats() | st.sampled_from([0.0, -0.0, NOW, NOW - 5, 20.0])
NAMES = [st.sampled_from(["a", "b", ""]), st.sampled_from(["", "shop"]), st.sampled_from(["", "web"])]
SAMPLES = st.lists(st.builds(a_sample, VALUES, *NAMES), max_size=4)


@given(
    samples=st.dictionaries(st.sampled_from(["mean", "count", "newest", "last", "p95", "max"]), SAMPLES),
    interval=st.none() | st.floats(0.001, 1_000),
    capacity=st.none() | st.floats(0, 1e6),
)
def test_no_samples_become_a_value_that_was_not_measured(
    samples: dict[Any, list[Sample]], interval: float | None, capacity: float | None
) -> None:
    """For any samples: nothing raises, and every known mean is one of the measured means, or the capacity."""
    known = MeasurementTarget(since=NOW - 90_000, capacity=Resources(cpu=capacity), node="a")
    criteria = msgspec.structs.replace(CRITERIA, intervals=ScrapeIntervals(default=interval))
    measured = [s.value for s in samples.get("mean", []) if s.node in ("a", "")]
    possible = {*measured, *([] if capacity is None else [capacity] if any(v >= capacity for v in measured) else [])}

    reading = validate_nodes({"a": known}, "cpu", samples, criteria)[0]["a"]
    assert (reading.mean is None) == bool(reading.why)
    assert reading.mean is None or reading.mean in possible
    for value in validate_pods({("shop", "web"): known}, "cpu", samples, criteria)[0].values():
        assert value in possible
