"""The messages of an evaluation: intents, the decision of each strategy, and the response to a plan request."""

from collections.abc import Mapping, Sequence
from itertools import chain

import msgspec

from equipoise.contracts.colocation.bands import OFFERED_BANDS, OfferedBand, amounts_of_band
from equipoise.contracts.load.correction import load_of
from equipoise.contracts.messages.consolidation import MAX_VALIDITY, MIN_VALIDITY, NodesBeingEmptied
from equipoise.contracts.messages.descheduling import (
    DescheduleDecision,
    DryRunMove,
    EvaluatedCluster,
    LoadReduction,
    NodeCooldown,
    ProposedMove,
    ReplacementPlaced,
)
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.plan import PlannedBand, PlannedMove, PlannedNode, PlanResponse
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources, bounded_resources
from equipoise.descheduler.decisions.cluster import PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingStep
from equipoise.descheduler.decisions.evaluation.campaign_effect import campaign_effect
from equipoise.descheduler.decisions.evaluation.load_extremes import load_after, load_extremes
from equipoise.descheduler.decisions.evaluation.pipeline import Evaluation
from equipoise.descheduler.decisions.evaluation.results import StrategyResult
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.decisions.planning.move_cost import cost_of_move, gain_of
from equipoise.descheduler.decisions.planning.node_arrays import batch_work_amount
from equipoise.descheduler.state.abnormal_counts import AbnormalCounts, counted
from equipoise.descheduler.state.cooldowns import nodes_in_cooldown
from equipoise.descheduler.state.draft import one_reason_per_pod
from equipoise.descheduler.state.moves.pending_moves import TrackedMove, real_moves, reported_dry_runs, reported_pending

MAX_ENTRIES = 500
"""The maximum of each list: a message of the bus holds 1 MiB."""

MISSED_EVALUATIONS = 4
"""The number of intervals without an evaluation after which no node counts as being emptied."""

MAX_DRY_RUN_MOVES = 50
"""The maximum in a decision, the newest first."""


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """The results of earlier moves."""

    replacements: Sequence[ReplacementPlaced] = ()
    load_reductions: Sequence[LoadReduction] = ()
    cooldowns: Sequence[NodeCooldown] = ()
    dry_run_moves: Sequence[DryRunMove] = ()


def proposals(
    result: StrategyResult, snapshot: Snapshot, settings: EvaluationSettings, epoch: LeaseEpoch
) -> list[tuple[EvictionIntent, TrackedMove]]:
    """The intent of each planned move, and the pending move that it becomes."""
    siblings = snapshot.watched.pods_of(move.pod.workload for move in result.plan.moves)
    # Nodes above a threshold: their load should be lower soon after an eviction. Others are relieved for later hours.
    over = {state.node: tuple(state.over) for state in result.classifications if state.over}
    shortest = result.cluster.windows[0]
    usage = {node.name: node.remaining(shortest) for node in result.cluster.nodes if node.name in over}
    # A move without a gap that begins when its intent expires is not known before the next heartbeat of its binder.
    awaited = 0.0 if settings.rules.surge == "none" else HEARTBEAT_LIFETIME
    proposed = []
    gains = _gains(result)
    for move in result.plan.moves:
        intent = _intent(move, result.strategy, snapshot.now, settings.intent_lifetime, epoch, gains[move.pod.uid])
        workload = move.pod.workload
        tracked = converted(
            intent,
            TrackedMove,
            until=intent.expires_at + max(settings.intent_lifetime, awaited),
            siblings=frozenset(pod.metadata.uid for pod in (siblings[workload] if workload else ())),
            info=move.pod.info,
            before=usage.get(intent.node, Resources()),
            over=over.get(intent.node, ()),
        )
        proposed.append((intent, tracked))
    return proposed


def _gains(result: StrategyResult) -> dict[str, float | None]:
    """The gain of each wanted move, by UID of its pod."""
    over = {state.node: state.over for state in result.classifications}
    bases = {node.name: node.base for node in result.cluster.nodes}
    wanted = (*result.plan.moves, *result.plan.later)
    return {move.pod.uid: gain_of(move.pod.usage, bases[move.pod.node], over.get(move.pod.node, ())) for move in wanted}


def _intent(
    move: PodMove, strategy: str, now: float, lifetime: float, epoch: LeaseEpoch, gain: float | None
) -> EvictionIntent:
    """The id consists of the pod and the time: no pod is proposed twice at the same time."""
    return EvictionIntent(
        id=f"{move.pod.uid}.{round(now * 1000)}",
        pod_uid=move.pod.uid,
        namespace=move.pod.namespace,
        pod=move.pod.name,
        node=move.pod.node,
        workload=move.pod.workload,
        strategy=strategy,
        reason=move.reason,
        sampled_at=move.sampled_at,
        decided_at=now,
        expires_at=now + lifetime,
        expected_reduction=move.pod.usage,
        gain=gain,
        cost=cost_of_move(move.pod, now),
        target=move.target,
        without_gap=move.pod.without_gap,
        trigger=move.trigger,
        epoch=epoch,
    )


def decision_of(
    result: StrategyResult,
    *,
    counts: AbnormalCounts,
    published: Sequence[EvictionIntent],
    follow_up: FollowUp,
    problem: str,
    now: float,
    cluster: EvaluatedCluster | None = None,
) -> DescheduleDecision:
    """What a strategy classified, proposed and refused.

    `published`: the intents that the bus accepted; `problem`: why none was published, "" if nothing prevented it.
    `cluster`: what the evaluation found in the whole cluster, for the decision of the first strategy.
    """
    refused = {node.name: f"no target: {node.target_refusal}" for node in result.cluster.nodes if node.target_refusal}
    most_loaded = sorted(result.classifications, key=lambda each: (-_highest(each.load), each.node))
    return DescheduleDecision(
        strategy=result.strategy,
        evaluated_at=now,
        nodes=[
            msgspec.structs.replace(
                each, abnormal_evaluations=_count(counts, each.node), why=each.why or refused.get(each.node, "")
            )
            for each in most_loaded[:MAX_ENTRIES]
        ],
        intents=[intent.id for intent in published],
        refused=list(result.plan.refused),
        why="" if published else result.plan.why or problem or "the bus did not accept the intents",
        moves=[converted(intent, ProposedMove, intent_id=intent.id) for intent in published],
        dry_run_moves=list(follow_up.dry_run_moves[:MAX_DRY_RUN_MOVES]),
        replacements=list(follow_up.replacements),
        load_reductions=list(follow_up.load_reductions),
        cooldowns=list(follow_up.cooldowns[:MAX_ENTRIES]),
        cluster=cluster,
    )


def evaluated_cluster(evaluation: Evaluation, snapshot: Snapshot, settings: EvaluationSettings) -> EvaluatedCluster:
    """What the evaluation found in the whole cluster."""
    cluster = evaluation.cluster
    return EvaluatedCluster(
        loads=load_extremes(cluster, ()),
        nodes=len(cluster.nodes),
        unscheduled=len(cluster.unscheduled),
        campaign=campaign_effect(cluster, snapshot.campaign_moves),
        exhausted=not evaluation.problem
        and not real_moves(snapshot.pending)
        and not any(_may_go_on(result, snapshot, settings) for result in evaluation.results),
    )


def _may_go_on(result: StrategyResult, snapshot: Snapshot, settings: EvaluationSettings) -> bool:
    """Whether the strategy plans a move, or may plan one once a node has been abnormal for long enough."""
    counts = counted(
        snapshot.counts.get(result.strategy, {}), result.classifications, now=snapshot.now, interval=settings.interval
    )
    needed = settings.consecutive_abnormalities
    waiting = (item.abnormal and _count(counts, item.node) < needed for item in result.classifications)
    return bool(result.plan.moves or result.plan.later) or any(waiting)


_NONE: Mapping[tuple[str, str], str] = {}


def plan_response(
    evaluation: Evaluation,
    snapshot: Snapshot,
    settings: EvaluationSettings,
    *,
    evictions: str,
    leader: LeaseEpoch,
    preferred: Mapping[tuple[str, str], str] = _NONE,
) -> PlanResponse:
    """The response. `evaluation`: an evaluation in which one abnormal result is enough for a move. `evictions`: what
    binders do with intents.

    `preferred`: see `preferred_nodes`.
    """
    moves: list[PlannedMove] = []
    planned: list[PodMove] = []
    nodes: list[PlannedNode] = []
    why: dict[str, str] = {}
    for result in evaluation.results:
        wanted = [*result.plan.moves, *result.plan.later]
        planned += wanted
        moves += planned_moves(result, snapshot.now, preferred)
        nodes += _planned_nodes(result, wanted, snapshot, settings)
        if not wanted:
            why[result.strategy] = result.plan.why
    return PlanResponse(
        moves=moves[:MAX_ENTRIES],
        nodes=nodes[:MAX_ENTRIES],
        refused=one_reason_per_pod(chain.from_iterable(result.plan.refused for result in evaluation.results))[
            :MAX_ENTRIES
        ],
        why=why,
        pending=reported_pending(snapshot.pending)[:MAX_ENTRIES],
        dry_run_moves=reported_dry_runs(snapshot.pending)[:MAX_ENTRIES],
        cooldowns=nodes_in_cooldown(snapshot.cooldowns, snapshot.now)[:MAX_ENTRIES],
        before=load_extremes(evaluation.cluster, ()),
        after=load_extremes(evaluation.cluster, planned),
        unscheduled=len(evaluation.cluster.unscheduled),
        evictions=evictions,
        considered=len(evaluation.cluster.nodes),
        unknown=sum(bool(node.unknown) for node in evaluation.cluster.nodes),
        interval=float(settings.interval),
        leader=leader,
        planned_at=snapshot.now,
    )


def nodes_being_emptied(step: EmptyingStep, *, now: float, interval: float) -> NodesBeingEmptied:
    """The message that counts until a few evaluations were missed."""
    validity = min(max(MISSED_EVALUATIONS * interval, MIN_VALIDITY), MAX_VALIDITY)
    return NodesBeingEmptied(evaluated_at=now, valid_until=now + validity, nodes=list(step.state.nodes.values()))


def planned_moves(
    result: StrategyResult, now: float, preferred: Mapping[tuple[str, str], str] = _NONE
) -> list[PlannedMove]:
    """The wanted moves of a strategy; those for later come last. `preferred`: see `preferred_nodes`."""
    gains = _gains(result)
    return [
        msgspec.structs.replace(
            _planned(result.strategy, move, now, gains[move.pod.uid]),
            later=move in result.plan.later,
            preferred_without_scores=preferred.get((result.strategy, move.pod.uid), ""),
        )
        for move in (*result.plan.moves, *result.plan.later)
    ]


def _planned(strategy: str, move: PodMove, now: float, gain: float | None) -> PlannedMove:
    return PlannedMove(
        strategy=strategy,
        namespace=move.pod.namespace,
        pod=move.pod.name,
        workload=move.pod.workload,
        node=move.pod.node,
        target=move.target,
        reason=move.reason,
        expected_reduction=move.pod.usage,
        gain=gain,
        cost=cost_of_move(move.pod, now),
        sampled_at=move.sampled_at,
        without_gap=move.pod.without_gap,
    )


def _planned_nodes(
    result: StrategyResult, moves: Sequence[PodMove], snapshot: Snapshot, settings: EvaluationSettings
) -> list[PlannedNode]:
    """Every node that is abnormal, or the source or target of a move. Sources and targets come first, then the most
    loaded."""
    touched = {move.pod.node for move in moves} | {move.target for move in moves}
    by_name = {node.name: node for node in result.cluster.nodes}
    counts = snapshot.counts.get(result.strategy, {})
    planned = []
    for classification in result.classifications:
        node = by_name[classification.node]
        if not classification.abnormal and classification.node not in touched:
            continue
        count = _count(counts, classification.node)
        planned.append(
            PlannedNode(
                strategy=result.strategy,
                node=classification.node,
                state=classification.state,
                before=classification.load,
                after=load_after(node, result.window, moves),
                batch_work=_batch_work(node),
                bands=_bands(node),
                abnormal_evaluations=count,
                missing_evaluations=max(0, settings.consecutive_abnormalities - count)
                if classification.abnormal
                else 0,
                why=(classification.abnormal and node.source_refusal) or classification.why,
            )
        )
    return sorted(planned, key=lambda item: (item.node not in touched, -_highest(item.before), item.node))


def _batch_work(node: ClusterNode) -> Resources | None:
    """Load (0..1) of its pods that give way to others; None without such pods."""
    usages = node.batch_work_usages()
    if not usages:
        return None
    cpu, memory, _ = batch_work_amount(node).tolist()
    return load_of(Resources(cpu=cpu, memory=memory), node.base)


def _bands(node: ClusterNode) -> dict[OfferedBand, PlannedBand]:
    bands = {}
    for band in OFFERED_BANDS:
        offered = amounts_of_band(node.allocatable, band)
        if offered != Resources():
            requested = amounts_of_band(dict.fromkeys(node.allocatable, 0.0) | node.requested, band)
            bounded = bounded_resources(cpu=requested.cpu, memory=requested.memory)
            bands[band] = PlannedBand(offered=offered, requested=bounded)
    return bands


def _highest(load: Resources) -> float:
    return max(load.cpu or 0.0, load.memory or 0.0)


def _count(counts: AbnormalCounts, node: str) -> int:
    return counts[node].abnormal if node in counts else 0
