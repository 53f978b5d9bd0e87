"""The placed pods of each workload: how many there are, what they request, which taints they tolerate, and new ones."""

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from equipoise.contracts.kubernetes.objects import Taint
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


class _NodePods(msgspec.Struct, frozen=True):
    counts: Counter[Workload]
    taints: frozenset[Taint]


class WorkloadPods:
    """The pods of all workloads, from the placement of every node."""

    def __init__(self, span: float) -> None:
        """`span`: seconds for which a placed pod is recent."""
        self.span = span
        self.replicas: Counter[Workload] = Counter()
        self.latest: dict[Workload, PlacedPod] = {}
        """By workload: the pod that was placed last, also if it is gone since."""

        self._nodes: dict[str, _NodePods] = {}
        self._recent: deque[tuple[float, Workload]] = deque()

    def on_placement(self, message: NodePlacement, placed: Iterable[PlacedPod], now: float) -> None:
        """Use a node's placement; `placed` are the pods that are new on it."""
        before = self._nodes.pop(message.node, None)
        if before is not None:
            self._add(before.counts, -1)
        if not message.removed:
            counts = Counter(pod.workload for pod in message.pods if pod.workload is not None and not pod.terminating)
            self._nodes[message.node] = _NodePods(counts, blocking_taints(message.taints))
            self._add(counts, 1)
        for pod in placed:
            if pod.workload is None:
                continue
            known = self.latest.get(pod.workload)
            if known is None or known.placed_at <= pod.placed_at:
                self.latest[pod.workload] = pod
            if pod.placed_at > now - self.span:
                self._recent.append((pod.placed_at, pod.workload))

    def _add(self, counts: Counter[Workload], sign: int) -> None:
        for workload, count in counts.items():
            self.replicas[workload] += sign * count
            if not self.replicas[workload]:
                del self.replicas[workload]

    def recent(self, now: float) -> Counter[Workload]:
        """By workload: the pods that were placed within the span."""
        self._recent = deque(each for each in self._recent if each[0] > now - self.span)
        return Counter(workload for _, workload in self._recent)

    def tolerated(self) -> dict[Workload, set[Taint]]:
        """The taints of the nodes on which a workload has pods: its pods tolerate them. Most workloads have none."""
        found: dict[Workload, set[Taint]] = {}
        for node in self._nodes.values():
            if node.taints:
                for workload in node.counts:
                    found.setdefault(workload, set()).update(node.taints)
        return found

    def retain(self, known: Iterable[Workload]) -> None:
        """Remove what is kept of workloads that have no pod and are not among `known`."""
        kept = {*known, *self.replicas}
        self.latest = {workload: pod for workload, pod in self.latest.items() if workload in kept}


def blocking_taints(taints: Iterable[Taint]) -> frozenset[Taint]:
    """The taints that keep pods away which do not tolerate them."""
    return frozenset(taint for taint in taints if taint.effect in BLOCKING_EFFECTS)
