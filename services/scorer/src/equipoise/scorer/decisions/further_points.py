"""Points of nodes for the loads of further resources, beside those of a policy for cpu and memory."""

from collections.abc import Mapping

from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes

NEUTRAL = 50.0
"""The points of a node with the mean load of all nodes, and of one that does not have the resource."""


def with_further_points(points: Array, nodes: CandidateNodes, weights: Mapping[str, float]) -> Array:
    """The weighted mean of a policy's points (nodes, or pods × nodes), with weight 1, and those of further resources.

    A node has 50 points of a resource at the mean load of all nodes, one more per percentage point below it, and one
    less above. One whose load is unknown has those of the highest load of all nodes, so that it is not better than any
    other. Where no load is known, the resource changes no order. The usage of the pod is not added: it is often
    unknown. A node with 0 points of the policy keeps them.
    """
    further = nodes.further
    if further is None or not any(weights.values()):
        return points
    total, weight = points.copy(), 1.0
    for name, of_resource in weights.items():
        column = further.column(name)
        load = np.where(np.isnan(column.load) & ~column.lacking, column.highest, column.load)
        own = np.clip(NEUTRAL - 100.0 * (load - column.mean), 0.0, 100.0)
        total += of_resource * np.where(np.isnan(own), NEUTRAL, own)
        weight += of_resource
    combined: Array = np.where(points > 0.0, np.clip(total / weight, 1.0, 100.0), 0.0)
    return combined
