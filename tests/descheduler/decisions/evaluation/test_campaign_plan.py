"""The plan of a campaign: the planner of evaluations, repeated on the predicted cluster."""

import msgspec
import pytest
from builders import NOW
from descheduler.decisions.evaluation.test_pipeline import EPOCH, hot_and_idle
from descheduler.snapshots import evaluation_settings

from equipoise.contracts.messages.plan import PlanResponse
from equipoise.descheduler.decisions.evaluation.campaign_plan import campaign_plan
from equipoise.descheduler.decisions.evaluation.messages import evaluated_cluster, proposals
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.decisions.strategies.low_node_load import Deviation, LowNodeLoad
from equipoise.descheduler.state.abnormal_counts import AbnormalCount
from equipoise.descheduler.state.cooldowns import EVERYTHING, Cooldown

LEVELING = LowNodeLoad(deviation=Deviation())
"""Nodes above the mean are hot, so that one wave does not end the plan."""

SETTINGS = evaluation_settings(strategies=(LEVELING,))


def plan_of(
    moves: int = 100, snapshot: Snapshot | None = None, settings: EvaluationSettings = SETTINGS
) -> PlanResponse:
    return campaign_plan(snapshot or hot_and_idle(), settings, moves, evictions="real", leader=EPOCH)


def spread(plan: PlanResponse, wave: int) -> float:
    cpu = plan.waves[wave].after.spread.cpu
    assert cpu is not None
    return cpu


def test_each_wave_is_what_the_planner_plans_once_the_moves_before_are_done() -> None:
    """The second wave equals the plan of an evaluation whose dry-run moves are those of the first."""
    plan = plan_of()
    first = evaluate(hot_and_idle(), SETTINGS, needed=1)
    done = {
        move.id: msgspec.structs.replace(move, dry_run_at=NOW, until=NOW + 9_000)
        for _, move in proposals(first.results[0], hot_and_idle(), SETTINGS, EPOCH)
    }
    second = evaluate(msgspec.structs.replace(hot_and_idle(), pending=done), SETTINGS, needed=1)

    expected = [
        [(move.pod.name, move.target) for move in evaluation.results[0].plan.moves] for evaluation in (first, second)
    ]
    sizes = [wave.moves for wave in plan.waves]
    moves = [(move.pod, move.target) for move in plan.moves]
    assert expected == [moves[: sizes[0]], moves[sizes[0] : sum(sizes[:2])]]
    assert sum(sizes) == len(moves)
    assert len({move.pod for move in plan.moves}) == len(moves)


def test_the_spread_falls_until_nothing_more_would_move() -> None:
    """The reason is that of the last evaluation."""
    plan = plan_of()
    assert plan.before is not None
    spreads = [plan.before.spread.cpu, *(spread(plan, wave) for wave in range(len(plan.waves)))]
    assert len(plan.waves) >= 2
    assert spreads == sorted(spreads, key=lambda each: each or 0.0, reverse=True)
    assert plan.after == plan.waves[-1].after
    assert set(plan.why) == {"low_node_load"}


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_plan_has_no_more_moves_than_the_campaign(most: int) -> None:
    plan = plan_of(most)
    assert len(plan.moves) == sum(wave.moves for wave in plan.waves) == most


def test_an_evaluation_of_a_large_campaign_plans_several_waves() -> None:
    """The spread is that after each of them, and the moves are those of single evaluations."""
    single = evaluation_settings(strategies=(LEVELING,), max_intents_per_evaluation=1)
    few, many = plan_of(2, settings=single), plan_of(30, settings=single)
    assert {wave.moves for wave in many.waves} == {1}
    assert [(move.pod, move.target) for move in many.moves[:2]] == [(move.pod, move.target) for move in few.moves]
    assert many.waves[:2] == few.waves


def test_a_limit_that_the_budget_replaces_delays_no_plan() -> None:
    """An eviction that it refused a minute ago does not mean that a campaign could move nothing."""
    for limit, planned in (("evictionsPerCluster", True), ("lateReplacements", False)):
        cooldown = Cooldown(until=NOW + 600, why=f"limits.{limit} is exhausted", limit=limit)
        snapshot = msgspec.structs.replace(hot_and_idle(), cooldowns={EVERYTHING: cooldown})
        assert bool(plan_of(snapshot=snapshot).moves) == planned


def test_a_plan_without_any_move_has_no_wave_and_the_reason() -> None:
    plan = plan_of(settings=evaluation_settings(strategies=(LowNodeLoad(number_of_nodes=5),)))
    assert (plan.moves, plan.waves, plan.after) == ([], [], plan.before)
    assert plan.why["low_node_load"]


def test_moves_that_are_pending_are_done_before_the_first_wave() -> None:
    """They take no room from its limits."""
    proposed = proposals(evaluate(hot_and_idle(), SETTINGS, needed=1).results[0], hot_and_idle(), SETTINGS, EPOCH)
    pending = msgspec.structs.replace(hot_and_idle(), pending={move.id: move for _, move in proposed})
    plan = plan_of(snapshot=pending)
    assert plan.waves == plan_of().waves[1:]
    assert ([move.pod for move in plan.pending], plan.dry_run_moves) == ([intent.pod for intent, _ in proposed], [])


def test_an_evaluation_is_exhausted_when_nothing_moves_and_no_node_waits() -> None:
    """Not while a node has to be hot for longer, while moves are pending, or while loads are unknown."""
    needed, strict = (
        SETTINGS.consecutive_abnormalities,
        evaluation_settings(strategies=(LowNodeLoad(number_of_nodes=5),)),
    )
    count = AbnormalCount(abnormal=needed, evaluated_at=NOW - 120, sampled_at=0.0, abnormal_at=NOW - 120)
    counts = {"low_node_load": {"node-a": count}}
    hot_for_long = msgspec.structs.replace(hot_and_idle(), counts=counts)

    def exhausted(snapshot: Snapshot, settings: EvaluationSettings) -> bool:
        return evaluated_cluster(evaluate(snapshot, settings), snapshot, settings).exhausted

    assert not exhausted(hot_and_idle(), strict)
    assert exhausted(hot_for_long, strict)
    assert not exhausted(hot_for_long, SETTINGS)
    assert not exhausted(msgspec.structs.replace(hot_for_long, watch_problem="interrupted"), strict)
    proposed = proposals(evaluate(hot_for_long, SETTINGS).results[0], hot_for_long, SETTINGS, EPOCH)
    pending = {move.id: move for _, move in proposed}
    assert pending
    assert not exhausted(msgspec.structs.replace(hot_for_long, pending=pending), strict)


def test_an_evaluation_states_the_nodes_and_the_spread_once_pending_moves_are_done() -> None:
    snapshot = hot_and_idle()
    evaluation = evaluate(snapshot, SETTINGS, needed=1)
    found = evaluated_cluster(evaluation, snapshot, SETTINGS)
    assert (found.nodes, found.unscheduled) == (3, 0)
    assert found.loads == plan_of().before
