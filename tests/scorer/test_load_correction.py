"""The load of a node, corrected for new and gone pods."""

from collections.abc import Mapping

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
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import WATER_LEVEL, pod_usage
from equipoise.contracts.messages.placement import GonePod, NodePlacement
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.numeric import Array
from equipoise.scorer.state.load_correction import corrected_load

LOAD = LoadSettings()
FIVE, FIFTEEN, HOUR, DAY = range(4)


def load_of(
    utilization: NodeUtilization,
    placement: NodePlacement,
    workloads: Mapping[Workload, WorkloadUtilization] | None = None,
    load: LoadSettings = LOAD,
) -> Array:
    usage_of = pod_usage(workloads or {}, load=load, chain=WATER_LEVEL, now=NOW)
    return corrected_load(utilization, placement, usage_of, load=load)[0]


def test_long_running_pods_change_nothing() -> None:
    """Every mean includes a pod that ran for all of every window."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 100_000, running_since=NOW - 99_000)])

    load = load_of(a_node_utilization(cpu=3.0, memory=32 * GIB), placement)

    assert load.tolist() == [[0.3, 0.5]] * 4


def test_a_new_pod_is_added_with_the_measured_usage_of_its_workload() -> None:
    """It is not measured itself yet."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1, running_since=None, limits=Resources(cpu=8.0))])
    workloads = {a_workload(): a_workload_utilization(cpu=2.0, memory=GIB)}

    load = load_of(a_node_utilization(cpu=3.0), placement, workloads)

    assert load[:, 0].tolist() == [0.5] * 4


def test_a_new_pod_of_an_unmeasured_workload_is_added_with_its_limit() -> None:
    """The chain of the policy: measured, limit, request, default."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1, running_since=None, limits=Resources(cpu=4.0))])

    assert load_of(a_node_utilization(cpu=3.0), placement)[FIVE, 0] == pytest.approx(0.7)


def test_stale_usage_of_a_workload_does_not_count() -> None:
    """The next source of the chain does: here the request."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1, running_since=None)])
    stale = {name: a_window(2.0, GIB, NOW - 90_000) for name in ("5m", "1d")}
    workloads = {a_workload(): a_workload_utilization(windows=stale)}

    assert load_of(a_node_utilization(cpu=3.0), placement, workloads)[FIVE, 0] == pytest.approx(0.35)


def test_each_window_gets_the_share_that_its_mean_lacks() -> None:
    """After five minutes, 5m includes all of a pod, 15m a third, 1h a twelfth."""
    pod = a_placed_pod(placed_at=NOW - 310, running_since=NOW - 300)
    utilization = a_node_utilization(cpu=1.0, pods={pod.uid: Resources(cpu=1.2, memory=GIB)})

    load = load_of(utilization, a_placement(pods=[pod]))

    assert load[FIVE, 0] == pytest.approx(0.1)
    assert load[FIFTEEN, 0] == pytest.approx((1.0 + 1.2 * 2 / 3) / 10)
    assert load[HOUR, 0] == pytest.approx((1.0 + 1.2 * 11 / 12) / 10)


def test_a_terminating_pod_is_subtracted() -> None:
    """It will be gone before the new pod is busy."""
    pod = a_placed_pod(placed_at=NOW - 100_000, running_since=NOW - 99_000, terminating=True)
    utilization = a_node_utilization(cpu=3.0, pods={pod.uid: Resources(cpu=2.0, memory=GIB)})

    assert load_of(utilization, a_placement(pods=[pod]))[:, 0].tolist() == pytest.approx([0.1] * 4)


def test_a_gone_pod_is_subtracted_while_a_mean_includes_it() -> None:
    """Ten minutes after it left, 5m does not include it, 15m a third of it."""
    gone = GonePod(
        uid="g", namespace="shop", name="g", running_since=NOW - 90_000, gone_at=NOW - 600, usage=Resources(cpu=3.0)
    )

    load = load_of(a_node_utilization(cpu=2.0), a_placement(gone=[gone]))

    assert load[FIVE, 0] == pytest.approx(0.2)
    assert load[FIFTEEN, 0] == pytest.approx(0.1)


def test_missing_windows_are_unknown() -> None:
    """An uncovered window is NaN, and so is a resource without usage or base, whatever the pods are."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1)])
    utilization = a_node_utilization(windows={"15m": a_window(cpu=None)}, base=Resources(cpu=10.0, memory=64 * GIB))

    load = load_of(utilization, placement)

    assert np.isnan(load[[FIVE, HOUR, DAY]]).all()
    assert np.isnan(load[FIFTEEN, 0])
    assert load[FIFTEEN, 1] > 0
    assert np.isnan(load_of(a_node_utilization(base=Resources(cpu=0.0)), placement)).all()


def test_windows_that_are_not_configured_are_ignored() -> None:
    """If a collector measures only other windows, the node is unknown."""
    assert np.isnan(load_of(a_node_utilization(windows={"7d": a_window()}), a_placement(pods=[a_placed_pod()]))).all()


def test_compensation_off_returns_the_measured_means() -> None:
    """For comparison."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 1)])

    load = load_of(a_node_utilization(cpu=3.0), placement, load=LoadSettings(compensation="off"))

    assert load[:, 0].tolist() == [0.3] * 4


def test_compensation_cliff_adds_all_or_nothing() -> None:
    """A pod placed before the sample is not added, one placed with it or later is added in full."""
    early = a_placed_pod("early", placed_at=NOW - 1, running_since=None)
    late = a_placed_pod("late", placed_at=NOW, running_since=None)
    cliff = LoadSettings(compensation="cliff")

    assert load_of(a_node_utilization(cpu=3.0), a_placement(pods=[early]), load=cliff)[FIVE, 0] == pytest.approx(0.3)
    assert load_of(a_node_utilization(cpu=3.0), a_placement(pods=[early, late]), load=cliff)[FIVE, 0] == pytest.approx(
        0.35
    )


def test_the_pod_start_timeout_is_a_setting() -> None:
    """A pod without a start time counts as started `podStartTimeout` after its placement."""
    placement = a_placement(pods=[a_placed_pod(placed_at=NOW - 500, running_since=None)])
    short = msgspec.structs.replace(LOAD, pod_start_timeout=1.0)

    assert load_of(a_node_utilization(cpu=3.0), placement, load=short)[FIVE, 0] == pytest.approx(0.3)
    assert load_of(a_node_utilization(cpu=3.0), placement)[FIVE, 0] == pytest.approx(0.35)
