"""Whether a pod may run on a node, and why not, as kube-scheduler's filters would say. Never by preemption.

Used before a pod is moved: the pod that is asked about stands for its replacement, so wherever it runs now it takes
no room and repels nobody. Pods nominated to a node count as being there: put them into `FitNode.pods`.
Source of the rules: kubernetes v1.36, pkg/scheduler/framework/plugins.
"""

from collections.abc import Sequence

from equipoise.contracts.fit.census import PodIndex
from equipoise.contracts.fit.neighbour_rules import Neighbours, neighbour_refusal, neighbours
from equipoise.contracts.fit.node_rules import capacity_refusal, constraint_refusal, node_refusal
from equipoise.contracts.fit.values import FitNode, FitPod, HostPort, fit_node, fit_pod, placed_node

__all__ = [
    "FitNode",
    "FitPod",
    "HostPort",
    "Neighbours",
    "PodIndex",
    "capacity_refusal",
    "constraint_refusal",
    "fit_node",
    "fit_pod",
    "neighbour_refusal",
    "neighbours",
    "node_refusal",
    "placed_node",
    "refusal",
]


def refusal(pod: FitPod, node: FitNode, fleet: Sequence[FitNode] = ()) -> str:
    """ "" when the pod fits on the node, else why not, as people read it.

    `fleet`: every node, for rules that look beyond one (topology domains). `node` counts in place of the fleet's node
    of that name. To try many nodes for one pod, call `neighbours` once, then `node_refusal` and `neighbour_refusal`
    for each node.
    """
    alone = node_refusal(pod, node)
    if alone:
        return alone
    others = [other for other in fleet if other.name != node.name]
    return neighbour_refusal(node, neighbours(pod, [*others, node]))
