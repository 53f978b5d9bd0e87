"""Consolidation in an evaluation, after all strategies, and the response to a request for its plan."""

import msgspec

from equipoise.contracts.configuration.moves import strategy_refusal
from equipoise.contracts.configuration.prices import INSTANCE_TYPE, NodePrice, PriceTable
from equipoise.contracts.messages.consolidation import (
    ConsolidationRequest,
    ConsolidationResponse,
    EmptiableNode,
    NodeHour,
    RequestsForMore,
    StayingNode,
)
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.messages.health import REAL
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.consolidation.candidates import is_being_emptied
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingStep, next_step, reason_of
from equipoise.descheduler.decisions.consolidation.plan import ConsolidationPlan, EmptiedNode, HottestHour
from equipoise.descheduler.decisions.evaluation.results import StrategyResult
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.state.consolidation.moves import STRATEGY, emptying_moves
from equipoise.descheduler.state.consolidation.planner import MORE_NODES, consolidation_plan

MAX_ENTRIES = 500


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of consolidation, and what is done of it."""

    plan: ConsolidationPlan
    step: EmptyingStep
    result: StrategyResult


def consolidate(
    cluster: ClusterView, snapshot: Snapshot, settings: EvaluationSettings, *, problem: str
) -> Consolidated:
    """Makes the plan, and decides what is done of it now.

    `cluster`: the one in which the moves of all strategies are pending. `problem`: why no strategy may move anything;
    empty if pods may be moved.
    """
    plan = consolidation_plan(cluster, settings.consolidation)
    forbidden = _refusal(snapshot, settings)
    waiting = problem or ("" if snapshot.evictions else "no binder has reported what it does with intents")
    waiting = waiting or ("a campaign levels the nodes (equipoise rebalance)" if snapshot.campaign else "")
    step = next_step(cluster, plan, settings.consolidation, snapshot.emptying, forbidden=forbidden, waiting=waiting)
    moves = MovePlan(why=step.why) if forbidden or waiting else emptying_moves(cluster, step.emptied, step.why)
    result = StrategyResult(
        strategy=STRATEGY,
        window=cluster.windows[0],
        cluster=cluster,
        classifications=_classifications(cluster, plan, step),
        plan=moves,
    )
    return Consolidated(plan=plan, step=step, result=result)


def _refusal(snapshot: Snapshot, settings: EvaluationSettings) -> str:
    mode = settings.consolidation.mode
    if mode != "act":
        return f"consolidation.mode is {mode}"
    if why := strategy_refusal(settings.rules.level, STRATEGY):
        return why
    return "" if snapshot.evictions in (REAL, "") else f"no pod is evicted: {snapshot.evictions}"


def _classifications(cluster: ClusterView, plan: ConsolidationPlan, step: EmptyingStep) -> list[NodeClassification]:
    window = cluster.windows[0]
    could_go = {each.node.name: f"it could go: {reason_of(each)}" for each in plan.nodes}
    emptied = {each.node: f"it is being emptied: {each.why}" for each in step.state.nodes.values()}
    ended = {each.node: f"it is no longer emptied: {each.why}" for each in step.ended}
    texts = {name: obstacle.why for name, obstacle in plan.staying.items()} | could_go | ended | emptied
    return [
        NodeClassification(
            node=node.name,
            state="unknown" if node.unknown else "sparse" if node.name in could_go else "between",
            load=node.load(window),
            sampled_at=node.oldest_sample((window,)),
            why=texts.get(node.name, ""),
        )
        for node in cluster.nodes
    ]


def with_prices(settings: EvaluationSettings, request: ConsolidationRequest) -> EvaluationSettings:
    """The settings with the prices of a request, if it has any."""
    if request.prices is None:
        return settings
    prices = tuple(NodePrice(labels=dict(price.labels), per_hour=price.per_hour) for price in request.prices)
    table = PriceTable(currency=request.currency or None, nodes=prices)
    consolidation = msgspec.structs.replace(settings.consolidation, prices=table)
    return msgspec.structs.replace(settings, consolidation=consolidation)


def consolidation_response(
    consolidated: Consolidated, settings: EvaluationSettings, *, evictions: str, leader: LeaseEpoch
) -> ConsolidationResponse:
    """The plan as a message."""
    plan, step, own = consolidated.plan, consolidated.step, settings.consolidation
    prices = [each.price for each in plan.nodes if each.price is not None]
    nodes = consolidated.result.cluster.nodes
    all_prices = [price for node in nodes if (price := own.prices.price_of(node.labels)) is not None]
    return ConsolidationResponse(
        mode=own.mode,
        nodes=[_emptiable(each) for each in plan.nodes[:MAX_ENTRIES]],
        emptiable=len(plan.nodes),
        pods=sum(len(each.moves) for each in plan.nodes),
        per_hour=sum(prices) if prices else None,
        currency=own.prices.currency or "",
        unpriced=len(plan.nodes) - len(prices),
        cluster_per_hour=sum(all_prices) if all_prices else None,
        cluster_unpriced=len(nodes) - len(all_prices),
        staying=[
            StayingNode(node=name, why=obstacle.why, bound=obstacle.bound)
            for name, obstacle in sorted(plan.staying.items())[:MAX_ENTRIES]
        ],
        hottest_before=_node_hour(plan.hottest_before),
        hottest_after=_node_hour(plan.hottest_after),
        above=[StayingNode(node=name, why=text) for name, text in sorted(plan.above.items())[:MAX_ENTRIES]],
        bound=plan.bound,
        more=MORE_NODES if plan.requests else 0,
        requests=[
            RequestsForMore(resource=resource, requested=requested, needed=needed)
            for resource, (requested, needed) in plan.requests.items()
        ],
        margin=own.margin,
        unrecorded=plan.unrecorded,
        emptying=list(step.state.nodes.values()),
        why=step.why,
        evictions=evictions,
        considered=len(nodes),
        interval=float(settings.interval),
        leader=leader,
        planned_at=consolidated.result.cluster.now,
    )


def _emptiable(each: EmptiedNode) -> EmptiableNode:
    return EmptiableNode(
        node=each.node.name,
        instance_type=each.node.labels.get(INSTANCE_TYPE, ""),
        pods=len(each.moves),
        without_gap=sum(pod.without_gap for pod, _ in each.moves),
        targets=len({target.name for _, target in each.moves}),
        below=-100.0 * each.excess if each.moves else None,
        price=each.price,
        being_emptied=is_being_emptied(each.node),
    )


def _node_hour(hottest: HottestHour | None) -> NodeHour | None:
    if hottest is None:
        return None
    return NodeHour(node=hottest.node, resource=hottest.resource, hour=hottest.hour, load=hottest.load)
