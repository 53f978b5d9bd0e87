"""Whole replays: scenarios, policies, figures."""

import math

import msgspec
import numpy as np
import pytest
from lab.traces import QUARTER, a_trace

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.example import example_trace
from equipoise.lab.model.resource_requests import RequestsVariant, ResourceRequests
from equipoise.lab.model.trace import AntiAffinity, Trace
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import GREEDY, STOCK, PlacementMode, Run, Scenario
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

DAYTIME = tuple(200.0 + 1_800.0 * (32 <= step < 64) for step in range(96))
NIGHT = tuple(200.0 + 1_800.0 * (step < 32) for step in range(96))
IDLE = (50.0,) * 96


def replayed(
    trace: Trace,
    scenario: Scenario,
    policy: str = STOCK,
    *,
    descheduler: bool = False,
    seed: int = 1,
    placement: PlacementMode = "extender",
    settings: Settings | None = None,
    percentage_of_nodes_to_score: int = 0,
    tick: float = 300.0,
) -> Run:
    scoring: ScoringPolicy | None = SINGLE_POLICIES[policy]() if policy in SINGLE_POLICIES else None
    plan = ReplayPlan(
        scenario=scenario, policy=policy, scoring=scoring, descheduler=descheduler, seed=seed, missing=0.0,
        placement=placement, settings=settings or Settings(), percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        tick=tick,
    )  # fmt: skip
    return Replay(trace, plan).run()


def uneven_trace() -> Trace:
    """Two nodes are hot, two idle; all pods have the same requests."""
    return a_trace(curves=((2_000.0,) * 96, IDLE), replicas=(6, 6), placed=(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3))


def test_the_given_placement_is_measured_unchanged() -> None:
    """6 of 8 cores are 75 % on the hot nodes, 0.15 of 8 on the idle ones, in every hour."""
    figures = replayed(uneven_trace(), "given").figures

    assert pytest.approx(75.0 - 1.875, abs=0.01) == figures.peak_spread == figures.median_spread == figures.worst_spread
    assert (0, 0, 0.0) == (figures.moved, figures.unplaced, figures.hours_above_80)


def test_pods_without_a_node_are_first_placed_by_the_stock_scheduler() -> None:
    """For every policy."""
    trace = a_trace(curves=((2_000.0,) * 96, IDLE), replicas=(6, 6))

    stock, scored = (replayed(trace, "given", policy).figures for policy in (STOCK, "profile"))

    assert 0 == scored.unplaced
    assert stock.peak_spread == scored.peak_spread


def test_the_same_plan_gives_the_same_run() -> None:
    """Randomness depends on the seed only."""
    first, second = (replayed(uneven_trace(), "churn", "profile") for _ in range(2))

    assert first.spread == second.spread


def test_all_pods_of_a_fresh_cluster_are_placed_by_the_policy() -> None:
    """`profile` combines pods that are busy by day and at night; their requests are equal."""
    trace = a_trace(curves=(DAYTIME, NIGHT), replicas=(8, 8))

    profile = replayed(trace, "fresh", "profile").figures

    assert 0 == profile.unplaced
    assert profile.worst_spread <= 2.0


def test_hints_level_a_cluster() -> None:
    """Not as much as the extender does. Without a way to kube-scheduler, the policy has no effect.

    Without taints: no pod has shown yet that it tolerates one.
    """
    example = example_trace()
    nodes = tuple(msgspec.structs.replace(node, taints=()) for node in example.nodes)
    trace = msgspec.structs.replace(example, nodes=nodes)
    extender, hints, none, stock = (
        replayed(trace, "fresh", policy, placement=placement).figures.median_spread
        for policy, placement in (("profile", "extender"), ("profile", "hints"), ("profile", "none"), (STOCK, "none"))
    )

    assert extender < hints < none / 2
    assert none == stock


def test_a_large_cluster_is_more_level_if_all_nodes_are_scored() -> None:
    """By default, 144 of 300 nodes are."""
    trace = a_trace(nodes=300, curves=(DAYTIME, NIGHT), replicas=(150, 150))
    some, every = (
        replayed(trace, "fresh", "profile", percentage_of_nodes_to_score=percentage).figures.median_spread
        for percentage in (0, 100)
    )

    assert every < some


def test_the_greedy_reference_levels_better_than_the_stock_scheduler() -> None:
    """It knows the usage of all pods."""
    hot = (3_000.0,) * 96
    trace = a_trace(nodes=8, curves=(*[hot] * 12, *[IDLE] * 36), replicas=[1] * 48, request_cpu_milli=100)

    greedy, stock = (replayed(trace, "fresh", policy).figures for policy in (GREEDY, STOCK))

    assert greedy.peak_spread < stock.peak_spread / 2


def test_churn_replaces_all_pods_and_keeps_their_number() -> None:
    """Rollouts and scaling end before the measured day."""
    trace = uneven_trace()

    run = replayed(trace, "churn", "profile")

    total = run.after.sum(axis=0) / 100.0 * 8.0
    assert pytest.approx([6 * 2.0 + 6 * 0.05] * 24, rel=1e-4) == total.tolist()
    assert run.figures.peak_spread < replayed(trace, "given").figures.peak_spread / 2


def test_unplaced_pods_are_counted() -> None:
    """Nine pods with requests of 4 cores on four nodes with 8 cores."""
    trace = a_trace(curves=(IDLE,), replicas=(9,), request_cpu_milli=4_000)

    assert 1 == replayed(trace, "fresh").figures.unplaced


@pytest.mark.parametrize("policy", [STOCK, GREEDY, "profile", "water_level"])
def test_no_placement_violates_anti_affinity(policy: str) -> None:
    """At most one pod per node: the fifth pod remains pending."""
    rule = AntiAffinity(beside=0, limited=0, most=1)
    trace = a_trace(curves=(IDLE, IDLE), replicas=(5, 8), rules=(rule,))

    figures = replayed(trace, "fresh", policy).figures

    assert (0, 1) == (figures.violations, figures.unplaced)


def test_no_pod_is_placed_on_a_node_with_an_untolerated_taint() -> None:
    run = replayed(a_trace(replicas=(9,), tainted=(0,)), "fresh", "profile")

    highest = dict(zip(run.node_names, run.after.max(axis=1).tolist(), strict=True))
    assert 0.0 == highest.pop("node-0")
    assert min(highest.values()) > 0.0


def test_the_descheduler_levels_a_given_placement_within_its_limits() -> None:
    """Replacements do not return to the hot nodes."""
    settings = Settings(
        thresholds=Thresholds(high=ResourceThresholds(cpu=60, memory=95), low=ResourceThresholds(cpu=45, memory=90))
    )

    before = replayed(uneven_trace(), "given").figures
    after = replayed(uneven_trace(), "given", "water_level", descheduler=True, settings=settings).figures

    assert 2 <= after.moved <= 6
    assert after.peak_spread < before.peak_spread - 20
    assert 0 == after.violations
    assert pytest.approx(after.moved / 48, abs=0.01) == after.moves_per_hour


def test_with_evaluations_every_quarter_of_an_hour_the_descheduler_levels_as_well() -> None:
    """As in the search for fewer nodes, which needs many replays."""
    settings = Settings(
        thresholds=Thresholds(high=ResourceThresholds(cpu=60, memory=95), low=ResourceThresholds(cpu=45, memory=90))
    )
    before = replayed(uneven_trace(), "given").figures
    after = replayed(uneven_trace(), "given", "water_level", descheduler=True, settings=settings, tick=QUARTER).figures

    assert 2 <= after.moved <= 6
    assert after.peak_spread < before.peak_spread - 20


def test_workloads_with_too_few_replicas_are_not_evicted() -> None:
    """An eviction would be an outage."""
    trace = a_trace(curves=((7_000.0,) * 96, IDLE), replicas=(1, 4), placed=(0, 1, 2, 3, 1))

    assert 0 == replayed(trace, "given", "water_level", descheduler=True).figures.moved


def test_single_replicas_are_moved_without_a_gap_where_they_may_be() -> None:
    """As many as are evicted without protection, and the load becomes as level. Nothing is missing meanwhile."""
    trace = a_trace(
        curves=(*[(2_000.0,) * 96] * 6, *[IDLE] * 6), replicas=[1] * 12, placed=(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3)
    )
    protected = Settings(
        thresholds=Thresholds(high=ResourceThresholds(cpu=60, memory=95), low=ResourceThresholds(cpu=45, memory=90)),
        descheduler=DeschedulerSettings(interval=Duration(3_600), consecutive_abnormalities=1),
    )
    surge = msgspec.structs.replace(protected, surge=SurgeSettings(mode="singleReplicas"))
    evicting = msgspec.structs.replace(protected, protection=Protection(min_replicas=1))
    none, moved, evicted = (
        replayed(trace, "given", "water_level", descheduler=True, settings=settings).figures
        for settings in (protected, surge, evicting)
    )

    assert (0, {"few replicas": 12}) == (none.moved, none.movable)
    assert (2, 2, 0.0) == (moved.moved, moved.without_gap, moved.gap_seconds)
    assert (2, 0, 20.0) == (evicted.moved, evicted.without_gap, evicted.gap_seconds)
    assert moved.peak_spread == evicted.peak_spread < none.peak_spread - 20


def test_autoscaled_workloads_use_as_much_as_in_the_trace() -> None:
    """In every hour, with the pods that their autoscaler adds and removes."""
    trace = a_trace(curves=(DAYTIME, NIGHT, IDLE), replicas=(6, 6, 1))

    run = replayed(trace, "autoscaled", "profile")

    hours = (np.array(DAYTIME) + np.array(NIGHT)).reshape(24, 4).mean(axis=1) * 6 + IDLE[0]
    # A pod that is deleted uses its part until its grace period ends, and one that is added uses nothing at first.
    assert pytest.approx(hours.tolist(), rel=0.03) == (run.after.sum(axis=0) / 100.0 * 8_000.0).tolist()
    assert (0, 0, 0.0) == (run.figures.unplaced, run.figures.violations, run.figures.gap_seconds)


def test_demand_above_the_capacity_of_a_node_is_lost() -> None:
    """A demand of 10 cores on 8: a fifth is lost."""
    trace = a_trace(curves=((5_000.0,) * 96,), replicas=(2,), placed=(0, 0))

    figures = replayed(trace, "given").figures

    assert math.isclose(0.2, figures.work_lost, abs_tol=1e-4)
    assert (24, 24) == (figures.hours_above_80, figures.hours_above_90)


@pytest.mark.parametrize("policy", [STOCK, "profile"])
def test_rollouts_in_a_full_cluster_create_no_extra_pods(policy: str) -> None:
    """Pending pods count as replicas."""
    trace = a_trace(curves=(IDLE, IDLE), replicas=(8, 7), placed=[0, 0, 1, 1, 2, 2, 3, 3, 0, 1, 2, 3, 0, 1, 2],
                    request_cpu_milli=2_000)  # fmt: skip

    run = replayed(trace, "churn", policy)

    assert 0 == run.figures.unplaced
    total = run.after.sum(axis=0) / 100.0 * 8.0
    assert pytest.approx([15 * 0.05] * 24, rel=1e-3) == total.tolist()


@pytest.mark.parametrize(("days", "sample"), [(1, "in"), (2, "in"), (2.5, "in"), (3, "out")])
def test_traces_of_three_days_are_out_of_sample(days: float, sample: str) -> None:
    """One day to learn, one for the scenario, one to measure. Shorter traces repeat."""
    curve = [IDLE[0] + step % 96 for step in range(round(96 * days))]

    run = replayed(a_trace(curves=(curve,), placed=(0, 1, 2, 3)), "given")

    assert sample == run.figures.sample
    assert 24 == len(run.spread)


def test_steps_that_do_not_divide_a_day_are_refused() -> None:
    trace = msgspec.structs.replace(a_trace(), seconds_per_step=7_000.0)

    with pytest.raises(ValueError, match="do not divide a day"):
        replayed(trace, "given")


def test_node_hours_in_which_memory_exceeds_what_is_allocatable_are_counted() -> None:
    """Pods of 12 GiB that request 1 MiB: three do not fit into a node of 32 GiB."""
    trace = a_trace(curves=(IDLE,), replicas=(5,), placed=(0, 0, 0, 1, 1), memory_mib=12_288.0)
    workload = msgspec.structs.replace(trace.workloads[0], request_memory_mib=1)

    figures = replayed(msgspec.structs.replace(trace, workloads=(workload,)), "given").figures

    assert 24 == figures.memory_hours_above_100


def test_a_trace_is_replayed_with_other_requests() -> None:
    """Each pod then needs a node of its own."""
    trace = a_trace(nodes=2, curves=(IDLE,), replicas=(4,))
    requests = RequestsVariant(name="proposed", requests=(ResourceRequests(cpu_milli=5_000, memory_mib=1),))
    plan = ReplayPlan(scenario="fresh", policy=STOCK, requests=requests)

    assert 2 == Replay(trace, plan).run().figures.unplaced
