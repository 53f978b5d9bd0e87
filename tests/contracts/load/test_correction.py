"""Load, age and the correction of windows."""

import math

import pytest
from builders import (
    GIB,
    NOW,
    a_gone_pod,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_window,
    a_workload_utilization,
)
from hypothesis import example, given
from hypothesis import strategies as st

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.load.correction import (
    FUTURE_TOLERANCE,
    PodLifetime,
    corrected,
    correction_factor,
    is_fresh,
    known,
    load_of,
    measured_usage,
    partial_lifetimes,
    plus,
    share_measured,
    usable_window,
)
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.messages.values.resources import Resources

LOAD = LoadSettings()

anything = st.one_of(st.none(), st.floats())
amounts = st.floats(0, 1e12)
moments = st.floats(-1e6, 1e6)
near = st.sampled_from([-1_000.0, -280.0, -40.0, 0.0, 20.0])
cores = st.sampled_from([None, 1.0, 2.5])


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, -0.1])
def test_an_invalid_amount_is_unknown(value: float | None) -> None:
    """NaN, infinities and negative numbers are unknown, never 0."""
    assert known(value) is None


@given(usage=anything, base=anything)
def test_load_is_a_finite_share_or_unknown(usage: float | None, base: float | None) -> None:
    """For any usage and base, the load is unknown or a number from 0."""
    load = load_of(Resources(cpu=usage), Resources(cpu=base)).cpu

    assert load is None or (load >= 0 and not math.isnan(load))


def test_load_without_a_base_is_unknown() -> None:
    """With a base of zero or infinity the load is unknown, not 0."""
    assert load_of(Resources(cpu=1.0, memory=1.0), Resources(cpu=0.0, memory=math.inf)) == Resources()


@given(left=anything, right=anything)
def test_a_sum_is_known_if_the_left_amount_is(left: float | None, right: float | None) -> None:
    """An unknown right amount adds nothing."""
    total = plus(Resources(cpu=left), Resources(cpu=right)).cpu

    assert (total is None) == (known(left) is None)


def test_a_sum_is_never_negative() -> None:
    assert plus(Resources(cpu=1.0), Resources(cpu=3.0), sign=-1.0).cpu == 0.0


@pytest.mark.parametrize(
    ("age", "fresh"), [(0, True), (180, True), (181, False), (-FUTURE_TOLERANCE, True), (-FUTURE_TOLERANCE - 1, False)]
)
def test_a_sample_is_fresh_until_its_maximum_age(age: float, fresh: bool) -> None:
    """Samples that are too old or in the future are not."""
    assert is_fresh(NOW - age, NOW, 180) is fresh


def test_no_sample_is_fresh_above_the_maximum_clock_skew() -> None:
    """In either direction."""
    assert not is_fresh(NOW, NOW, 180, skew=-11, skew_limit=10)
    assert not is_fresh(math.nan, NOW, 180)


def test_a_pod_that_arrived_within_the_window_is_added_in_part() -> None:
    """It ran for a quarter of the window, so three quarters are added."""
    pod = PodLifetime(placed_at=NOW - 230, running_since=NOW - 225, usage=Resources(cpu=4.0, memory=GIB))

    mean = corrected(Resources(cpu=1.0, memory=GIB), [pod], sampled_at=NOW, length=900, load=LOAD)

    assert mean == Resources(cpu=4.0, memory=1.75 * GIB)


def test_a_pod_that_left_is_subtracted_in_part() -> None:
    """It ran for the first third of the window, so a third of its usage is still in the mean."""
    pod = PodLifetime(placed_at=NOW - 5000, running_since=NOW - 5000, gone_at=NOW - 600, usage=Resources(cpu=3.0))

    assert corrected(Resources(cpu=5.0), [pod], sampled_at=NOW, length=900, load=LOAD).cpu == pytest.approx(4.0)


def test_a_pod_counts_as_started_after_the_start_timeout() -> None:
    """At most `podStartTimeout` after its placement, so that it is not added forever."""
    pod = PodLifetime(placed_at=NOW - 650, usage=Resources(cpu=1.0))

    assert share_measured(pod, NOW, 100) == pytest.approx(0.5)
    assert share_measured(pod, NOW, 100, pod_start_timeout=10) == 1.0


def test_cliff_adds_a_whole_pod_until_a_sample_follows_its_placement() -> None:
    """The cache of the water-level scheduler: all or nothing, and nothing for pods that left."""
    late = PodLifetime(placed_at=NOW, usage=Resources(cpu=2.0))
    early = PodLifetime(placed_at=NOW - 1, usage=Resources(cpu=2.0))
    gone = PodLifetime(placed_at=NOW - 5000, gone_at=NOW - 100, usage=Resources(cpu=2.0))

    assert (
        corrected(
            Resources(cpu=1.0), [late, early, gone], sampled_at=NOW, length=900, load=LoadSettings(compensation="cliff")
        ).cpu
        == 3.0
    )


def test_off_returns_the_mean_as_measured() -> None:
    pod = PodLifetime(placed_at=NOW, usage=Resources(cpu=2.0))

    assert corrected(
        Resources(cpu=1.0), [pod], sampled_at=NOW, length=900, load=LoadSettings(compensation="off")
    ) == Resources(cpu=1.0)


@given(
    mean=amounts, usage=anything, placed=moments, ran=st.one_of(st.none(), moments), gone=st.one_of(st.none(), moments)
)
def test_a_correction_is_at_most_the_usage_of_the_pod(
    mean: float, usage: float | None, placed: float, ran: float | None, gone: float | None
) -> None:
    """For any times; a pod of unknown usage changes nothing."""
    pod = PodLifetime(placed_at=placed, running_since=ran, gone_at=gone, usage=Resources(cpu=usage))

    cpu = corrected(Resources(cpu=mean), [pod], sampled_at=0.0, length=900, load=LOAD).cpu

    assert cpu is not None
    amount = known(usage) or 0.0
    slack = 1e-9 * (mean + amount)
    assert max(0.0, mean - amount) - slack <= cpu <= mean + amount + slack


@example(pods=[(-50.0, -40.0, None, 1.0), (10.0, None, None, 1.0)], compensation="proportional", length=300.0)
@given(
    pods=st.lists(st.tuples(near, st.none() | near, st.none() | near | st.just(math.inf), cores), min_size=1),
    compensation=st.sampled_from(["proportional", "cliff", "off"]),
    length=st.sampled_from([30.0, 300.0]),
)
def test_each_pod_is_corrected_by_its_factor(
    pods: list[tuple[float, float | None, float | None, float | None]], compensation: str, length: float
) -> None:
    load = LoadSettings(compensation=compensation)  # type: ignore[arg-type]  # one of the allowed values
    lifetimes = [
        PodLifetime(placed_at=placed, running_since=ran, gone_at=gone, usage=Resources(cpu=usage))
        for placed, ran, gone, usage in pods
    ]
    factors = [correction_factor(each, sampled_at=0.0, length=length, load=load) for each in lifetimes]
    added = sum(factor * (known(each.usage.cpu) or 0.0) for factor, each in zip(factors, lifetimes, strict=True))

    found = corrected(Resources(cpu=1.0), lifetimes, sampled_at=0.0, length=length, load=load)

    assert found.cpu == pytest.approx(max(0.0, 1.0 + added), abs=1e-9)


def test_only_pods_that_ran_in_part_of_a_window_are_corrected() -> None:
    """They arrived or left within the longest window. A terminating pod continues to run."""
    old = NOW - 2 * 86_400
    placement = a_placement(
        "node-a",
        [
            a_placed_pod("old", placed_at=old, running_since=old),
            a_placed_pod("new", placed_at=NOW - 100, running_since=NOW - 90),
            a_placed_pod("pending", placed_at=NOW - 10, running_since=None),
            a_placed_pod("ending", placed_at=old, running_since=old, terminating=True),
        ],
        gone=[a_gone_pod("left", gone_at=NOW - 600), a_gone_pod("forgotten", gone_at=old + 1)],
    )
    utilization = a_node_utilization("node-a", pods={"uid-new": Resources(cpu=2.0)})
    found = partial_lifetimes(utilization, placement, pod_usage({}, load=LOAD, now=NOW), load=LOAD)

    assert [pod.name for pod, _ in found] == ["new", "pending", "left"]


@pytest.mark.parametrize(("measured", "cores"), [({"uid-ending": Resources(cpu=6.0)}, 7.0), ({}, 5.0)])
def test_a_terminating_pod_counts_as_long_as_it_is_measured(measured: dict[str, Resources], cores: float) -> None:
    """Half of its usage is in the mean: it started in the middle of the window. Unmeasured, it adds nothing."""
    pod = a_placed_pod("ending", placed_at=NOW - 150, running_since=NOW - 150, terminating=True)
    utilization = a_node_utilization("node-a", cpu=5.0, pods=measured)
    usage_of = pod_usage({}, load=LOAD, now=NOW)
    lifetimes = [each for _, each in partial_lifetimes(utilization, a_placement(pods=[pod]), usage_of, load=LOAD)]

    found = corrected(Resources(cpu=4.0 if measured else 5.0), lifetimes, sampled_at=NOW, length=300, load=LOAD)

    assert found.cpu == pytest.approx(cores)


def test_a_pod_that_left_without_being_measured_subtracts_nothing() -> None:
    """What it requested is no measure of what it used: subtracted, it would hide what the others use."""
    gone = a_gone_pod("job", NOW - 60, running_since=NOW - 200, requests=Resources(cpu=8.0, memory=GIB))
    placement = a_placement(gone=[gone])
    workload = a_workload_utilization(cpu=8.0)
    usage_of = pod_usage({workload.workload: workload}, load=LOAD, now=NOW)
    utilization = a_node_utilization("node-a", cpu=5.0)
    lifetimes = [each for _, each in partial_lifetimes(utilization, placement, usage_of, load=LOAD)]

    assert corrected(Resources(cpu=5.0), lifetimes, sampled_at=NOW, length=300, load=LOAD).cpu == 5.0


@pytest.mark.parametrize(("measured", "cores"), [(4.0, 4.0), (9.0, 5.0), (1.0, 1.0), (None, 0.0)])
def test_what_is_subtracted_leaves_what_the_present_pods_were_measured_at(measured: float | None, cores: float) -> None:
    """And the mean itself where that is lower. The pod that left used less in most of the window than at its end."""
    pod = a_placed_pod("web-1", placed_at=NOW - 99_000, running_since=NOW - 99_000)
    gone = a_gone_pod("job", NOW - 30, usage=Resources(cpu=9.0))
    utilization = a_node_utilization("node-a", cpu=5.0, pods={pod.uid: Resources(cpu=measured)})
    least = measured_usage(utilization, a_placement(pods=[pod], gone=[gone]))
    left = PodLifetime(placed_at=NOW - 99_000, gone_at=NOW - 30, usage=gone.usage)

    found = corrected(Resources(cpu=5.0), [left], sampled_at=NOW, length=300, load=LOAD, least=least)

    assert found.cpu == pytest.approx(cores)


@given(
    usages=st.lists(st.tuples(cores, st.none() | near), max_size=6),
    mean=st.floats(0, 50),
    least=st.floats(0, 50),
    length=st.sampled_from([30.0, 300.0]),
)
def test_nothing_that_left_takes_a_mean_below_what_is_present(
    usages: list[tuple[float | None, float | None]], mean: float, least: float, length: float
) -> None:
    pods = [
        PodLifetime(placed_at=-1e6, running_since=-1e6, gone_at=gone, usage=Resources(cpu=usage))
        for usage, gone in usages
    ]

    cpu = corrected(Resources(cpu=mean), pods, sampled_at=0.0, length=length, load=LOAD, least=Resources(cpu=least)).cpu

    assert cpu is not None
    assert min(mean, least) <= cpu <= mean


def test_a_pods_own_measured_usage_comes_before_its_requests() -> None:
    """For each resource."""
    usage_of = pod_usage({}, load=LOAD, now=NOW)
    pod = a_placed_pod("web-1", requests=Resources(cpu=0.5, memory=GIB))

    assert usage_of(pod, Resources(cpu=2.0)) == Resources(cpu=2.0, memory=GIB)
    assert usage_of(pod, Resources()) == Resources(cpu=0.5, memory=GIB)


def test_a_workloads_measured_usage_comes_before_requests() -> None:
    """For a pod that is not measured yet."""
    workload = a_workload_utilization(cpu=3.0)
    pod = a_placed_pod("web-1", workload=workload.workload, requests=Resources(cpu=0.5))

    assert pod_usage({workload.workload: workload}, load=LOAD, now=NOW)(pod, Resources()).cpu == 3.0


def test_a_window_is_usable_for_three_refresh_periods_or_the_score_freshness() -> None:
    """Long windows are refreshed rarely and can be used longer."""
    window = Window(name="1d", length=Duration(86_400), refresh_period=Duration(1_800))
    settings = LoadSettings(windows=(window,))
    utilization = a_node_utilization(windows={"1d": a_window(sampled_at=NOW)})

    assert usable_window(utilization, window, settings, NOW + 5_400) is not None
    assert usable_window(utilization, window, settings, NOW + 5_401) is None
    assert usable_window(utilization, window, settings, NOW, skew=11) is None


def test_a_window_of_length_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 0s"):
        LoadSettings(windows=(Window(name="5m", length=Duration(0), refresh_period=Duration(1)),))
