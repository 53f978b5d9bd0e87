"""The order in which a scale-down should delete the pods of a workload.

It deletes them from the nodes that will be hottest, or from those that are easiest to empty, and keeps the topology
spread of the pods: after each deletion, every constraint holds as far as it held before. A ReplicaSet that is scaled
down does not consider the spread (kubernetes/kubernetes#124149).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.contracts.kubernetes.objects.pod import TopologySpreadConstraint

First = Literal["hottestNodes", "emptiestNodes"]

BAND = 0.05
"""Loads that differ by less are the same: five points. Smaller differences change from minute to minute."""


class NodeOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """A node with pods of the workload."""

    pods: Sequence[str]
    """The pods of the workload that may be deleted, those that should be deleted first before the others."""

    kept: int = 0
    """The number of the other pods of the workload."""

    other_pods: int
    """The number of pods that remain without `pods`. Those of DaemonSets and static ones do not count."""

    loads: Sequence[float]
    """The expected loads (0..1), by resource and hour; empty if they are unknown."""

    relief: Sequence[float]
    """How much each of these loads falls with one pod of the workload less."""

    labels: Mapping[str, str] = {}


def deletion_order(
    nodes: Mapping[str, NodeOutlook], constraints: Sequence[TopologySpreadConstraint], *, first: First, count: int
) -> list[list[str]]:
    """The pods to delete, at most `count`. Those of one list are on one node, and may be deleted in any order.

    A node of unknown load is no hot node, and not easier to empty than one with the same number of pods. There are
    fewer than `count` pods if no other pod can be deleted without harm to the spread.
    """
    taken: Counter[str] = Counter()
    groups: list[list[str]] = []
    last = ""
    spreads = [(constraint, _pods_by_domain(nodes, constraint)) for constraint in constraints]
    for _ in range(count):
        candidates = [name for name, node in nodes.items() if taken[name] < len(node.pods)]
        for constraint, pods in spreads:
            candidates = _keeping(constraint, pods, candidates, nodes)
        if not candidates:
            break
        name = min(candidates, key=lambda name: _rank(name, nodes[name], taken[name], first))
        if name != last:
            groups.append([])
            last = name
        groups[-1].append(nodes[name].pods[taken[name]])
        taken[name] += 1
        for constraint, pods in spreads:
            pods[nodes[name].labels.get(constraint.topology_key)] -= 1
    return groups


def _rank(name: str, node: NodeOutlook, taken: int, first: First) -> tuple[float, float, str]:
    """The node with the lowest rank loses its next pod."""
    if first == "emptiestNodes":  # the same until the node has no more pods of the workload
        return node.other_pods + len(node.pods), max(node.loads, default=0.0) // BAND, name
    load = max((load - taken * relief for load, relief in zip(node.loads, node.relief, strict=True)), default=0.0)
    return -(load // BAND), taken - len(node.pods), name


def _pods_by_domain(nodes: Mapping[str, NodeOutlook], constraint: TopologySpreadConstraint) -> Counter[str | None]:
    """The pods of the workload in each domain; None: on nodes without the label."""
    pods: Counter[str | None] = Counter()
    for node in nodes.values():
        pods[node.labels.get(constraint.topology_key)] += len(node.pods) + node.kept
    return pods


def _keeping(
    constraint: TopologySpreadConstraint,
    pods: Mapping[str | None, int],
    candidates: Sequence[str],
    nodes: Mapping[str, NodeOutlook],
) -> list[str]:
    """The nodes that may lose a pod without a skew above its maximum.

    The skew is the difference between the domains with the most and with the fewest pods. If it already exceeds the
    maximum, only the domains with the most pods may lose one.
    """
    most = max((number for domain, number in pods.items() if domain is not None), default=0)
    fewest = most - max(1, constraint.max_skew) + 1
    domains = {name: nodes[name].labels.get(constraint.topology_key) for name in candidates}
    return [name for name, domain in domains.items() if domain is None or pods[domain] >= fewest]
