"""The annotations of nodes and workloads."""

import json
from typing import Any

import pytest
from builders import GIB, NOW, a_node_utilization, a_reclaimed_node, a_window, a_workload_utilization
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.bounds import MAX_CORES
from equipoise.contracts.colocation.bands import Band
from equipoise.contracts.kubernetes.annotations import (
    LOAD,
    RECLAIMED,
    USAGE,
    as_annotations,
    means,
    node_load,
    node_reclaimed,
    read_node_load,
    read_node_reclaimed,
    read_workload_usage,
    workload_usage,
)
from equipoise.contracts.messages.reclaimed import RECLAIMED_NODE, ReclaimedBand
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources

TERMS = RECLAIMED_NODE.terms
AMOUNTS = st.none() | st.floats(min_value=0, max_value=MAX_CORES, allow_nan=False)
RESOURCES = st.builds(Resources, cpu=AMOUNTS, memory=AMOUNTS)
WINDOWS = st.dictionaries(
    st.sampled_from(["5m", "15m", "1h", "1d"]),
    st.builds(WindowUsage, sampled_at=st.just(NOW), mean=RESOURCES, p95=RESOURCES, max=RESOURCES, deviation=RESOURCES),
)


def test_a_node_is_annotated_with_its_load_and_the_time_of_the_sample() -> None:
    """3.3333 of 10 cores and 4 of 64 GiB are 0.3333 and 0.0625."""
    load = node_load(a_node_utilization(cpu=3.33333, windows={"5m": a_window(3.33333, 4 * GIB)}))
    assert load is not None
    assert json.loads(as_annotations(load)[LOAD]) == {
        "sampledAt": "2027-01-15T08:00:00Z",
        "base": {"cpu": 10.0, "memory": 64 * GIB},
        "memory": "workingSet",
        "windows": {"5m": {"sampledAt": "2027-01-15T08:00:00Z", "mean": {"cpu": 0.3333, "memory": 0.0625}}},
    }


def test_a_node_is_annotated_with_the_pressure_that_is_known() -> None:
    pressure = NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.31234, io=0.0))
    load, unknown = (
        node_load(a_node_utilization(pressure=measured)) for measured in (pressure, NodePressure(sampled_at=NOW))
    )
    assert load is not None
    assert unknown is not None
    assert json.loads(as_annotations(load)[LOAD])["pressure"] == {"cpu": 0.312, "io": 0.0}
    assert unknown.pressure is None


def test_a_full_annotation_is_about_a_kibibyte() -> None:
    """Four windows with every statistic on a node; means and a daily profile on a workload."""
    amount = Resources(cpu=1.23456, memory=4.123 * GIB)
    full = WindowUsage(sampled_at=NOW, mean=amount, p95=amount, max=amount, deviation=amount)
    node = node_load(a_node_utilization(windows=dict.fromkeys(["5m", "15m", "1h", "1d"], full)))
    profile: dict[str, list[float | None]] = {"cpu": [1.23456] * 24, "memory": [1.1 * GIB] * 24}
    workload = workload_usage(a_workload_utilization(profile=profile))
    assert node is not None
    assert workload is not None
    assert len(as_annotations(node)[LOAD]) <= 1_024
    assert len(as_annotations(workload)[USAGE]) <= 1_024


@pytest.mark.parametrize("windows", [{}, {"5m": a_window(None, None)}, {"5m": a_window(float("nan"), -1.0)}])
def test_nothing_is_written_for_unknown_values(windows: dict[str, WindowUsage]) -> None:
    """Absent, unknown and invalid values are left out; a node without a base has no load."""
    assert node_load(a_node_utilization(windows=windows)) is None
    assert workload_usage(a_workload_utilization(windows=windows)) is None
    assert node_load(a_node_utilization(base=Resources())) is None


@given(WINDOWS)
def test_a_node_annotation_is_parsed_as_written(windows: dict[str, WindowUsage]) -> None:
    """Whatever was measured; nothing unknown becomes a number."""
    load = node_load(a_node_utilization(windows=windows))
    if load is None:
        assert all(usage.mean == Resources() for usage in windows.values())
        return
    assert read_node_load(as_annotations(load)) == (load, "")
    known = {name for name, usage in windows.items() if usage.mean != Resources()}
    assert set(load.windows) == known


@given(WINDOWS, st.lists(AMOUNTS, min_size=24, max_size=24))
def test_a_workload_annotation_is_parsed_as_it_was_written(
    windows: dict[str, WindowUsage], slots: list[float | None]
) -> None:
    """The same with a profile; a profile with only unknown slots is left out."""
    usage = workload_usage(a_workload_utilization(windows=windows, profile={"cpu": slots}))
    if usage is None:
        return
    assert read_workload_usage(as_annotations(usage)) == (usage, "")
    assert ("cpu" in usage.profile) == any(slot is not None for slot in slots)


def a_text(**changes: Any) -> str:
    usage = workload_usage(a_workload_utilization(profile={"cpu": [1.0] * 24}))
    assert usage is not None
    return json.dumps(json.loads(as_annotations(usage)[USAGE]) | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "[]",
        "\x00",
        "[" * 10_000,
        "x" * 300_000,
        a_text(sampledAt="yesterday"),
        a_text(sampledAt="2027-01-15T08:00:00"),
        a_text(sampledAt=1_800_000_000),
        a_text(windows={"5m": {"sampledAt": "2027-01-15T08:00:00Z", "mean": {"cpu": -1}}}),
        a_text(windows={"5m": {"sampledAt": "2027-01-15T08:00:00Z", "mean": {"cpu": "1"}}}),
        a_text(windows={"5m": {"mean": {"cpu": 1}}}),
        a_text(profile={"cpu": [1.0] * 23}),
        a_text(profile={"cpu": [-1.0] * 24}),
        a_text(windows={"5m": {"sampledAt": "2027-01-15T08:00:00Z", "mean": {"cpu": float("nan")}}}),
    ],
)
def test_an_invalid_annotation_is_none_with_a_reason(text: str) -> None:
    """Any kubelet may write it: invalid values are None, never an exception, never 0."""
    usage, why = read_workload_usage({USAGE: text})
    assert usage is None
    assert why.startswith(USAGE)
    load, why = read_node_load({LOAD: text})
    assert load is None
    assert why.startswith(LOAD)


def test_an_absent_annotation_has_its_own_reason() -> None:
    """Absence is no error, but differs from a value."""
    assert read_node_load({}) == (None, f"{LOAD} is absent")


@given(st.text(max_size=200))
def test_any_text_is_a_value_or_a_reason(text: str) -> None:
    for value, why in (read_node_load({LOAD: text}), read_workload_usage({USAGE: text})):
        assert (value is None) == bool(why)


def test_later_versions_may_add_fields() -> None:
    """Unknown fields are ignored, so that old readers work with new writers."""
    usage, why = read_workload_usage({USAGE: a_text(novelty=1)})
    assert usage is not None, why


def test_means_have_one_entry_per_known_window_and_resource() -> None:
    load = node_load(a_node_utilization(windows={"5m": a_window(1.0, None)}))
    assert load is not None
    assert means(load) == {"5m cpu": 0.1}


def test_a_node_is_annotated_with_what_can_be_reclaimed() -> None:
    """Per band the amounts and their hours; free, which is in no status, included. Unknown amounts are absent."""
    bands: dict[Band, ReclaimedBand] = {
        "batch": ReclaimedBand(reclaimed=Resources(cpu=1.23456, memory=GIB), hours=6),
        "free": ReclaimedBand(reclaimed=Resources(cpu=2.0)),
        "mid": ReclaimedBand(reclaimed=Resources(cpu=-1.0, memory=float("nan")), hours=24),
    }
    value = node_reclaimed(a_reclaimed_node(bands=bands, terms=TERMS))

    assert value is not None
    assert json.loads(as_annotations(value)[RECLAIMED]) == {
        "evaluatedAt": "2027-01-15T08:00:00Z",
        "capacity": {"cpu": 8, "memory": 32 * GIB},
        "bands": {"batch": {"cpu": 1.235, "memory": 1_074_000_000, "hours": 6.0}, "free": {"cpu": 2.0, "hours": 0.0}},
    }
    assert read_node_reclaimed(as_annotations(value)) == (value, "")
    assert means(value) == {
        "batch cpu": 1.235 / 8, "batch memory": 1_074_000_000 / (32 * GIB), "free cpu": 0.25
    }  # fmt: skip


def test_nothing_is_written_of_a_node_of_which_nothing_can_be_reclaimed_as_far_as_is_known() -> None:
    """Neither without amounts nor without the capacity."""
    assert node_reclaimed(a_reclaimed_node(terms=TERMS)) is None
    assert node_reclaimed(a_reclaimed_node(batch=Resources(cpu=1.0))) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be parsed"),
        ('{"evaluatedAt":"2027-01-15T08:00:00Z","capacity":{},"bands":{"other":{}}}', "cannot be parsed"),
        ('{"evaluatedAt":"2027-01-15T08:00:00Z","capacity":{},"bands":{"batch":{"cpu":-1}}}', "an invalid amount"),
        (" " * 20_000, "20000 characters"),
    ],
)
def test_an_invalid_annotation_of_bands_is_unknown(text: str, why: str) -> None:
    """Any kubelet can change the annotations of its node."""
    found, problem = read_node_reclaimed({RECLAIMED: text})

    assert found is None
    assert why in problem
