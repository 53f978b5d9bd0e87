"""The plan of a campaign: the evaluation, repeated on the cluster as it will be once the moves before are done.

Moves that are done are dry-run moves here: their pods count on the targets, and are not proposed again.
"""

import math
from collections.abc import Sequence

import msgspec

from equipoise.contracts.messages.plan import PlannedMove, PlannedWave, PlanResponse
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.descheduler.decisions.cluster import PodMove
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.evaluation.load_extremes import load_extremes
from equipoise.descheduler.decisions.evaluation.messages import MAX_ENTRIES, plan_response, planned_moves
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.state.cooldowns import in_campaign
from equipoise.descheduler.state.moves.pending_moves import TrackedMove, planned, reported_dry_runs, reported_pending

MAX_PLANS = 60
"""Evaluations in a plan: in the largest clusters, one takes more than a second."""

EXACT_PLANS = 15
"""Evaluations that are expected to be enough for all moves. If those of a campaign have too few moves for that, each
plans the moves of several, which differ from those of single ones only where loads are measured in between."""


def campaign_plan(
    snapshot: Snapshot, settings: EvaluationSettings, moves: int, *, evictions: str, leader: LeaseEpoch
) -> PlanResponse:
    """The plan of a campaign of at most this many moves (at least one, 500 at most).

    The pending moves are done before the first wave. The plan has the nodes and refusals of the first evaluation, and
    the reasons why the last one would move nothing more.
    `evictions`: what binders do with intents.
    """
    most, pending = min(moves, MAX_ENTRIES), snapshot.pending
    settings = msgspec.structs.replace(
        settings, consolidation=Consolidation()
    )  # a campaign levels, and empties no node
    snapshot = msgspec.structs.replace(_after(snapshot, ()), cooldowns=in_campaign(snapshot.cooldowns))
    size = settings.limits.per_evaluation
    limits = msgspec.structs.replace(settings.limits, per_evaluation=max(size, math.ceil(most / EXACT_PLANS)))
    settings = msgspec.structs.replace(settings, limits=limits)
    first: PlanResponse | None = None
    listed: list[PlannedMove] = []
    waves: list[PlannedWave] = []
    why: dict[str, str] = {}
    for _ in range(MAX_PLANS):
        evaluation = evaluate(snapshot, settings, needed=1)
        first = first or plan_response(evaluation, snapshot, settings, evictions=evictions, leader=leader)
        plans, room = [result.plan for result in evaluation.results], most - len(listed)
        wanted = [move for plan in plans for move in plan.moves][:room]
        why = {result.strategy: result.plan.why for result in evaluation.results if not result.plan.moves}
        described = [move for result in evaluation.results for move in planned_moves(result, snapshot.now)]
        listed += [move for move in described if not move.later][:room]
        for begin in range(0, len(wanted), size):
            end = min(begin + size, len(wanted))
            waves.append(PlannedWave(moves=end - begin, after=load_extremes(evaluation.cluster, wanted[:end])))
        if not wanted or len(listed) >= most:
            break
        del evaluation, plans  # in a large cluster, two evaluations at a time need twice the memory
        snapshot = _after(snapshot, wanted)
    assert first is not None, "a campaign has at least one move"
    after = waves[-1].after if waves else first.before
    return msgspec.structs.replace(
        first,
        moves=listed,
        waves=waves,
        after=after,
        why=why,
        pending=reported_pending(pending)[:MAX_ENTRIES],
        dry_run_moves=reported_dry_runs(pending)[:MAX_ENTRIES],
    )


def _after(snapshot: Snapshot, moves: Sequence[PodMove]) -> Snapshot:
    """The snapshot once these moves and the pending ones are done. A pod that is evicted has moved already."""
    pending = {
        id: move if move.evicted_at is not None else _done(move, snapshot.now) for id, move in snapshot.pending.items()
    }
    done = (_done(planned(move), snapshot.now) for move in moves)
    return msgspec.structs.replace(snapshot, pending={**pending, **{move.id: move for move in done}})


def _done(move: TrackedMove, now: float) -> TrackedMove:
    return msgspec.structs.replace(move, dry_run_at=now if move.dry_run_at is None else move.dry_run_at, until=math.inf)
