"""What nodes use, to the second."""

import numpy as np
import pytest
from lab.traces import QUARTER, a_trace

from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves

RISING = tuple(float(step) for step in range(96))


def test_a_mean_over_parts_of_steps_is_exact() -> None:
    """From the middle of step 1 to the middle of step 3 a curve 0, 1, 2, 3 … has the mean (1 + 2·2 + 3) / 4."""
    curves = UsageCurves(a_trace(curves=(RISING,)))

    mean = curves.mean(1.5 * QUARTER, 3.5 * QUARTER)

    assert pytest.approx((1 + 2 * 2 + 3) / 4 / 1_000) == mean[0, 0]


def test_a_trace_is_repeated_for_ever_in_both_directions() -> None:
    """The day before is the same day."""
    curves = UsageCurves(a_trace(curves=(RISING,)))

    assert curves.at(-QUARTER / 2)[0, 0] == pytest.approx(0.095)
    assert curves.mean(-QUARTER, 0.0)[0, 0] == pytest.approx(0.095)
    assert curves.mean(-86_400.0, 86_400.0)[0, 0] == pytest.approx(np.mean(RISING) / 1_000)


def test_a_pod_counts_from_its_start_to_its_stop() -> None:
    """One core for a hundred seconds is a hundred core seconds, on its node alone."""
    trace = a_trace()
    world = ClusterUsage(trace, UsageCurves(trace))
    pod = world.pod(0)

    world.start(pod, 2, now=50.0)
    world.stop(pod, now=150.0)
    world.pass_time(300.0)

    assert [0.0, 0.0, pytest.approx(100.0), 0.0] == world.used[:, 0].tolist()
    assert pytest.approx(0.0) == world.usage.sum()


def test_a_step_changes_what_running_pods_use() -> None:
    """Usage is constant within a step and follows the curve at its end."""
    trace = a_trace(curves=((1_000.0, 3_000.0) * 48,), placed=(0, 0, 1, 1))
    world = ClusterUsage(trace, UsageCurves(trace))
    for node in (0, 0, 1, 1):
        world.start(world.pod(0), node, now=0.0)

    world.step(QUARTER)

    assert [6.0, 6.0, 0.0, 0.0] == world.usage[:, 0].tolist()
    assert [2 * QUARTER, 2 * QUARTER, 0.0, 0.0] == world.used[:, 0].tolist()


def test_what_a_node_does_not_have_is_lost() -> None:
    """Ten cores asked of eight for a minute lose two core minutes."""
    trace = a_trace(curves=((10_000.0,) * 96,))
    world = ClusterUsage(trace, UsageCurves(trace))
    world.start(world.pod(0), 0, now=0.0)

    world.pass_time(60.0)

    assert pytest.approx(120.0) == world.lost
