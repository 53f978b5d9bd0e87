"""What moves gain and cost, as text: of each move, and of a whole plan in one sentence. Pure."""

from collections.abc import Sequence

import msgspec

from equipoise.cli.terminal import GIB, RESOURCES, count, duration, percent
from equipoise.contracts.messages.descheduling import LoadExtremes
from equipoise.contracts.messages.plan import PlannedMove, PlanResponse
from equipoise.contracts.messages.values.move import JustifiedMove


def gain_text(move: JustifiedMove) -> str:
    """`6.2 points`: by how much the load of its node falls."""
    return "?" if move.gain is None else f"{100 * move.gain:.1f} points"


def cost_text(move: JustifiedMove) -> str:
    """`1.25 GiB, 3 d old, ready in 12 s`: what its replacement has to do again, with `?` for what is unknown."""
    cost = move.cost
    if cost is None:
        return "?"
    memory = "?" if cost.memory is None else f"{cost.memory / GIB:.2f}"
    age = "?" if cost.age is None else duration(cost.age)
    return f"{memory} GiB, {age} old, ready in {'?' if cost.start is None else duration(cost.start)}"


def gain_and_cost(move: JustifiedMove) -> str:
    """`6.2 points; 1.25 GiB, 3 d old, ready in 12 s`; empty if neither was stated, as by earlier versions."""
    return "" if move.gain is None and move.cost is None else f"{gain_text(move)}; {cost_text(move)}"


def plan_sentence(plan: PlanResponse) -> str:
    """How many pods the plan moves, what is won, and what is risked; empty if it moves none."""
    if not plan.moves:
        return ""
    gapless = sum(move.without_gap for move in plan.moves)
    moved = count(len(plan.moves), "pod")
    how = "without a gap" if gapless == len(plan.moves) else f"{gapless or 'none'} of them without a gap"
    won = f". {_won(plan.before, plan.after)}" if plan.before is not None and plan.after is not None else ""
    return f"In sum: {moved} would be moved, {how}{won}. {risk_text(risk_of(plan.moves))}."


def _won(before: LoadExtremes, after: LoadExtremes) -> str:
    """The sentence about the resource in which the most loaded node is fullest."""
    known = [name for name in RESOURCES if getattr(before.highest, name) is not None]
    if not known:
        return "Won: unknown, because no load is known"
    name = max(known, key=lambda each: float(getattr(before.highest, each)))
    highest = f"{percent(getattr(before.highest, name))} to {percent(getattr(after.highest, name))}"
    spread = f"{_points(getattr(before.spread, name))} to {_points(getattr(after.spread, name))}"
    return f"Won: the hottest node goes from {highest} {name}, the spread of all nodes from {spread} points"


def _points(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f}"


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that end before their replacement is ready."""

    pods: int
    seconds: float
    """How long the pods of known start are missing, in sum: as long as they took to become ready."""

    unknown: int
    """The pods of which this time is not known."""


def risk_of(moves: Sequence[PlannedMove]) -> Risk:
    """What these moves risk."""
    gaps = [None if move.cost is None else move.cost.start for move in moves if not move.without_gap]
    known = [seconds for seconds in gaps if seconds is not None]
    return Risk(pods=len(gaps), seconds=sum(known), unknown=len(gaps) - len(known))


def risk_text(risk: Risk) -> str:
    """The sentence about the pods that end before their replacement is ready."""
    if not risk.pods:
        return "Risked: no gap; each pod serves until its replacement is ready"
    known = risk.pods - risk.unknown
    parts = [f"about {duration(risk.seconds)} (as long as they took to become ready)" if known else ""]
    if risk.unknown:
        parts.append(f"an unknown time for {count(risk.unknown, 'pod')}" if known else "an unknown time")
    missing = "1 pod is" if risk.pods == 1 else f"{risk.pods} pods are"
    return f"Risked: {missing} missing until the replacement is ready, {' and '.join(filter(None, parts))}"
