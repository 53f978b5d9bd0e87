"""Which pressure of nodes and pods is known, and why the rest is not."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from builders import NOW
from collector.samples import CRITERIA, NODE, a_sample
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.pressure.pressure_query import NODE_MEASURES, POD_MEASURES, Measure
from equipoise.collector.decisions.pressure.pressure_readings import (
    NEVER_WAITED,
    PressureReading,
    pressure_of_nodes,
    pressure_of_pods,
    unknown_pressure,
)
from equipoise.collector.decisions.query import Sample
from equipoise.collector.decisions.validation.window import MeasurementTarget
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, Pressure

NODES = msgspec.structs.replace(CRITERIA, names=node_names({"a": [], "b": []}))
POD = MeasurementTarget(since=NOW - 90_000, capacity=NODE.capacity, node="a")


def of_node(node: str, **values: float) -> dict[Measure, list[Sample]]:
    shown = {"total": 100.0, "newest": NOW - 5} | values
    return {measure: [a_sample(shown[measure], node)] if measure in shown else [] for measure in NODE_MEASURES}


def of_pod(node: str = "a", **values: float) -> dict[Measure, list[Sample]]:
    return {
        measure: [a_sample(values[measure], node, "shop", "web")] if measure in values else []
        for measure in POD_MEASURES
    }


def reading(samples: Mapping[Measure, Sequence[Sample]]) -> PressureReading | None:
    return pressure_of_nodes(samples, {"a": NODE}, NODES).get("a")


def known_pod(
    samples: Mapping[Measure, Sequence[Sample]], target: MeasurementTarget = POD
) -> MeasuredPodPressure | None:
    return pressure_of_pods(samples, {("shop", "web"): target}, NODES).get(("shop", "web"))


def test_the_pressure_of_a_node_is_the_rate_of_its_counters() -> None:
    measured = reading(of_node("a", cpu=0.31, memory=0.0, io=0.02))

    assert measured == PressureReading(sampled_at=NOW - 5, waiting=Pressure(cpu=0.31, memory=0.0, io=0.02))


def test_a_resource_without_samples_is_unknown_and_not_0() -> None:
    measured = reading(of_node("a", cpu=0.31))

    assert measured is not None
    assert (None, None) == (measured.waiting.memory, measured.waiting.io)


def test_a_node_without_samples_has_no_reading() -> None:
    assert reading(of_node("b", cpu=0.31)) is None


def test_a_counter_that_never_counted_shows_that_the_kernel_does_not_measure() -> None:
    """Where the kernel has psi=0, cAdvisor exports zeros."""
    measured = reading(of_node("a", total=0.0, cpu=0.0, memory=0.0, io=0.0))

    assert measured is not None
    assert measured.waiting == Pressure()
    assert measured.unknown == dict.fromkeys(("cpu", "memory", "io"), NEVER_WAITED)


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_a_value_of_no_unit_is_unknown_and_no_reason_to_distrust_the_others(value: float) -> None:
    """Otherwise one NaN would make the pressure of the node unknown for a day."""
    measured = reading(of_node("a", cpu=value, io=0.2))

    assert measured is not None
    assert measured.waiting == Pressure(io=0.2)
    assert {"cpu"} == measured.unknown.keys()
    assert not measured.wrong_unit


@pytest.mark.parametrize("value", [1.2, 431.0])
def test_one_impossible_share_makes_all_counters_of_the_node_unknown(value: float) -> None:
    """They are of one exporter, and so have one unit: the others may look possible."""
    measured = reading(of_node("a", cpu=value, memory=0.2, io=0.9))

    assert measured is not None
    assert measured.waiting == Pressure()
    assert {"cpu", "memory", "io"} == measured.unknown.keys()
    assert measured.wrong_unit


def test_a_wrong_unit_of_one_node_does_not_affect_the_others() -> None:
    """A new version of the kubelet may run on half of the nodes."""
    samples = {
        measure: [*of_node("a", cpu=0.2)[measure], *of_node("b", cpu=200.0)[measure]] for measure in NODE_MEASURES
    }
    measured = pressure_of_nodes(samples, {"a": NODE, "b": NODE}, NODES)

    assert 0.2 == measured["a"].waiting.cpu
    assert measured["b"].waiting.cpu is None
    assert "1 of 2 nodes (b)" in unknown_pressure(measured)
    assert "200" in unknown_pressure(measured)


def test_a_rate_slightly_above_1_is_1() -> None:
    measured = reading(of_node("a", cpu=1.02))

    assert measured is not None
    assert 1.0 == measured.waiting.cpu


@pytest.mark.parametrize("newest", [NOW - 200, NOW + 60, NOW - 100_000])
def test_an_old_sample_is_none(newest: float) -> None:
    """A rate has values for a whole window after the end of its source. Before the node existed, another one had its
    name."""
    assert reading(of_node("a", newest=newest, cpu=0.3)) is None


def test_a_node_of_two_series_is_unknown() -> None:
    samples = {
        measure: [*items, *[msgspec.structs.replace(item, series="other") for item in items]]
        for measure, items in of_node("a", cpu=0.3).items()
    }
    measured = reading(samples)

    assert measured is not None
    assert measured.waiting == Pressure()
    assert "2 series" in measured.unknown["cpu"]


def test_a_pod_has_what_the_source_shows_of_it() -> None:
    assert MeasuredPodPressure(cpu=0.123, throttled=0.5, disk=2e6) == known_pod(
        of_pod(cpu=0.12345, throttled=0.5, disk=2e6)
    )


def test_a_pod_of_which_nothing_is_shown_is_left_out() -> None:
    assert known_pod(of_pod()) is None


def test_of_two_series_of_a_pod_none_is_known() -> None:
    samples = of_pod(cpu=0.3, io=0.2)
    samples["cpu"] = [*samples["cpu"], a_sample(0.9, "a", "shop", "web", uid="2")]

    assert MeasuredPodPressure(io=0.2) == known_pod(samples)


def test_a_pod_that_runs_for_less_than_the_window_is_left_out() -> None:
    young = msgspec.structs.replace(POD, since=NOW - 30)

    assert known_pod(of_pod(cpu=0.3), young) is None


def test_a_pod_on_another_node_is_an_earlier_pod_of_this_name() -> None:
    assert known_pod(of_pod("b", cpu=0.3)) is None


def test_a_wrong_unit_of_a_pod_makes_all_of_its_pressure_unknown() -> None:
    assert MeasuredPodPressure(throttled=0.2) == known_pod(of_pod(cpu=0.4, io=3_000.0, throttled=0.2))


def test_a_wrong_unit_of_a_pod_makes_the_pressure_of_all_pods_of_its_node_unknown() -> None:
    """They are cgroups of one kernel. A pod of another node, with another exporter, is not affected."""
    targets = {
        ("shop", name): msgspec.structs.replace(POD, node=node) for name, node in (("x", "a"), ("y", "a"), ("z", "b"))
    }
    samples: dict[Measure, list[Sample]] = {measure: [] for measure in POD_MEASURES}
    samples["cpu"] = [
        a_sample(value, node, "shop", name)
        for name, node, value in (("x", "a", 9e5), ("y", "a", 0.02), ("z", "b", 0.4))
    ]
    samples["throttled"] = [a_sample(0.5, "a", "shop", "x")]

    assert pressure_of_pods(samples, targets, NODES) == {
        ("shop", "x"): MeasuredPodPressure(throttled=0.5),
        ("shop", "z"): MeasuredPodPressure(cpu=0.4),
    }


@given(st.dictionaries(st.sampled_from(NODE_MEASURES), st.floats(), max_size=5))
def test_a_known_pressure_is_always_a_share_of_time(values: dict[Measure, float]) -> None:
    measured = reading(of_node("a", **values))
    shares = () if measured is None else (measured.waiting.cpu, measured.waiting.memory, measured.waiting.io)

    assert all(share is None or 0.0 <= share <= 1.0 for share in shares)
