"""What lies on every node, and which nodes could take one pod more: kube-scheduler's cache and its filters."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.contracts.kubernetes.tolerations import tolerates
from equipoise.lab.model.stock.anti_affinity import Neighbours
from equipoise.lab.model.stock.pod_kind import MIB, PodKind
from equipoise.lab.model.stock.resources import Flags, Ints
from equipoise.lab.model.stock.taints import UNSCHEDULABLE, disliked, kept_off
from equipoise.lab.model.trace import AntiAffinity, TraceNode

_SHORT = ("Insufficient cpu", "Insufficient memory", "Too many pods")


class Placements:
    """Nodes are known by their place among `nodes`. Resources are, in this order, millicores, bytes and pods."""

    def __init__(self, nodes: Sequence[TraceNode], rules: Sequence[AntiAffinity] = ()) -> None:
        amounts = [(node.cpu_milli, node.memory_mib * MIB, node.pods) for node in nodes]
        self.allocatable: Ints = np.ascontiguousarray(np.array(amounts, dtype=np.int64).reshape(-1, 3).T)
        """resources × nodes."""

        self.free: Ints = self.allocatable.copy()
        """resources × nodes: what is left of the requests. Below 0 where a trace has placed more than there is."""

        self.counted: Ints = np.zeros((2, len(nodes)), dtype=np.int64)
        """Millicores and bytes × nodes: requests, with something for those that were not made."""

        self.cordoned: Flags = np.zeros(len(nodes), dtype=np.bool_)
        """Per node; may be written to."""

        self.neighbours = Neighbours(rules, len(nodes))
        self._siblings: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        """Pods that are not terminating, by workload and revision, by node."""

        self._taints = tuple(node.taints for node in nodes)
        self._open: dict[tuple[Toleration, ...], Flags] = {}
        self._disliked: dict[tuple[Toleration, ...], Ints | None] = {}

    def __len__(self) -> int:
        """Nodes."""
        return len(self._taints)

    def place(self, kind: PodKind, node: int) -> None:
        """Whether it fits or not."""
        self.free[:, node] -= kind.asked
        self.counted[:, node] += kind.counted
        self.neighbours.place(kind.workload, node)
        siblings = self._siblings[kind.workload, kind.revision]
        siblings[node] = siblings.get(node, 0) + 1

    def terminate(self, kind: PodKind, node: int) -> None:
        """A pod is being deleted: it keeps its room until it is removed, but is nobody's sibling any more.

        Raises KeyError when there is no such pod on the node.
        """
        siblings = self._siblings[kind.workload, kind.revision]
        left = siblings.pop(node) - 1
        if left:
            siblings[node] = left

    def remove(self, kind: PodKind, node: int, *, terminating: bool = False) -> None:
        """`terminating`: `terminate` was called for it. Raises KeyError when there is no such pod on the node."""
        if not terminating:
            self.terminate(kind, node)
        self.neighbours.remove(kind.workload, node)
        self.free[:, node] += kind.asked
        self.counted[:, node] -= kind.counted

    def siblings(self, kind: PodKind) -> Ints | None:
        """Per node: pods that spreading would keep such a pod away from; None: there are none."""
        here = self._siblings.get((kind.workload, kind.revision))
        if not here:
            return None
        counts = np.zeros(len(self), dtype=np.int64)
        counts[np.fromiter(here, np.intp, len(here))] = np.fromiter(here.values(), np.int64, len(here))
        return counts

    def disliked(self, kind: PodKind) -> Ints | None:
        """Per node: taints that say that such a pod had better not come; None: there are none."""
        if kind.tolerations not in self._disliked:
            counts = disliked(self._taints, kind.tolerations)
            self._disliked[kind.tolerations] = counts if counts.any() else None
        return self._disliked[kind.tolerations]

    def feasible(self, kind: PodKind) -> Flags:
        """Per node: would every filter let such a pod onto it?"""
        passing: Flags = np.logical_and.reduce(self.free >= kind.needed)
        passing &= self._let_in(kind)
        if not tolerates(kind.tolerations, UNSCHEDULABLE):
            passing &= ~self.cordoned
        if (closed := self.neighbours.closed(kind.workload)) is not None:
            passing &= ~closed
        return passing

    def refusals(self, kind: PodKind) -> dict[str, int]:
        """Why not: how many nodes, by kube-scheduler's reasons. One per node, but for all that it is short of."""
        cordoned = self.cordoned & (not tolerates(kind.tolerations, UNSCHEDULABLE))
        tainted = ~self._let_in(kind) & ~cordoned
        short = (self.free < kind.needed) & ~(cordoned | tainted)
        closed = self.neighbours.closed(kind.workload)
        apart = np.zeros_like(tainted) if closed is None else closed & ~(cordoned | tainted | short.any(axis=0))
        refused = {
            "node(s) were unschedulable": cordoned,
            "node(s) had untolerated taint(s)": tainted,
            **dict(zip(_SHORT, short, strict=True)),
            "node(s) didn't match pod anti-affinity rules": apart,
        }
        return {reason: int(nodes.sum()) for reason, nodes in refused.items() if nodes.any()}

    def violations(self) -> int:
        """Anti-affinity: pods beyond what a rule lets onto their node, once for every rule that they break."""
        return self.neighbours.violations()

    def _let_in(self, kind: PodKind) -> Flags:
        """Per node: do its taints let such a pod in?"""
        found = self._open.get(kind.tolerations)
        if found is None:
            found = self._open[kind.tolerations] = ~kept_off(self._taints, kind.tolerations)
        return found
