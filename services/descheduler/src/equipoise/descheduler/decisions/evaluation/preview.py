"""What would move now, were every hot node abnormal already: for people, it proposes nothing."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.load.correction import load_of, plus
from equipoise.contracts.messages.descheduling import NodeClassification, RefusedMove
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.plan import PendingMove, PlannedMove, PlannedNode, PlanResponse
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.evaluation.snapshot import Configured, Look, Moment, blindness_of
from equipoise.descheduler.decisions.strategies import Strategy, name_of
from equipoise.descheduler.state.abnormal_counts import Counts
from equipoise.descheduler.state.cluster import Fleet, FleetNode, Move, Plan
from equipoise.descheduler.state.cool_downs import resting_nodes
from equipoise.descheduler.state.dry_run_moves import told
from equipoise.descheduler.state.pending_moves import Flight, planned

MOST = 500
"""Entries of each list: a message of the bus holds 1 MiB."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How far the evaluations are."""

    counts: Mapping[str, Counts]
    """By strategy."""

    needed: int
    interval: float


def preview(
    moment: Moment, configured: Configured, strategies: Sequence[Strategy], waiting: Waiting, *, unwatched: str
) -> PlanResponse:
    """The plan of this moment. Who leads, and what binders do at present, is for the caller to add.

    A pod is planned by the first strategy that wants it, as at an evaluation, and the same limits hold.
    """
    look = Look(moment, configured)
    fleet = look.fleet
    blind = blindness_of(fleet, moment, configured.load, unwatched=unwatched)
    moves: list[PlannedMove] = []
    nodes: list[PlannedNode] = []
    refused: list[RefusedMove] = []
    why: dict[str, str] = {}
    under_way = _under_way(moment)[:MOST]
    wanted: list[Move] = []
    taken: set[str] = set()
    so_far: dict[str, Flight] = {}
    for strategy in strategies:
        name = name_of(strategy)
        if taken:
            so_far |= {flight.id: flight for flight in map(planned, wanted)}
            fleet = look.after({**moment.flights, **so_far}, moment.assumptions)
        verdicts = strategy.verdicts(fleet)
        hot = frozenset(verdict.node for verdict in verdicts if verdict.abnormal)
        plan = Plan(why=blind) if blind else strategy.plan(fleet, hot)
        wanted = [move for move in (*plan.moves, *plan.later) if move.pod.uid not in taken]
        taken |= {move.pod.uid for move in wanted}
        moves += [_planned(name, move, later=move in plan.later) for move in wanted]
        nodes += _nodes(name, strategy.windows_of(fleet)[0], fleet, verdicts, wanted, waiting)
        refused += plan.refused
        if not wanted:
            why[name] = "no node is over its mark" if not hot and not blind else plan.why
    return PlanResponse(
        moves=moves[:MOST],
        nodes=nodes[:MOST],
        refused=refused[:MOST],
        why=why,
        pending=under_way,
        dry_run_moves=told(moment.assumptions)[:MOST],
        cooldowns=resting_nodes(moment.cool_downs, moment.now)[:MOST],
        considered=len(fleet.nodes),
        interval=float(waiting.interval),
        leader=LeaseEpoch(lease_uid="", transitions=0, holder=""),
        planned_at=moment.now,
    )


def _planned(strategy: str, move: Move, *, later: bool) -> PlannedMove:
    return PlannedMove(
        strategy=strategy,
        namespace=move.pod.namespace,
        pod=move.pod.name,
        workload=move.pod.workload,
        node=move.pod.node,
        target=move.target,
        reason=move.reason,
        expected_reduction=move.pod.usage,
        sampled_at=move.sampled_at,
        later=later,
    )


def _nodes(
    strategy: str,
    window: str,
    fleet: Fleet,
    verdicts: Sequence[NodeClassification],
    moves: Sequence[Move],
    waiting: Waiting,
) -> list[PlannedNode]:
    """Every node that is hot or touched by a move; touched ones first, then the most loaded."""
    touched = {move.pod.node for move in moves} | {move.target for move in moves}
    by_name = {node.name: node for node in fleet.nodes}
    counts = waiting.counts.get(strategy, {})
    found = []
    for verdict in verdicts:
        node, hot = by_name[verdict.node], verdict.abnormal
        if not hot and verdict.node not in touched:
            continue
        count = counts[verdict.node].abnormal if verdict.node in counts else 0
        found.append(
            PlannedNode(
                strategy=strategy,
                node=verdict.node,
                state=verdict.state,
                before=verdict.load,
                after=_after(node, window, moves),
                abnormal_evaluations=count,
                missing_evaluations=max(0, waiting.needed - count) if hot else 0,
                why=(hot and node.source_refusal) or verdict.why,
            )
        )
    return sorted(found, key=lambda each: (each.node not in touched, -_highest(each.before), each.node))


def _after(node: FleetNode, window: str, moves: Sequence[Move]) -> Resources:
    """Load once the moves under way and these are done."""
    usage = node.projected(window)
    for move in moves:
        if move.pod.node == node.name:
            usage = plus(usage, move.pod.usage, -1.0)
        if move.target == node.name:
            usage = plus(usage, move.pod.usage)
    return load_of(usage, node.base)


def _highest(load: Resources) -> float:
    return max(load.cpu or 0.0, load.memory or 0.0)


def _under_way(moment: Moment) -> list[PendingMove]:
    return [
        PendingMove(
            namespace=flight.namespace,
            pod=flight.pod,
            workload=flight.workload,
            node=flight.node,
            target=flight.target,
            evicted_at=flight.evicted_at,
        )
        for flight in sorted(moment.flights.values(), key=lambda flight: (flight.until, flight.id))
    ]
