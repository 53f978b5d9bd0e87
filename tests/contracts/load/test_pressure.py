"""When pressure shows that pods wait for others."""

import msgspec
import pytest
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import PressureThresholds
from equipoise.contracts.load.pressure import (
    CONTENDED_RESOURCES,
    PressureState,
    contention,
    contention_text,
    pressure_state,
    target_problem,
    uncontended,
    waiting_for_others,
)
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure

THRESHOLDS = PressureThresholds(cpu=20, io=30)
SHARES = st.none() | st.floats(0, 1)


def measured(*pods: MeasuredPodPressure, **waiting: float) -> NodePressure:
    named = {f"u{number}": pod for number, pod in enumerate(pods)}
    return NodePressure(sampled_at=NOW, waiting=Pressure(**waiting), pods=named)


@pytest.mark.parametrize(("waiting", "state"), [(0.0, "low"), (0.2, "low"), (0.21, "high"), (1.0, "high")])
def test_pressure_above_its_threshold_is_contention(waiting: float, state: PressureState) -> None:
    assert state == pressure_state(measured(cpu=waiting), "cpu", THRESHOLDS)


def test_what_is_not_measured_or_has_no_threshold_is_unknown() -> None:
    pressure = measured(cpu=0.5, memory=0.5)

    assert "unknown" == pressure_state(pressure, "io", THRESHOLDS)
    assert "unknown" == pressure_state(pressure, "memory", THRESHOLDS)
    assert "unknown" == pressure_state(None, "cpu", THRESHOLDS)


def test_a_pod_that_its_own_limit_stops_is_no_evidence_of_contention() -> None:
    throttled = MeasuredPodPressure(cpu=0.9, throttled=0.8)

    assert "throttled" == pressure_state(measured(throttled, cpu=0.9), "cpu", THRESHOLDS)
    assert "throttled" == pressure_state(measured(throttled, MeasuredPodPressure(cpu=0.1), cpu=0.9), "cpu", THRESHOLDS)


def test_beside_a_throttled_pod_another_one_that_waits_shows_contention() -> None:
    throttled, waiting = MeasuredPodPressure(cpu=0.9, throttled=0.8), MeasuredPodPressure(cpu=0.3)

    assert "high" == pressure_state(measured(throttled, waiting, cpu=0.9), "cpu", THRESHOLDS)


def test_beside_a_throttled_pod_contention_is_unknown_without_the_pressure_of_pods() -> None:
    assert "unknown" == pressure_state(measured(MeasuredPodPressure(throttled=0.8), cpu=0.9), "cpu", THRESHOLDS)


def test_without_a_measurement_of_pods_it_is_unknown_whether_limits_make_them_wait() -> None:
    pressure = msgspec.structs.replace(measured(cpu=0.9, io=0.5), pods_known=False)

    assert ("unknown", "high") == (
        pressure_state(pressure, "cpu", THRESHOLDS), pressure_state(pressure, "io", THRESHOLDS)
    )  # fmt: skip
    assert 0.5 == waiting_for_others(pressure)
    assert "low" == pressure_state(msgspec.structs.replace(pressure, waiting=Pressure(cpu=0.1)), "cpu", THRESHOLDS)


def test_throttling_does_not_explain_waiting_for_disks() -> None:
    assert "high" == pressure_state(measured(MeasuredPodPressure(throttled=0.8), io=0.9), "io", THRESHOLDS)


def test_contention_is_named_with_its_threshold() -> None:
    waiting = contention(measured(cpu=0.344, io=0.5), THRESHOLDS)

    assert "pods wait for CPU 34% of the time (above 20%) and for disks 50% of the time (above 30%)" == contention_text(
        waiting, THRESHOLDS
    )
    assert "" == contention_text({}, THRESHOLDS)


def test_a_target_waits_for_at_most_half_of_the_threshold() -> None:
    assert "" == target_problem(measured(cpu=0.1, memory=1.0), THRESHOLDS)
    assert "" == target_problem(None, THRESHOLDS)
    assert "CPU 11% of the time (above 10%)" in target_problem(measured(cpu=0.11), THRESHOLDS)


@given(waiting=st.builds(Pressure, cpu=SHARES, memory=SHARES, io=SHARES), throttled=SHARES, pod=SHARES)
def test_a_resource_is_never_contended_and_uncontended(
    waiting: Pressure, throttled: float | None, pod: float | None
) -> None:
    pressure = NodePressure(
        sampled_at=NOW, waiting=waiting, pods={"u": MeasuredPodPressure(cpu=pod, throttled=throttled)}
    )
    contended, free = contention(pressure, THRESHOLDS).keys(), uncontended(pressure, THRESHOLDS)

    assert not contended & free
    assert all(getattr(waiting, name) is not None for name in contended | free)
    assert contended | free <= {*CONTENDED_RESOURCES} - {"memory"}


@given(st.floats(0, 1))
def test_without_thresholds_pressure_decides_nothing(share: float) -> None:
    pressure = measured(cpu=share, memory=share, io=share)

    assert {} == contention(pressure, PressureThresholds())
    assert frozenset() == uncontended(pressure, PressureThresholds())
    assert "" == target_problem(pressure, PressureThresholds())
