"""The load of a node, corrected for new and gone pods."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from builders import (
    GIB,
    NOW,
    a_batch_pod,
    a_gone_pod,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_window,
    a_workload,
    a_workload_utilization,
)

from equipoise.contracts.configuration.settings import BatchWorkWeight, LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import WATER_LEVEL, pod_usage
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import Statistic
from equipoise.scorer.decisions.load_correction import corrected_load, sums_of_requests_and_limits, weighted_pods

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


def test_a_terminating_pod_counts_as_long_as_it_runs() -> None:
    """It counts in every window and statistic: it may need hours to end."""
    pod = a_placed_pod(placed_at=NOW - 100_000, running_since=NOW - 99_000, terminating=True, priority_class="prod")
    utilization = a_node_utilization(cpu=8.0, pods={pod.uid: Resources(cpu=6.0, memory=GIB)})
    statistics: tuple[Statistic, ...] = ("production",)
    usage_of = pod_usage({}, load=LOAD, now=NOW)

    mean, production = corrected_load(utilization, a_placement(pods=[pod]), usage_of, load=LOAD, statistics=statistics)[
        :, :, 0
    ]

    assert mean.tolist() == pytest.approx([0.8] * 4)
    assert production.tolist() == pytest.approx([0.6] * 4)


def test_a_gone_pod_is_subtracted_while_a_mean_includes_it() -> None:
    """Ten minutes after it left, 5m does not include it, 15m a third of it."""
    gone = GonePod(
        uid="g", namespace="shop", name="g", running_since=NOW - 90_000, gone_at=NOW - 600, usage=Resources(cpu=3.0)
    )

    load = load_of(a_node_utilization(cpu=2.0), a_placement(gone=[gone]))

    assert load[FIVE, 0] == pytest.approx(0.2)
    assert load[FIFTEEN, 0] == pytest.approx(0.1)


@pytest.mark.parametrize("present", [4.0, 0.0])
def test_a_pod_that_left_hides_nothing_that_others_use(present: float) -> None:
    """Unmeasured, it subtracts nothing; measured at more than it used, no more than the others leave."""
    pod = a_placed_pod("web-1", placed_at=NOW - 100_000, running_since=NOW - 99_000)
    utilization = a_node_utilization(cpu=8.0, pods={pod.uid: Resources(cpu=present, memory=GIB)})
    unmeasured = a_gone_pod("job-1", NOW - 60, running_since=NOW - 200, requests=Resources(cpu=16.0, memory=GIB))
    measured = a_gone_pod("job-2", NOW - 1, usage=Resources(cpu=16.0))

    assert load_of(utilization, a_placement(pods=[pod], gone=[unmeasured]))[FIVE, 0] == pytest.approx(0.8)
    assert load_of(utilization, a_placement(pods=[pod], gone=[unmeasured, measured]))[:, 0].tolist() == pytest.approx(
        [present / 10] * 4
    )


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


def weighted_load(
    cpu: float, pods: list[PlacedPod], *, load: LoadSettings = LOAD, statistics: tuple[Statistic, ...] = ()
) -> Array:
    """Of a node of 10 cores. Each pod is measured at two cores and 8 GiB; the node uses 32 GiB."""
    utilization = a_node_utilization(
        cpu=cpu, memory=32 * GIB, pods={pod.uid: Resources(cpu=2.0, memory=8 * GIB) for pod in pods}
    )
    mean = Resources(cpu=cpu, memory=32 * GIB)
    utilization = msgspec.structs.replace(
        utilization,
        windows={
            name: msgspec.structs.replace(value, p95=mean, max=mean) for name, value in utilization.windows.items()
        },
    )
    placement, usage_of = a_placement(pods=pods), pod_usage({}, load=load, chain=WATER_LEVEL, now=NOW)
    batch_work = weighted_pods(placement)
    return corrected_load(utilization, placement, usage_of, load=load, statistics=statistics, batch_work=batch_work)


def test_the_usage_of_batch_work_counts_with_its_weight() -> None:
    """A fifth of its cores and all of its memory; of mid and of best effort pods without a band, everything."""
    others = [a_batch_pod("mid", priority=7_500, priority_class="mid"), a_placed_pod("best", priority_class="batch")]
    found = weighted_load(8.0, [a_batch_pod("job-1"), a_batch_pod("job-2"), *others])[0]

    assert found == pytest.approx(np.tile([0.8 - 2 * 0.8 * 0.2, 0.5], (4, 1)))


@pytest.mark.parametrize("compensation", ["proportional", "cliff", "off"])
def test_only_that_part_of_batch_work_is_subtracted_that_the_value_includes(compensation: str) -> None:
    """A pod that has just begun, and one that is terminating since the sample."""
    load = msgspec.structs.replace(LOAD, compensation=compensation)
    nothing = msgspec.structs.replace(load, batch_work_weight=BatchWorkWeight(cpu=0.0, memory=0.0))
    everything = msgspec.structs.replace(load, batch_work_weight=BatchWorkWeight(cpu=1.0, memory=1.0))
    new = a_batch_pod("new", placed_at=NOW - 150, running_since=NOW - 150)
    leaving = a_batch_pod("leaving", terminating=True)

    with_new = weighted_load(5.0, [new], load=everything)[0, FIVE, 0]
    assert weighted_load(5.0, [new], load=nothing)[0, FIVE, 0] == pytest.approx(
        {"proportional": 0.4, "cliff": 0.4, "off": 0.4}[compensation]
    )
    assert with_new == pytest.approx({"proportional": 0.6, "cliff": 0.5, "off": 0.5}[compensation])
    assert weighted_load(5.0, [leaving], load=nothing)[0, FIVE, 0] == pytest.approx(0.3)


def test_peaks_are_reduced_as_the_mean_and_what_is_no_usage_of_batch_work_is_not() -> None:
    """The deviation, production pods, and the usage outside pods."""
    statistics: tuple[Statistic, ...] = ("p95", "max", "deviation", "production", "system")
    with_job = weighted_load(5.0, [a_batch_pod("job-1")], statistics=statistics)[1:, FIVE, 0]
    unweighted = msgspec.structs.replace(LOAD, batch_work_weight=BatchWorkWeight(cpu=1.0))
    total = weighted_load(5.0, [a_batch_pod("job-1")], statistics=statistics, load=unweighted)[1:, FIVE, 0]

    assert np.nan_to_num(total - with_job) == pytest.approx([0.16, 0.16, 0.0, 0.0, 0.0])


def test_an_unknown_mean_stays_unknown_with_batch_work() -> None:
    """And load is never below 0, whatever pods are measured at."""
    assert np.isnan(weighted_load(math.nan, [a_batch_pod("job-1")])[0, :, 0]).all()
    assert weighted_load(1.0, [a_batch_pod("job-1")])[0, :, 0].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("pod", "requested", "limited"),
    [
        (a_batch_pod(), [0.0, 0.0], [1.0, GIB]),
        (a_batch_pod(reclaimed_limits=Resources(cpu=4.0, memory=3 * GIB)), [0.0, 0.0], [4.0, 3 * GIB]),
        (
            a_batch_pod(reclaimed_requests=Resources(memory=2 * GIB), requests=Resources(cpu=0.5)),
            [0.5, 0.0],
            [0.5, 2 * GIB],
        ),
        (a_placed_pod(limits=Resources(cpu=2.0)), [0.5, GIB], [2.0, GIB]),
    ],
)
def test_the_amounts_of_a_band_are_limits_and_no_requests(
    pod: PlacedPod, requested: list[float], limited: list[float]
) -> None:
    """kube-scheduler compares them with what the node offers of the band, and not with its cpu and memory."""
    assert [requested, limited] == sums_of_requests_and_limits(a_placement(pods=[pod])).tolist()


def test_a_new_batch_pod_is_added_with_what_it_requests_of_its_band() -> None:
    """Its usage is not known, and the mean of the window has nothing of it yet."""
    four = Resources(cpu=4.0, memory=8 * GIB)
    new = a_batch_pod(workload=None, placed_at=NOW, running_since=NOW, reclaimed_requests=four)

    load = load_of(
        a_node_utilization(cpu=1.0, memory=0.0),
        a_placement(pods=[new]),
        load=msgspec.structs.replace(LOAD, batch_work_weight=BatchWorkWeight(cpu=1.0, memory=1.0)),
    )

    assert [0.5, 0.125] == pytest.approx(load[FIVE].tolist(), abs=0.01)
