"""What moves gain and cost, as text: of each move, and of a whole plan in one sentence."""

import io
from typing import Any

import pytest
from builders import GIB, NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from equipoise.cli.plan.run import show
from equipoise.cli.plan.summary import cost_text, gain_text, plan_sentence
from equipoise.contracts.messages.descheduling import LoadExtremes
from equipoise.contracts.messages.example import LEASE_EPOCH
from equipoise.contracts.messages.plan import PlannedMove, PlanResponse
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.contracts.messages.values.resources import Resources

MEASURED = MoveCost(memory=1.5 * GIB, age=3 * 86_400.0, start=12.0)
BEFORE = LoadExtremes(highest=Resources(cpu=0.82, memory=0.5), spread=Resources(cpu=0.61, memory=0.2))
AFTER = LoadExtremes(highest=Resources(cpu=0.64, memory=0.5), spread=Resources(cpu=0.43, memory=0.2))


def a_move(name: str = "web-1", **fields: Any) -> PlannedMove:
    return PlannedMove(
        namespace="shop", pod=name, workload=a_workload(), node="node-a", target="node-b", reason="node is hot",
        strategy="low_node_load", sampled_at=NOW, expected_reduction=Resources(cpu=1.0), **fields,
    )  # fmt: skip


def a_plan(*moves: PlannedMove, **fields: Any) -> PlanResponse:
    return PlanResponse(moves=[*moves], leader=LEASE_EPOCH, planned_at=NOW, evictions="dry run", **fields)


WON = (
    "Won: the hottest node goes from 82.0% to 64.0% cpu, the spread of all nodes from 61.0 to 43.0 points. "
    "Risked: "
)  # fmt: skip
NO_GAP = "no gap; each pod serves until its replacement is ready."
ALL_MISSING = "is missing until the replacement is ready, "
READY = "(as long as they took to become ready)"


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (a_plan(), ""),
        (
            a_plan(a_move(cost=MEASURED), a_move("web-2", without_gap=True), before=BEFORE, after=AFTER),
            f"In sum: 2 pods would be moved, 1 of them without a gap. {WON}1 pod {ALL_MISSING}about 12 s {READY}.",
        ),
        (
            a_plan(a_move(without_gap=True), before=BEFORE, after=AFTER),
            f"In sum: 1 pod would be moved, without a gap. {WON}{NO_GAP}",
        ),
        (
            a_plan(a_move(cost=MEASURED), a_move("b", cost=MEASURED), a_move("c", cost=MoveCost()), a_move("d")),
            "In sum: 4 pods would be moved, none of them without a gap. Risked: 4 pods are missing until the "
            f"replacement is ready, about 24 s {READY} and an unknown time for 2 pods.",
        ),
        (
            a_plan(a_move(), before=LoadExtremes(highest=Resources(), spread=Resources()), after=AFTER),
            "In sum: 1 pod would be moved, none of them without a gap. Won: unknown, because no load is known. "
            f"Risked: 1 pod {ALL_MISSING}an unknown time.",
        ),
    ],
)
def test_a_plan_ends_in_one_sentence_about_what_is_won_and_risked(plan: PlanResponse, sentence: str) -> None:
    text = io.StringIO()
    show(plan, Console(file=text, width=500))
    assert plan_sentence(plan) == sentence
    assert not sentence or text.getvalue().rstrip("\n").endswith(f"\n{sentence}")


def test_unknown_amounts_are_no_zeros() -> None:
    assert (gain_text(a_move()), cost_text(a_move())) == ("?", "?")
    assert cost_text(a_move(cost=MoveCost())) == "? GiB, ? old, ready in ?"
    assert cost_text(a_move(cost=MEASURED)) == "1.50 GiB, 3 d old, ready in 12 s"
    assert gain_text(a_move(gain=0.062)) == "6.2 points"


@given(st.lists(st.tuples(st.booleans(), st.none() | st.floats(0, 3_600)), min_size=1))
def test_the_sentence_counts_every_move_once(moves: list[tuple[bool, float | None]]) -> None:
    plan = a_plan(*(a_move(str(n), without_gap=kept, cost=MoveCost(start=s)) for n, (kept, s) in enumerate(moves)))
    with_gap = sum(not kept for kept, _ in moves)
    assert f"{len(moves)} pod" in plan_sentence(plan)
    expected = "no gap" if not with_gap else f"{with_gap} pod{' is' if with_gap == 1 else 's are'} missing"
    assert f"Risked: {expected}" in plan_sentence(plan)
