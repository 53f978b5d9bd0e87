"""The pods of a fleet, grouped by what rules about other pods read: thousands of nodes hold few kinds of pods."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from equipoise.contracts.fit.values import FitNode, FitPod
from equipoise.contracts.kubernetes.objects import LabelSelector

_Kind = tuple[str, int, int, bool]
"""Namespace, identity of labels and of anti-affinity, terminating: pods of a workload share theirs."""


class Group:
    """Pods that every rule treats alike."""

    def __init__(self, example: FitPod) -> None:
        self.example = example
        """Held, too, so that its labels stay what they are known by."""

        self.counted: list[tuple[str, FitPod]] = []
        """The pods as they were counted, each with its node."""

    @cached_property
    def nodes(self) -> dict[str, list[FitPod]]:
        """By name of the node; a node without any is absent. Of thousands of groups few are ever asked for it."""
        nodes: dict[str, list[FitPod]] = {}
        for node, pod in self.counted:
            nodes.setdefault(node, []).append(pod)
        return nodes


class PodIndex:
    """Says where pods of a kind are. What is moved in the plan has to be told."""

    def __init__(self, fleet: Sequence[FitNode]) -> None:
        self._groups: dict[_Kind, Group] = {}
        self._by_label: dict[tuple[str, str], list[Group]] = {}
        known = self._groups.get
        for node in fleet:
            name = node.name
            for pod in node.pods:
                kind = _kind(pod)
                (known(kind) or self._begun(kind, pod)).counted.append((name, pod))

    def groups(self, selector: LabelSelector | None) -> Iterable[Group]:
        """Those that may satisfy a selector: whoever asks has to look. None chooses nothing."""
        if selector is None:
            return ()
        if selector.match_labels:
            return self._by_label.get(next(iter(selector.match_labels.items())), ())
        return self._groups.values()

    def pods_with_anti_affinity(self) -> Iterator[Group]:
        """Those whose anti-affinity may keep another pod off."""
        return (group for group in self._groups.values() if group.example.pod_anti_affinity)

    def move(self, pod: FitPod, source: str, target: str) -> None:
        """One pod is elsewhere now."""
        kind = _kind(pod)
        nodes = (self._groups.get(kind) or self._begun(kind, pod)).nodes
        left = [other for other in nodes.pop(source, ()) if other.uid != pod.uid]
        if left:
            nodes[source] = left
        nodes.setdefault(target, []).append(pod)

    def _begun(self, kind: _Kind, pod: FitPod) -> Group:
        group = self._groups[kind] = Group(pod)
        for label in pod.labels.items():
            self._by_label.setdefault(label, []).append(group)
        return group


def _kind(pod: FitPod) -> _Kind:
    labels = id(pod.labels) if pod.labels else 0
    return pod.namespace, labels, id(pod.pod_anti_affinity) if pod.pod_anti_affinity else 0, pod.terminating
