"""A node's load with what its windows do not show yet."""

import msgspec
import numpy as np
import pytest
from builders import (
    GIB,
    NOW,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_window,
    a_workload,
    a_workload_utilization,
)

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.demand import WATER_LEVEL
from equipoise.contracts.messages.placement import GonePod, NodePlacement
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.scorer.state.arrays import Array
from equipoise.scorer.state.load_correction import Workloads, compensated_load

LOAD = LoadSettings()
FIVE, FIFTEEN, HOUR, DAY = range(4)


def load_of(
    utilization: NodeUtilization,
    placement: NodePlacement,
    workloads: Workloads | None = None,
    load: LoadSettings = LOAD,
) -> Array:
    return compensated_load(utilization, placement, workloads or {}, load=load, chain=WATER_LEVEL, now=NOW)[0]


def test_pods_that_have_long_been_there_change_nothing() -> None:
    """A pod that ran through every window is in every mean already."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 100_000, running_since=NOW - 99_000)])

    load = load_of(a_node_utilization(cpu=3.0, memory=32 * GIB), placement)

    assert load.tolist() == [[0.3, 0.5]] * 4


def test_a_pod_that_just_came_is_added_by_its_workloads_measured_usage() -> None:
    """Never measured itself, it is expected to use what its siblings use."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1, running_since=None, limits=Resources(cpu=8.0))])
    workloads = {a_workload(): a_workload_utilization(cpu=2.0, memory=GIB)}

    load = load_of(a_node_utilization(cpu=3.0), placement, workloads)

    assert load[:, 0].tolist() == [0.5] * 4


def test_without_siblings_its_limit_counts() -> None:
    """The chain of the policy: measured, limit, request, default."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1, running_since=None, limits=Resources(cpu=4.0))])

    assert load_of(a_node_utilization(cpu=3.0), placement)[FIVE, 0] == pytest.approx(0.7)


def test_siblings_measured_long_ago_do_not_count() -> None:
    """A stale workload is unknown: the request speaks."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1, running_since=None)])
    stale = {name: a_window(2.0, GIB, NOW - 90_000) for name in ("5m", "1d")}
    workloads = {a_workload(): a_workload_utilization(windows=stale)}

    assert load_of(a_node_utilization(cpu=3.0), placement, workloads)[FIVE, 0] == pytest.approx(0.35)


def test_each_window_gets_the_share_that_it_lacks() -> None:
    """A pod of five minutes is whole in 5m, a third in 15m, a twelfth in 1h."""
    pod = a_placed_pod(placed_at=NOW - 310, running_since=NOW - 300)
    utilization = a_node_utilization(cpu=1.0, pods={pod.uid: Resources(cpu=1.2, memory=GIB)})

    load = load_of(utilization, a_placement(pods=[pod]))

    assert load[FIVE, 0] == pytest.approx(0.1)
    assert load[FIFTEEN, 0] == pytest.approx((1.0 + 1.2 * 2 / 3) / 10)
    assert load[HOUR, 0] == pytest.approx((1.0 + 1.2 * 11 / 12) / 10)


def test_a_terminating_pod_is_taken_off() -> None:
    """It will be gone before the new pod is warm."""
    pod = a_placed_pod(placed_at=NOW - 100_000, running_since=NOW - 99_000, terminating=True)
    utilization = a_node_utilization(cpu=3.0, pods={pod.uid: Resources(cpu=2.0, memory=GIB)})

    assert load_of(utilization, a_placement(pods=[pod]))[:, 0].tolist() == pytest.approx([0.1] * 4)


def test_a_pod_that_left_is_taken_off_while_the_mean_still_holds_it() -> None:
    """Gone for ten minutes: 5m is clean, a third of 15m still holds it."""
    gone = GonePod(
        uid="g", namespace="shop", name="g", running_since=NOW - 90_000, gone_at=NOW - 600, usage=Resources(cpu=3.0)
    )

    load = load_of(a_node_utilization(cpu=2.0), a_placement(gone=[gone]))

    assert load[FIVE, 0] == pytest.approx(0.2)
    assert load[FIFTEEN, 0] == pytest.approx(0.1)


def test_windows_that_are_absent_stay_unknown() -> None:
    """An uncovered window is NaN, and so is a resource without usage or base; pods do not make them known."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1)])
    utilization = a_node_utilization(windows={"15m": a_window(cpu=None)}, base=Resources(cpu=10.0, memory=64 * GIB))

    load = load_of(utilization, placement)

    assert np.isnan(load[[FIVE, HOUR, DAY]]).all()
    assert np.isnan(load[FIFTEEN, 0])
    assert load[FIFTEEN, 1] > 0
    assert np.isnan(load_of(a_node_utilization(base=Resources(cpu=0.0)), placement)).all()


def test_windows_nobody_configured_are_no_trouble() -> None:
    """A collector with other windows than ours leaves the node unknown."""
    assert np.isnan(load_of(a_node_utilization(windows={"7d": a_window()}), a_placement(pods=[a_placed_pod()]))).all()


def test_compensation_can_be_switched_off() -> None:
    """To compare with the measured means."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1)])

    load = load_of(a_node_utilization(cpu=3.0), placement, load=LoadSettings(compensation="off"))

    assert load[:, 0].tolist() == [0.3] * 4


def test_cliff_is_all_or_nothing() -> None:
    """A pod placed a moment before the sample is not added at all, one placed with it wholly."""
    early = a_placed_pod("early", placed_at=NOW - 1, running_since=None)
    late = a_placed_pod("late", placed_at=NOW, running_since=None)
    cliff = LoadSettings(compensation="cliff")

    assert load_of(a_node_utilization(cpu=3.0), a_placement(pods=[early]), load=cliff)[FIVE, 0] == pytest.approx(0.3)
    assert load_of(a_node_utilization(cpu=3.0), a_placement(pods=[early, late]), load=cliff)[FIVE, 0] == pytest.approx(
        0.35
    )


def test_the_start_limit_is_a_setting() -> None:
    """A pod that never says it runs is added for `podStartTimeout` and the window after it."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 500, running_since=None)])
    short = msgspec.structs.replace(LOAD, pod_start_timeout=1.0)

    assert load_of(a_node_utilization(cpu=3.0), placement, load=short)[FIVE, 0] == pytest.approx(0.3)
    assert load_of(a_node_utilization(cpu=3.0), placement)[FIVE, 0] == pytest.approx(0.35)
