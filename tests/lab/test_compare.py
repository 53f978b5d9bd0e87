"""The plans of a comparison."""

import multiprocessing

import pytest
from lab.traces import a_trace

from equipoise.lab.compare import ComparisonRequest, plans, policies_of, with_baseline
from equipoise.lab.replay_plan import Settings
from equipoise.lab.results import GREEDY, STOCK
from equipoise.lab.runners import on_processes
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.settings import ScorerSettings

IDLE = (50.0,) * 96


def test_the_plans_always_include_the_stock_scheduler_alone() -> None:
    """It is the baseline."""
    request = ComparisonRequest(scenarios=("churn",), policies=("profile",), descheduler=(True,))

    found = [(plan.policy, plan.descheduler) for plan in plans(request, Settings())]

    assert [(STOCK, False), (STOCK, True), ("profile", True)] == found


def test_by_default_everything_is_compared() -> None:
    """Every policy but `pressure`, which traces do not have, and `rules`, which only a user has, and every scenario,
    with and without the descheduler; the reference in `fresh` only."""
    found = plans(ComparisonRequest(), Settings())

    assert {STOCK, GREEDY, *SINGLE_POLICIES} - {"pressure", "rules"} == {plan.policy for plan in found}
    assert [("fresh", False)] == [(plan.scenario, plan.descheduler) for plan in found if plan.policy == GREEDY]
    assert {True, False} == {plan.descheduler for plan in found if plan.policy == "profile"}


def test_a_given_placement_without_the_descheduler_is_replayed_once() -> None:
    """Neither the policy nor the order of arrivals has an effect."""
    request = ComparisonRequest(scenarios=("given",), descheduler=(False,), arrivals=(1, 2, 3))

    assert [(STOCK, 1)] == [(plan.policy, plan.seed) for plan in plans(request, Settings())]


def test_the_configured_policy_keeps_its_settings() -> None:
    """Others have their defaults."""
    own = WaterLevel(cluster_cpu_min_node_weight=0.7)

    found = policies_of(("water_level", "profile", STOCK), own)

    assert {"water_level": own, "profile": SINGLE_POLICIES["profile"](), STOCK: None} == found


def test_every_plan_scores_the_requested_share_of_the_nodes() -> None:
    found = plans(ComparisonRequest(percentage_of_nodes_to_score=30), Settings())

    assert {30} == {plan.percentage_of_nodes_to_score for plan in found}


def test_all_policies_include_the_configured_mix() -> None:
    mix = Mix(parts=(MixPart(policy=WaterLevel()),))

    found = plans(
        ComparisonRequest(scenarios=("fresh",), descheduler=(False,)), Settings(scorer=ScorerSettings(policy=mix))
    )

    assert [mix] == [plan.scoring for plan in found if plan.policy == "mix"]


def test_policies_are_replayed_with_every_placement_mode() -> None:
    """`none` is the stock scheduler, which is replayed once."""
    request = ComparisonRequest(
        scenarios=("fresh",), policies=("profile",), placements=("extender", "hints", "none"), descheduler=(False,)
    )

    found = [(plan.policy, plan.placement) for plan in plans(request, Settings())]

    assert [(STOCK, "none"), ("profile", "extender"), ("profile", "hints")] == found


def test_the_error_for_an_unknown_policy_lists_all_policies() -> None:
    with pytest.raises(ValueError, match=r"no such policy: best.*water_level"):
        plans(ComparisonRequest(policies=("best",)), Settings(scorer=ScorerSettings()))


def test_each_run_has_the_baseline_of_the_same_order_of_arrivals() -> None:
    """And of the same scenario."""
    trace = a_trace(curves=((3_000.0,) * 96, IDLE), replicas=(3, 9))
    request = ComparisonRequest(scenarios=("fresh",), policies=("profile",), descheduler=(False,), arrivals=(1, 2))

    runs = with_baseline([run for _, run in on_processes(1)(trace, plans(request, Settings()))])

    assert [("profile", 1), (STOCK, 1), ("profile", 2), (STOCK, 2)] == [
        (run.figures.policy, run.figures.arrival_seed) for run in runs
    ]
    for run, stock in (runs[:2], runs[2:]):
        assert run.before is stock.after


def test_runs_in_processes_have_the_same_results() -> None:
    trace = a_trace(curves=((3_000.0,) * 96, IDLE), replicas=(3, 9))
    wanted = plans(ComparisonRequest(scenarios=("fresh",), policies=("profile",), descheduler=(False,)), Settings())

    local = with_baseline([run for _, run in on_processes(1)(trace, wanted)])
    runs, children = [], 0
    for _, run in on_processes(2)(trace, wanted):
        children = max(children, len(multiprocessing.active_children()))
        runs.append(run)
    parallel = with_baseline(runs)

    assert children > 0
    assert [run.spread for run in local] == [run.spread for run in parallel]
