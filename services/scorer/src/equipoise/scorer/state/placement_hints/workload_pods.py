"""The placed pods of each workload: how many there are, the latest one, and new ones."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from equipoise.contracts.kubernetes.nodes.platforms import Platform
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.recent import is_recent


class WorkloadPods:
    """The pods of all workloads, from the placement of every node."""

    def __init__(self, span: float) -> None:
        """`span`: seconds for which a placed pod is recent."""
        self.span = span
        self.replicas: Counter[Workload] = Counter()
        self.latest: dict[Workload, PlacedPod] = {}
        """The pod that was placed last, by workload. The pod may have been deleted since."""

        self._on_node: dict[str, Counter[Workload]] = {}
        self._ready_on_node: dict[str, frozenset[Workload]] = {}
        """The workloads with a pod on the node that has been ready, by node."""

        self._recent: deque[tuple[float, Workload]] = deque()

    def on_placement(self, message: NodePlacement, placed: Iterable[PlacedPod], now: float) -> None:
        """Applies the placement of a node. `placed`: the pods that are new on it."""
        self._add(self._on_node.pop(message.node, Counter()), -1)
        self._ready_on_node.pop(message.node, None)
        if not message.removed:
            ready = (pod.workload for pod in message.pods if pod.has_been_ready and pod.workload is not None)
            self._ready_on_node[message.node] = frozenset(ready)
            counts = Counter(pod.workload for pod in message.pods if pod.workload is not None and not pod.terminating)
            self._on_node[message.node] = counts
            self._add(counts, 1)
        for pod in message.pods:
            if pod.workload is not None and _replaces(self.latest.get(pod.workload), pod):
                self.latest[pod.workload] = pod
        for pod in placed:
            if pod.workload is not None and is_recent(pod.placed_at, now, self.span):
                self._recent.append((pod.placed_at, pod.workload))

    def _add(self, counts: Counter[Workload], sign: int) -> None:
        for workload, count in counts.items():
            self.replicas[workload] += sign * count
            if not self.replicas[workload]:
                del self.replicas[workload]

    def recent(self, now: float) -> Counter[Workload]:
        """The number of pods that were placed within the span, by workload."""
        self._recent = deque((at, workload) for at, workload in self._recent if is_recent(at, now, self.span))
        return Counter(workload for _, workload in self._recent)

    def on_nodes(self, workload: Workload) -> Counter[str]:
        """The number of pods of the workload on each node that has any."""
        return Counter({node: pods[workload] for node, pods in self._on_node.items() if workload in pods})

    def ready_platforms(self, platforms: Mapping[str, Platform]) -> Mapping[Workload, frozenset[Platform]]:
        """The platforms on which pods of a workload have been ready. `platforms`: those of the nodes, by name."""
        ready: dict[Workload, set[Platform]] = {}
        for node, workloads in self._ready_on_node.items():
            if node in platforms:
                for workload in workloads:
                    ready.setdefault(workload, set()).add(platforms[node])
        return {workload: frozenset(platforms) for workload, platforms in ready.items()}

    def retain(self, known: Iterable[Workload]) -> None:
        """Removes the latest pods of workloads that have no pod now and are not among `known`."""
        kept = {*known, *self.replicas}
        self.latest = {workload: pod for workload, pod in self.latest.items() if workload in kept}


def _replaces(latest: PlacedPod | None, pod: PlacedPod) -> bool:
    """Whether the pod is later, or the same one with other contents."""
    return latest is None or latest.placed_at < pod.placed_at or (latest.uid == pod.uid and latest != pod)
