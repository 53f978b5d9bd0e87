"""Replicas that follow the usage of a trace."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.traces import QUARTER, a_trace

from equipoise.lab.model.replicas.autoscaling import autoscaled, pods_by_hour
from equipoise.lab.model.trace import Trace

STEPS = 96


def replicas(trace: Trace, workload: int = 0) -> list[int]:
    found = autoscaled(trace).replicas_by_step
    assert found is not None
    return found[workload].tolist()


def of_shares(*shares: float, number: int = 10, kind: str = "Deployment", seconds_per_step: float = QUARTER) -> Trace:
    """A workload whose pods use these shares of one core, each for the same part of a day."""
    trace = a_trace(curves=(np.repeat(np.array(shares) * 1_000.0, STEPS // len(shares)).tolist(),), replicas=(number,))
    workload = msgspec.structs.replace(trace.workloads[0], kind=kind)
    return msgspec.structs.replace(trace, workloads=(workload,), seconds_per_step=seconds_per_step)


def test_a_workload_has_the_replicas_that_its_usage_needs() -> None:
    """Rounded up: ten pods for the highest usage, six for 55 % of it."""
    assert [10] * 48 + [6] * 48 == replicas(of_shares(1.0, 0.55))


def test_a_change_of_a_tenth_scales_nothing() -> None:
    """As with the tolerance of kube-controller-manager."""
    assert [100] * 96 == replicas(of_shares(1.0, 0.91, number=100))
    assert 89 == min(replicas(of_shares(1.0, 0.89, number=100)))


def test_replicas_fall_only_when_fewer_were_needed_for_five_minutes() -> None:
    """With steps of five minutes, one step later. They rise at once."""
    found = replicas(of_shares(0.5, 1.0, 0.5, 0.5, seconds_per_step=300.0))

    assert [5] * 24 + [10] * 25 + [5] * 47 == found


@pytest.mark.parametrize(("number", "kind"), [(1, "Deployment"), (10, "StatefulSet"), (10, "Job")])
def test_single_replicas_and_other_controllers_are_not_scaled(number: int, kind: str) -> None:
    assert [number] * 96 == replicas(of_shares(1.0, 0.3, number=number, kind=kind))


def test_idle_workloads_are_not_scaled() -> None:
    assert [10] * 96 == replicas(of_shares(0.0, number=10))


@given(st.lists(st.floats(0.0, 5_000.0), min_size=8, max_size=8), st.integers(1, 40))
def test_a_workload_uses_as_much_as_in_the_trace(curve: list[float], number: int) -> None:
    """Divided among one to as many pods as in the trace."""
    trace = a_trace(curves=(curve,), replicas=(number,))

    found = autoscaled(trace)

    assert found.replicas_by_step is not None
    assert ((found.replicas_by_step >= 1) & (found.replicas_by_step <= number)).all()
    assert np.allclose(found.replicas_by_step * found.cpu_milli, trace.cpu_milli * number)


def test_pods_count_in_an_hour_that_they_run_for_most_of() -> None:
    """A pod that is missing for a quarter of an hour does not count. The trace repeats."""
    steps = np.full((1, STEPS), 4)
    steps[0, 40] = 3  # a quarter of the hour from 10:00

    by_hour = pods_by_hour(steps, QUARTER, 36 * 3_600.0)

    # The hours from 12:00 of the first day to 12:00 of the second one.
    assert [4.0] * 22 + [3.0, 4.0] == by_hour[0].tolist()
