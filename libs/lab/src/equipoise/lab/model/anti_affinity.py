"""The anti-affinity rules of a trace: excluded nodes, and violations.

The rules limit numbers of pods per node, which the anti-affinity of Kubernetes cannot express.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from equipoise.lab.model.trace import AntiAffinity
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import Refusal
from equipoise.scheduling.model.arrays import Flags, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.pods.inter_pod_affinity import REASON_ANTI_AFFINITY


class AntiAffinityIndex:
    """Pods of each workload by node, and the nodes that rules exclude.

    A rule excludes a node for another pod of `limited` if the node has a pod of `beside` and at least `most` pods of
    `limited`. It excludes a node for a pod of `beside` if the node has more than `most` pods of `limited`. Therefore
    each exclusion is the intersection of two sets of nodes: those with more than n pods of one workload, and those with
    more than m of another. Sets are integers with one bit per node, so that a rule needs at most two operations of
    Python.
    """

    def __init__(self, rules: Sequence[AntiAffinity], nodes: int) -> None:
        self._nodes = nodes
        self._rules = np.array([(rule.beside, rule.limited, rule.most) for rule in rules], dtype=np.int64).reshape(
            -1, 3
        )
        self._counts: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._all_nodes = 0
        """The index in `_sets` of the set of all nodes."""

        self._sets = [(1 << nodes) - 1]
        self._index: dict[tuple[int, int], int] = {}
        """The index in `_sets` of the set of nodes with more than n pods of a workload, by workload and n.

        Only the sets that rules need exist.
        """

        self._exclusions: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """The pairs of sets whose intersection is excluded, by workload."""

        for rule in rules:
            full = self._set_of(rule.limited, rule.most - 1)
            if rule.beside == rule.limited:
                self._exclusions[rule.limited].append((full, self._all_nodes))
            else:
                self._exclusions[rule.limited].append((full, self._set_of(rule.beside, 0)))
                self._exclusions[rule.beside].append((self._all_nodes, self._set_of(rule.limited, rule.most)))

    def _set_of(self, workload: int, number: int) -> int:
        if number < 0:
            return self._all_nodes
        index = self._index.setdefault((workload, number), len(self._sets))
        if index == len(self._sets):
            self._sets.append(0)
        return index

    def place(self, workload: int, node: int) -> None:
        counts = self._counts[workload]
        before = counts.get(node, 0)
        counts[node] = before + 1
        if (index := self._index.get((workload, before))) is not None:
            self._sets[index] |= 1 << node

    def remove(self, workload: int, node: int) -> None:
        """Raises KeyError when there is no such pod on the node."""
        counts = self._counts[workload]
        after = counts.pop(node) - 1
        if after:
            counts[node] = after
        if (index := self._index.get((workload, after))) is not None:
            self._sets[index] &= ~(1 << node)

    def count(self, workload: int) -> dict[int, int]:
        """The number of pods of the workload by node. Callers must not change it."""
        return self._counts[workload]

    def excluded(self, workload: int) -> Flags | None:
        """Whether a rule excludes another pod of the workload on each node. None: no node is excluded."""
        excluded, sets = 0, self._sets
        for first, second in self._exclusions.get(workload, ()):
            excluded |= sets[first] & sets[second]
        if not excluded:
            return None
        octets = np.frombuffer(excluded.to_bytes(self._nodes // 8 + 1, "little"), dtype=np.uint8)
        return np.unpackbits(octets, count=self._nodes, bitorder="little").view(np.bool_)

    def violations(self) -> int:
        """Number of pods above the limits of rules, once for each violated rule.

        Computed from the pods alone, independently of `excluded`.
        """
        counts = [
            (workload, node, count) for workload, by_node in self._counts.items() for node, count in by_node.items()
        ]
        if not counts or not len(self._rules):
            return 0
        entries = np.array(sorted(counts), dtype=np.int64)
        beside, limited, most = self._rules.T
        first = np.searchsorted(entries[:, 0], limited, side="left")
        length = np.searchsorted(entries[:, 0], limited, side="right") - first
        # One row per rule and node with pods of its limited workload.
        rule = np.repeat(np.arange(len(limited)), length)
        row = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + first[rule]
        excess = entries[row, 2] - most[rule]
        rule, row, excess = rule[excess > 0], row[excess > 0], excess[excess > 0]
        span = int(entries[:, 1].max()) + 1
        # Only nodes with a pod of `beside` count. Each pair of a workload and a node is one number.
        together = np.isin(beside[rule] * span + entries[row, 1], entries[:, 0] * span + entries[:, 1])
        return int(excess[together].sum())


class TraceAntiAffinity:
    """The rules as a plugin of kube-scheduler, which refuses the nodes that the rules exclude."""

    name = "TraceAntiAffinity"

    def __init__(self, index: AntiAffinityIndex, workload: Callable[[PodInfo], int]) -> None:
        """`index`: an index whose nodes are rows of the snapshot. `workload`: the index of the workload of a pod."""
        self._index = index
        self._workload = workload

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        excluded = self._index.excluded(self._workload(pod))
        if excluded is None:
            return ()
        return (Refusal(nodes=excluded.take(rows), reason=REASON_ANTI_AFFINITY),)
