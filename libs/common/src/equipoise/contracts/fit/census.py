"""The pods of a fleet, grouped by what rules about other pods read: thousands of nodes hold few kinds of pods."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from equipoise.contracts.fit.values import FitNode, FitPod
from equipoise.contracts.objects import LabelSelector

_Kind = tuple[str, int, int, bool]
"""Namespace, identity of labels and of anti-affinity, terminating: pods of a workload share theirs."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that every rule treats alike."""

    example: FitPod
    """Held, too, so that its labels stay what they are known by."""

    nodes: dict[str, list[FitPod]] = {}
    """By name of the node. A node without any is absent."""


class Census:
    """Says where pods of a kind are. What is moved in the plan has to be told."""

    def __init__(self, fleet: Sequence[FitNode]) -> None:
        self._groups: dict[_Kind, Group] = {}
        self._by_label: dict[tuple[str, str], list[Group]] = {}
        for node in fleet:
            for pod in node.pods:
                self._add(pod, node.name)

    def groups(self, selector: LabelSelector | None) -> Iterable[Group]:
        """Those that may satisfy a selector: whoever asks has to look. None chooses nothing."""
        if selector is None:
            return ()
        if selector.match_labels:
            return self._by_label.get(next(iter(selector.match_labels.items())), ())
        return self._groups.values()

    def keeping_away(self) -> Iterator[Group]:
        """Those whose anti-affinity may keep another pod off."""
        return (group for group in self._groups.values() if group.example.pod_anti_affinity)

    def move(self, pod: FitPod, source: str, target: str) -> None:
        """One pod is elsewhere now."""
        group = self._groups.get(_kind(pod))
        if group is not None:
            left = [other for other in group.nodes.get(source, ()) if other.uid != pod.uid]
            if left:
                group.nodes[source] = left
            else:
                group.nodes.pop(source, None)
        self._add(pod, target)

    def _add(self, pod: FitPod, node: str) -> None:
        kind = _kind(pod)
        group = self._groups.get(kind)
        if group is None:
            group = self._groups[kind] = Group(example=pod, nodes={})
            for label in pod.labels.items():
                self._by_label.setdefault(label, []).append(group)
        group.nodes.setdefault(node, []).append(pod)


def _kind(pod: FitPod) -> _Kind:
    labels = id(pod.labels) if pod.labels else 0
    return pod.namespace, labels, id(pod.pod_anti_affinity) if pod.pod_anti_affinity else 0, pod.terminating
