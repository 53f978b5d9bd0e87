"""Pods that are expected on a node once the victims of their preemption are gone."""

from collections.abc import Sequence

from equipoise.scheduling.model.pod_info import PodInfo


class Nominated:
    """The nominated pods, by node. A nomination is no reservation: it counts only for lower or equal priority."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def add(self, pod: PodInfo, node: str) -> None:
        """Replaces an earlier nomination of the pod."""
        self.remove(pod)
        self._by_node.setdefault(node, {})[pod.uid] = pod
        self._node_of[pod.uid] = node

    def preempt(self, pod: PodInfo, node: str) -> Sequence[PodInfo]:
        """Nominates a pod for which others are removed from the node.

        Returns the pods of lower priority that were nominated to the node and no longer are.
        """
        outranked = [other for other in self.on(node) if other.priority < pod.priority]
        for other in outranked:
            self.remove(other)
        self.add(pod, node)
        return outranked

    def remove(self, pod: PodInfo) -> None:
        node = self._node_of.pop(pod.uid, None)
        if node is not None:
            del self._by_node[node][pod.uid]
            if not self._by_node[node]:
                del self._by_node[node]

    def node_of(self, pod: PodInfo) -> str:
        """Empty: none."""
        return self._node_of.get(pod.uid, "")

    def on(self, node: str) -> Sequence[PodInfo]:
        return list(self._by_node.get(node, {}).values())

    def competing(self, pod: PodInfo, node: str) -> Sequence[PodInfo]:
        """The nominated pods that this pod must leave room for."""
        return [each for each in self.on(node) if each.priority >= pod.priority and each.uid != pod.uid]

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._by_node)
