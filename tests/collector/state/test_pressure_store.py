"""What is kept of pressure, and for how long."""

import math

import pytest
from builders import NOW, a_placed_pod

from equipoise.collector.decisions.pressure.pressure_readings import PressureReading, without_unit
from equipoise.collector.state.pressure import UNIT_MEMORY, PressureStore
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure

POD = a_placed_pod("web-1", uid="u1")


def a_reading(cpu: float = 0.3, at: float = NOW) -> PressureReading:
    return PressureReading(sampled_at=at, waiting=Pressure(cpu=cpu))


def test_a_node_has_its_pressure_and_that_of_its_pods() -> None:
    store = PressureStore(180.0)
    store.record({"uid-a": a_reading()}, NOW)
    store.record_pods({"u1": MeasuredPodPressure(cpu=0.2), "u2": MeasuredPodPressure(cpu=0.9)}, NOW)

    expected = NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.3), pods={"u1": MeasuredPodPressure(cpu=0.2)})
    assert expected == store.message("uid-a", [POD], NOW + 30)
    assert store.message("uid-b", [POD], NOW) is None


def test_what_is_too_old_is_unknown() -> None:
    store = PressureStore(180.0)
    store.record_pods({"u1": MeasuredPodPressure(cpu=0.2)}, NOW)
    store.record({"uid-a": a_reading()}, NOW)
    assert store.message("uid-a", [POD], NOW + 181) is None

    store.record({"uid-a": a_reading(at=NOW + 170)}, NOW + 170)
    recorded = store.message("uid-a", [POD], NOW + 181)
    assert recorded is not None
    assert ({}, False) == (recorded.pods, recorded.pods_known)


@pytest.mark.parametrize("period", [1.0, 15.0, 50.0, 60.0])
def test_pods_are_due_before_they_are_too_old_whatever_the_period_of_rounds_is(period: float) -> None:
    """A lifetime is at least three periods long."""
    store, ages = PressureStore(180.0), list[float]()
    measured_at = -math.inf
    for number in range(100):
        at = NOW + number * period
        ages.append(at - measured_at)
        if store.pods_due(at):
            store.record_pods({}, at)
            measured_at = at
    assert max(ages[1:]) + period <= 180.0
    assert store.pods_due(NOW - 3_600)


def test_a_node_with_a_wrong_unit_stays_unknown_for_a_day() -> None:
    """At low pressure, milliseconds look like a possible share of time."""
    store = PressureStore(2 * UNIT_MEMORY)
    store.record({"uid-a": without_unit(NOW, "cpu waits 431 s per second")}, NOW)
    store.record({"uid-a": a_reading(), "uid-b": a_reading()}, NOW + 600)

    assert "431" in store.readings["uid-a"].unknown["cpu"]
    assert Pressure() == store.readings["uid-a"].waiting
    assert 0.3 == store.readings["uid-b"].waiting.cpu

    store.record({"uid-a": a_reading()}, NOW + UNIT_MEMORY + 1)
    assert 0.3 == store.readings["uid-a"].waiting.cpu


def test_a_clock_that_goes_back_ends_what_was_remembered() -> None:
    store = PressureStore(180.0)
    store.record({"uid-a": without_unit(NOW, "cpu waits 431 s per second")}, NOW)
    store.record({"uid-a": a_reading(at=NOW - 600)}, NOW - 600)

    assert 0.3 == store.readings["uid-a"].waiting.cpu
