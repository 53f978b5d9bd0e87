"""The placement of all pods, and the nodes that are feasible for one more: the cache and the filters of
kube-scheduler."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.contracts.kubernetes.taints import tolerates
from equipoise.lab.model.stock.anti_affinity import AntiAffinityIndex
from equipoise.lab.model.stock.plugins import UNSCHEDULABLE, Flags, Ints, avoided_taints, excluded_by_taints
from equipoise.lab.model.stock.pod_template import MIB, PodTemplate
from equipoise.lab.model.trace import AntiAffinity, TraceNode

_SHORTAGES = ("Insufficient cpu", "Insufficient memory", "Too many pods")


class Placements:
    """Nodes by index. Resources are, in this order, millicores, bytes and pods."""

    def __init__(self, nodes: Sequence[TraceNode], rules: Sequence[AntiAffinity] = ()) -> None:
        amounts = [(node.cpu_milli, node.memory_mib * MIB, node.pods) for node in nodes]
        self.allocatable: Ints = np.ascontiguousarray(np.array(amounts, dtype=np.int64).reshape(-1, 3).T)
        """resources × nodes."""

        self.free: Ints = self.allocatable.copy()
        """resources × nodes: allocatable minus requests. Negative where the trace overcommits a node."""

        self.nonzero_requested: Ints = np.zeros((2, len(nodes)), dtype=np.int64)
        """(millicores, bytes) × nodes: requests, with defaults for missing ones."""

        self.cordoned: Flags = np.zeros(len(nodes), dtype=np.bool_)
        """Per node; may be changed."""

        self.anti_affinity = AntiAffinityIndex(rules, len(nodes))
        self._siblings: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        """Pods that are not terminating, by workload and revision, by node."""

        self._taints = tuple(node.taints for node in nodes)
        self._tolerated: dict[tuple[Toleration, ...], Flags] = {}
        self._avoided: dict[tuple[Toleration, ...], Ints | None] = {}

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._taints)

    def place(self, template: PodTemplate, node: int) -> None:
        """Add a pod, even if it does not fit."""
        self.free[:, node] -= template.requests
        self.nonzero_requested[:, node] += template.nonzero_requests
        self.anti_affinity.place(template.workload, node)
        siblings = self._siblings[template.workload, template.revision]
        siblings[node] = siblings.get(node, 0) + 1

    def terminate(self, template: PodTemplate, node: int) -> None:
        """Mark a pod as terminating: it keeps its resources until `remove`, but does not count for spreading.

        Raises KeyError when there is no such pod on the node.
        """
        siblings = self._siblings[template.workload, template.revision]
        remaining = siblings.pop(node) - 1
        if remaining:
            siblings[node] = remaining

    def remove(self, template: PodTemplate, node: int, *, terminating: bool = False) -> None:
        """`terminating`: `terminate` was called before. Raises KeyError when there is no such pod on the node."""
        if not terminating:
            self.terminate(template, node)
        self.anti_affinity.remove(template.workload, node)
        self.free[:, node] += template.requests
        self.nonzero_requested[:, node] -= template.nonzero_requests

    def siblings(self, template: PodTemplate) -> Ints | None:
        """Per node: number of pods that such a pod is spread from; None: there are none."""
        by_node = self._siblings.get((template.workload, template.revision))
        if not by_node:
            return None
        counts = np.zeros(len(self), dtype=np.int64)
        counts[np.fromiter(by_node, np.intp, len(by_node))] = np.fromiter(by_node.values(), np.int64, len(by_node))
        return counts

    def avoided_taints(self, template: PodTemplate) -> Ints | None:
        """Per node: number of PreferNoSchedule taints that the pod does not tolerate; None: there are none."""
        if template.tolerations not in self._avoided:
            counts = avoided_taints(self._taints, template.tolerations)
            self._avoided[template.tolerations] = counts if counts.any() else None
        return self._avoided[template.tolerations]

    def feasible(self, template: PodTemplate) -> Flags:
        """Per node: whether all filters pass for such a pod."""
        feasible: Flags = np.logical_and.reduce(self.free >= template.required)
        feasible &= self._tolerates_node(template)
        if not tolerates(template.tolerations, UNSCHEDULABLE):
            feasible &= ~self.cordoned
        if (excluded := self.anti_affinity.excluded(template.workload)) is not None:
            feasible &= ~excluded
        return feasible

    def refusals(self, template: PodTemplate) -> dict[str, int]:
        """Number of infeasible nodes by kube-scheduler's reasons.

        One reason per node, except that each insufficient resource counts.
        """
        cordoned = self.cordoned & (not tolerates(template.tolerations, UNSCHEDULABLE))
        tainted = ~self._tolerates_node(template) & ~cordoned
        short = (self.free < template.required) & ~(cordoned | tainted)
        excluded = self.anti_affinity.excluded(template.workload)
        other = cordoned | tainted | short.any(axis=0)
        refused = {
            "node(s) were unschedulable": cordoned,
            "node(s) had untolerated taint(s)": tainted,
            **dict(zip(_SHORTAGES, short, strict=True)),
            "node(s) didn't match pod anti-affinity rules": np.zeros_like(other)
            if excluded is None
            else excluded & ~other,
        }
        return {reason: int(nodes.sum()) for reason, nodes in refused.items() if nodes.any()}

    def _tolerates_node(self, template: PodTemplate) -> Flags:
        """Per node: whether the pod tolerates its NoSchedule and NoExecute taints."""
        if template.tolerations not in self._tolerated:
            self._tolerated[template.tolerations] = ~excluded_by_taints(self._taints, template.tolerations)
        return self._tolerated[template.tolerations]
