"""What is compared with what."""

import pytest
from lab.traces import a_trace

from equipoise.lab.compare import ComparisonRequest, compare, plans, policies_of, with_baseline
from equipoise.lab.replay import GREEDY, STOCK, Settings
from equipoise.lab.runners import on_processes
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.settings import ScorerSettings

IDLE = (50.0,) * 96


def test_the_stock_scheduler_alone_is_always_among_the_plans() -> None:
    """Everything is compared with it, asked for or not."""
    request = ComparisonRequest(scenarios=("churn",), policies=("profile",), descheduler=(True,))

    found = [(plan.policy, plan.descheduler) for plan in plans(request, Settings())]

    assert [(STOCK, False), (STOCK, True), ("profile", True)] == found


def test_without_a_word_everything_is_compared() -> None:
    """Every policy in every scenario, with and without the descheduler; the reference where pods are placed afresh."""
    found = plans(ComparisonRequest(), Settings())

    assert {STOCK, GREEDY, *SINGLE_POLICIES} == {plan.policy for plan in found}
    assert [("fresh", False)] == [(plan.scenario, plan.descheduler) for plan in found if plan.policy == GREEDY]
    assert {True, False} == {plan.descheduler for plan in found if plan.policy == "profile"}


def test_a_given_placement_that_nobody_touches_is_replayed_once() -> None:
    """Without arrivals and without the descheduler no policy is ever asked, and no order of arrivals matters."""
    request = ComparisonRequest(scenarios=("given",), descheduler=(False,), arrivals=(1, 2, 3))

    assert [(STOCK, 1)] == [(plan.policy, plan.seed) for plan in plans(request, Settings())]


def test_the_configured_policy_keeps_its_parameters() -> None:
    """The others have their defaults."""
    own = WaterLevel(cluster_cpu_min_node_weight=0.7)

    found = policies_of(("water_level", "profile", STOCK), own)

    assert {"water_level": own, "profile": SINGLE_POLICIES["profile"](), STOCK: None} == found


def test_the_configured_policy_is_among_all() -> None:
    """Also when it is a mix, which no other list holds."""
    mix = Mix(parts=(MixPart(policy=WaterLevel()),))

    found = plans(
        ComparisonRequest(scenarios=("fresh",), descheduler=(False,)), Settings(scorer=ScorerSettings(policy=mix))
    )

    assert [mix] == [plan.scoring for plan in found if plan.policy == "mix"]


def test_a_policy_that_nobody_has_is_named() -> None:
    """With those that there are."""
    with pytest.raises(ValueError, match=r"no such policy: best.*water_level"):
        plans(ComparisonRequest(policies=("best",)), Settings(scorer=ScorerSettings()))


def test_every_run_stands_with_baseline_of_the_same_order() -> None:
    """What was before is the stock scheduler's own picture, by scenario and order of arrivals."""
    trace = a_trace(curves=((3_000.0,) * 96, IDLE), replicas=(3, 9))
    request = ComparisonRequest(scenarios=("fresh",), policies=("profile",), descheduler=(False,), arrivals=(1, 2))

    runs = with_baseline(list(compare(trace, plans(request, Settings()), Settings(), on_processes(1))))

    assert [("profile", 1), (STOCK, 1), ("profile", 2), (STOCK, 2)] == [
        (run.figures.policy, run.figures.arrival_seed) for run in runs
    ]
    for mine, stock in (runs[:2], runs[2:]):
        assert mine.before is stock.after


def test_processes_give_the_same_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a replay is made changes nothing; and with two none is made here."""
    trace = a_trace(curves=((3_000.0,) * 96, IDLE), replicas=(3, 9))
    wanted = plans(ComparisonRequest(scenarios=("fresh",), policies=("profile",), descheduler=(False,)), Settings())

    alone = with_baseline(list(compare(trace, wanted, Settings(), on_processes(1))))
    monkeypatch.setattr("equipoise.lab.runners.Replay", None)
    beside = with_baseline(list(compare(trace, wanted, Settings(), on_processes(2))))

    assert [run.spread for run in alone] == [run.spread for run in beside]
