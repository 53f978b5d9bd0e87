"""Advice on a placed pod: the rank of its node among all nodes with headroom, and the points to the best (regret)."""

import msgspec

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.load.correction import amounts
from equipoise.contracts.messages.advice import AdvisedNode, PlacementAdvice
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import np
from equipoise.scorer.decisions.arrays import resources
from equipoise.scorer.decisions.demand import demand_of_placed
from equipoise.scorer.decisions.node_messages import latest_messages
from equipoise.scorer.decisions.ranking import Ranking, rank
from equipoise.scorer.state.scoring_state import ScoringState


def deserves_advice(pod: PlacedPod, node: str, *, max_age: float, now: float) -> bool:
    """Whether the scheduler could choose the node of this pod, and placed it at most `max_age` seconds ago.

    The loads of nodes are then still the same. DaemonSet pods and static pods (whose name ends in their node's name)
    have only one possible node.
    """
    daemon = pod.workload is not None and pod.workload.kind == "DaemonSet"
    static = pod.workload is None and pod.name.endswith(f"-{node}")
    return not (daemon or static or pod.terminating) and now - pod.placed_at <= max_age


def advise(
    state: ScoringState, pod: PlacedPod, node: str, high: ResourceThresholds, now: float
) -> PlacementAdvice | None:
    """Score a placed pod as if it were pending; None if it is no longer on the node. `state` does not change.

    The usage of the pod is subtracted from its node. Pods placed at the same time count on their nodes.
    """
    _, placement = latest_messages(state.nodes.messages, node)
    if placement is None or all(placed.uid != pod.uid for placed in placement.pods):
        return None
    advice = PlacementAdvice(
        pod_uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        workload=pod.workload,
        node=node,
        policy=state.policy.policy_name(),
        considered=0,
        why=state.coverage_problem(now) or state.nodes.why_unknown(node, now),
        high=Resources(
            cpu=None if high.cpu is None else high.cpu / 100.0,
            memory=None if high.memory is None else high.memory / 100.0,
        ),
        hint=pod.hint,
        placed_at=pod.placed_at,
        advised_at=now,
    )
    if advice.why:
        return advice
    names, rows = state.nodes.with_headroom(np.nan_to_num(amounts(pod.requests)), node)
    without = state.nodes.without(node, pod, now)
    demand, nodes, _ = state.inputs(demand_of_placed(pod), names, now, rows=rows, without=without)
    # Without a UID and candidates, no target is preferred: the pod has its node already.
    hint = state.replacements.hint("", pod.workload, (), now)
    ranking = rank(state.policy, nodes, demand, hint, state.settings)
    index, top = names.index(node), int(ranking.points.argmax())
    position = 1 + int(np.count_nonzero(ranking.points > ranking.points[index]))
    chosen = _advised_node(ranking, index)
    return msgspec.structs.replace(
        advice,
        considered=len(names),
        chosen=chosen,
        best=chosen if position == 1 else _advised_node(ranking, top),
        rank=position,
        regret=round(float(ranking.points[top] - ranking.points[index]), 2),
        neutral=ranking.scores.neutral,
        why=ranking.scores.why,
    )


def _advised_node(ranking: Ranking, index: int) -> AdvisedNode:
    """The node with its load without and with the pod, both in the same window so that they differ by the pod only."""
    _, load, with_pod = ranking.shortest_window(index)
    return AdvisedNode(
        node=ranking.names[index],
        score=round(float(ranking.points[index]), 2),
        load=resources(load),
        with_pod=resources(with_pod),
    )
