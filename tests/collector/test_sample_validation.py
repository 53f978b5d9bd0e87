"""Which samples are measurements, and why the others are not."""

import math
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import Origin, Sample, series_name
from equipoise.collector.decisions.sample_validation import (
    MeasurementTarget,
    NodeReading,
    ScrapeIntervals,
    UnknownUsage,
    WindowCriteria,
    check_plausibility,
    coverage,
    scrape_intervals,
    validate_nodes,
    validate_pods,
)
from equipoise.contracts.messages.resources import Resources

CRITERIA = WindowCriteria(
    at=NOW, length=300.0, coverage=0.8, max_age=180.0, lookback=300.0, intervals=ScrapeIntervals(default=15.0)
)
NODE = MeasurementTarget(since=NOW - 90_000, capacity=Resources(cpu=10.0, memory=64 * GIB))


def a_sample(value: float, node: str = "a", namespace: str = "", pod: str = "", **labels: str) -> Sample:
    named = {"node": node, "namespace": namespace, "pod": pod, **labels}
    return Sample(origin=Origin(node=node), namespace=namespace, pod=pod, series=series_name(named), value=value)


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


@pytest.mark.parametrize(
    ("count", "length", "interval", "expected"),
    [
        (20, 300, 15, 1.0),
        (16, 300, 15, 16 / 19),
        (4, 4, 1, 1.0),
        (3, 4, 1, 1.0),
        (2, 4, 1, 2 / 3),
        (5, 300, 60, 1.0),
        (2, 1.333, 1, 1.0),
        (1, 1.333, 1, 0.5),
        (3_600, 86_400, 15, 3_600 / 5_759),
    ],
)
def test_coverage_is_the_share_of_expected_samples(
    count: float, length: float, interval: float, expected: float
) -> None:
    """Without the one sample that the window's ends may miss."""
    assert expected == coverage(count, length, interval)


def test_intervals_are_found_per_node() -> None:
    """The larger of two series of a node counts; nodes without one get the default."""
    found = scrape_intervals(
        [a_sample(15.0), a_sample(30.0), a_sample(60.0, "b"), a_sample(math.nan, "c"), a_sample(0.0, "d")],
        NodeNames(),
        {},
    )

    assert (30.0, 60.0, 45.0) == (found.of("a"), found.of("b"), found.of("c"))


POD = MeasurementTarget(since=NOW - 1_000, capacity=NODE.capacity, node="a")


def read_one_pod(*means: Sample, count: float = 20, known: MeasurementTarget = POD) -> float | None:
    counts = [
        Sample(origin=Origin(node=s.node), namespace=s.namespace, pod=s.pod, series=s.series, value=count)
        for s in means
    ]
    samples: Any = {"mean": list(means), "count": counts}
    return validate_pods({("shop", "web"): known}, "cpu", samples, CRITERIA)[0].get(("shop", "web"))


def test_pods_are_found_by_namespace_name_and_node() -> None:
    """A recreated pod on another node leaves a series behind, which is ignored."""
    here, there = a_sample(1.5, namespace="shop", pod="web"), a_sample(9.0, "b", namespace="shop", pod="web")

    assert 1.5 == read_one_pod(here)
    assert 1.5 == read_one_pod(here, there)
    assert read_one_pod(there) is None
    assert read_one_pod(a_sample(1.5, namespace="shop", pod="other")) is None


def test_pods_are_validated_like_nodes() -> None:
    """Duplicates, young pods, uncovered windows and impossible values are unknown."""
    here = a_sample(1.5, namespace="shop", pod="web")

    assert read_one_pod(here, a_sample(1.5, namespace="shop", pod="web", job="twin")) is None
    assert read_one_pod(here, count=15) is None
    counts = [
        Sample(origin=Origin(node="a"), namespace="shop", pod="web", series=here.series, value=value)
        for value in (15.0, 20.0)
    ]
    assert {} == validate_pods({("shop", "web"): POD}, "cpu", {"mean": [here], "count": counts}, CRITERIA)[0]
    assert read_one_pod(here, known=MeasurementTarget(since=NOW - 100, capacity=NODE.capacity, node="a")) is None
    assert read_one_pod(a_sample(math.nan, namespace="shop", pod="web")) is None
    assert read_one_pod(a_sample(11.0, namespace="shop", pod="web")) is None


def test_pods_without_counts_are_complete() -> None:
    """The source has left out those with too few samples; everything else is validated."""
    here = a_sample(1.5, namespace="shop", pod="web")
    pods = {("shop", "web"): POD}

    assert {("shop", "web"): 1.5} == validate_pods(pods, "cpu", {"mean": [here]}, CRITERIA)[0]
    assert {} == validate_pods(pods, "cpu", {"mean": [here], "count": []}, CRITERIA)[0]
    unknown = msgspec.structs.replace(CRITERIA, intervals=ScrapeIntervals())
    assert {} == validate_pods(pods, "cpu", {"mean": [here]}, unknown)[0]


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


NO_SAMPLE = UnknownUsage("no sample", "cpu: no sample")


def readings(**cpu: float | None) -> dict[str, NodeReading]:
    return {
        node: NodeReading(mean=mean, sampled_at=9.0, unknown=NO_SAMPLE if mean is None else None)
        for node, mean in cpu.items()
    }


def known(found: dict[str, NodeReading]) -> dict[str, float | None]:
    return {node: reading.mean for node, reading in found.items()}


def test_a_constant_counter_while_memory_is_in_use_is_frozen() -> None:
    """Both resources of that node are unknown, with the sample time. A machine that uses nothing at all is idle."""
    found = check_plausibility({"cpu": readings(a=0.0, b=0.0, c=1.0), "memory": readings(a=5.0, b=0.0, c=5.0)}, set())
    assert known(found["cpu"]) == {"a": None, "b": 0.0, "c": 1.0}
    assert known(found["memory"]) == {"a": None, "b": 0.0, "c": 5.0}
    reasons = [found[resource]["a"].unknown for resource in ("cpu", "memory")]
    assert [unknown and unknown.reason for unknown in reasons] == ["frozen", "frozen"]
    assert found["cpu"]["a"].sampled_at == 9.0


def test_zeros_of_half_of_the_nodes_with_pods_are_unknown() -> None:
    """So is the 0 of an empty node."""
    cpu = readings(a=0.0, b=0.0, c=1.0, d=2.0, empty=0.0)
    found = check_plausibility({"cpu": cpu}, {"a", "b", "c", "d"})["cpu"]
    assert known(found) == {"a": None, "b": None, "c": 1.0, "d": 2.0, "empty": None}
    assert found["a"].unknown == ("zeros", "cpu: 2 of 4 nodes with pods read exactly 0")


def test_a_few_zeros_are_accepted() -> None:
    """And any number of nodes without pods."""
    few = readings(a=0.0, b=0.0, c=1.0, d=2.0, e=3.0)
    assert check_plausibility({"cpu": few}, set("abcde"))["cpu"] == few
    alone = readings(a=0.0)
    assert check_plausibility({"cpu": alone}, {"a"})["cpu"] == alone
    assert check_plausibility({"cpu": few}, {"c", "d", "e"})["cpu"] == few


MEANS = st.none() | st.sampled_from([0.0, 1.0, 2.5])


@given(cpu=st.lists(MEANS, max_size=6), memory=st.lists(MEANS, max_size=6), busy=st.sets(st.integers(0, 6)))
def test_a_reading_stays_or_becomes_unknown(
    cpu: list[float | None], memory: list[float | None], busy: set[int]
) -> None:
    """With a reason."""
    given_ = {
        "cpu": readings(**{f"n{number}": mean for number, mean in enumerate(cpu)}),
        "memory": readings(**{f"n{number}": mean for number, mean in enumerate(memory)}),
    }
    for resource, found in check_plausibility(given_, {f"n{number}" for number in busy}).items():  # type: ignore[arg-type]
        assert found.keys() == given_[resource].keys()
        for node, reading in found.items():
            assert reading == given_[resource][node] or (reading.mean is None and reading.unknown)
