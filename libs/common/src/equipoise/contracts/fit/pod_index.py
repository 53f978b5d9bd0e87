"""The pods of a cluster, grouped by the fields that rules between pods read: thousands of nodes have few groups."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from equipoise.contracts.fit.values import FitNode, FitPod
from equipoise.contracts.kubernetes.objects import LabelSelector

_Kind = tuple[str, int, int, bool]
"""Namespace, identity of labels and of anti-affinity, terminating: equal for the pods of a workload."""


class PodGroup:
    """Pods that are equal for every rule."""

    def __init__(self, example: FitPod) -> None:
        self.example = example
        """It also keeps its labels alive, because groups are identified by them."""

        self.counted: list[tuple[str, FitPod]] = []
        """The pods, each with its node."""

    @cached_property
    def nodes(self) -> dict[str, list[FitPod]]:
        """By node name; nodes without any are absent. Of thousands of groups only a few need it."""
        nodes: dict[str, list[FitPod]] = {}
        for node, pod in self.counted:
            nodes.setdefault(node, []).append(pod)
        return nodes


class PodIndex:
    """Finds the nodes of pods that a selector matches. Planned moves are applied with `move`."""

    def __init__(self, nodes: Sequence[FitNode]) -> None:
        self._groups: dict[_Kind, PodGroup] = {}
        self._by_label: dict[tuple[str, str], list[PodGroup]] = {}
        known = self._groups.get
        for node in nodes:
            name = node.name
            for pod in node.pods:
                kind = _kind(pod)
                (known(kind) or self._new_group(kind, pod)).counted.append((name, pod))

    def groups(self, selector: LabelSelector | None) -> Iterable[PodGroup]:
        """Groups that may match a selector: the caller has to check them. None matches nothing."""
        if selector is None:
            return ()
        if selector.match_labels:
            return self._by_label.get(next(iter(selector.match_labels.items())), ())
        return self._groups.values()

    def pods_with_anti_affinity(self) -> Iterator[PodGroup]:
        """Groups whose anti-affinity may exclude another pod."""
        return (group for group in self._groups.values() if group.example.pod_anti_affinity)

    def move(self, pod: FitPod, source: str, target: str) -> None:
        """Moves one pod to another node."""
        kind = _kind(pod)
        nodes = (self._groups.get(kind) or self._new_group(kind, pod)).nodes
        left = [other for other in nodes.pop(source, ()) if other.uid != pod.uid]
        if left:
            nodes[source] = left
        nodes.setdefault(target, []).append(pod)

    def _new_group(self, kind: _Kind, pod: FitPod) -> PodGroup:
        group = self._groups[kind] = PodGroup(pod)
        for label in pod.labels.items():
            self._by_label.setdefault(label, []).append(group)
        return group


def _kind(pod: FitPod) -> _Kind:
    labels = id(pod.labels) if pod.labels else 0
    return pod.namespace, labels, id(pod.pod_anti_affinity) if pod.pod_anti_affinity else 0, pod.terminating
