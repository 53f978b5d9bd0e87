"""Exact usage of nodes."""

import numpy as np
import pytest
from lab.traces import QUARTER, a_trace

from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves

RISING = tuple(float(step) for step in range(96))

GIB = 2.0**30


def test_a_mean_over_parts_of_steps_is_exact() -> None:
    """From the middle of step 1 to the middle of step 3, the curve 0, 1, 2, 3, … has the mean (1 + 2·2 + 3) / 4."""
    curves = UsageCurves(a_trace(curves=(RISING,)))

    mean = curves.mean(1.5 * QUARTER, 3.5 * QUARTER)

    assert pytest.approx((1 + 2 * 2 + 3) / 4 / 1_000) == mean[0, 0]


def test_a_trace_repeats_in_both_directions() -> None:
    curves = UsageCurves(a_trace(curves=(RISING,)))

    assert curves.at(-QUARTER / 2)[0, 0] == pytest.approx(0.095)
    assert curves.mean(-QUARTER, 0.0)[0, 0] == pytest.approx(0.095)
    assert curves.mean(-86_400.0, 86_400.0)[0, 0] == pytest.approx(np.mean(RISING) / 1_000)


def test_a_pod_uses_its_node_from_start_to_stop() -> None:
    """One core for 100 seconds is 100 core seconds."""
    trace = a_trace()
    usage = ClusterUsage(trace, UsageCurves(trace))
    pod = usage.add_pod(0)

    usage.start(pod, 2, now=50.0)
    usage.stop(pod, now=150.0)
    usage.pass_time(300.0)

    assert [0.0, 0.0, pytest.approx(100.0), 0.0] == usage.used[:, 0].tolist()
    assert pytest.approx(0.0) == usage.usage.sum()


def test_usage_changes_with_each_step() -> None:
    """It is constant within a step."""
    trace = a_trace(curves=((1_000.0, 3_000.0) * 48,), placed=(0, 0, 1, 1))
    usage = ClusterUsage(trace, UsageCurves(trace))
    for node in (0, 0, 1, 1):
        usage.start(usage.add_pod(0), node, now=0.0)

    usage.step(QUARTER)

    assert [6.0, 6.0, 0.0, 0.0] == usage.usage[:, 0].tolist()
    assert [2 * QUARTER, 2 * QUARTER, 0.0, 0.0] == usage.used[:, 0].tolist()


def test_demand_above_the_capacity_is_lost() -> None:
    """A demand of ten cores on eight for a minute loses two core minutes."""
    trace = a_trace(curves=((10_000.0,) * 96,))
    usage = ClusterUsage(trace, UsageCurves(trace))
    usage.start(usage.add_pod(0), 0, now=0.0)

    usage.pass_time(60.0)

    assert pytest.approx(120.0) == usage.lost


def test_the_highest_memory_since_the_last_time_is_known_however_short_it_was() -> None:
    trace = a_trace(replicas=(4,), memory_mib=1_024.0)
    usage = ClusterUsage(trace, UsageCurves(trace))
    pods = [usage.add_pod(0) for _ in range(3)]
    for pod in pods:
        usage.start(pod, 0, now=0.0)
    usage.stop(pods[0], now=1.0)
    usage.pass_time(60.0)

    assert [3 * GIB, 0.0, 0.0, 0.0] == usage.take_memory_peak().tolist()
    usage.pass_time(120.0)
    assert [2 * GIB, 0.0, 0.0, 0.0] == usage.take_memory_peak().tolist()
