"""Pods that are expected on a node once the victims of their preemption are gone."""

from collections.abc import Sequence

from equipoise.scheduling.model.pod_info import PodInfo


class Nominated:
    """The nominated pods, by node. A nomination reserves room only against pods of lower or equal priority."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def add(self, pod: PodInfo, node: str) -> None:
        """Nominates the pod to a node. Replaces an earlier nomination of the pod."""
        self.remove(pod)
        self._by_node.setdefault(node, {})[pod.uid] = pod
        self._node_of[pod.uid] = node

    def preempt(self, pod: PodInfo, node: str) -> Sequence[PodInfo]:
        """Nominates a pod for which others are removed from the node.

        Returns the pods of lower priority whose nomination to the node was removed.
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
        """The node to which the pod is nominated; empty if there is none."""
        return self._node_of.get(pod.uid, "")

    def on(self, node: str) -> Sequence[PodInfo]:
        return list(self._by_node.get(node, {}).values())

    def competing(self, pod: PodInfo, node: str) -> Sequence[PodInfo]:
        """The nominated pods for which this pod must leave room."""
        return [other for other in self.on(node) if other.priority >= pod.priority and other.uid != pod.uid]

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._by_node)
