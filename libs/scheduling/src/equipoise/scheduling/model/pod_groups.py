"""Pods with the same namespace, labels and affinity terms, and how many of them each node has.

The pods of a workload are one group, so that a selector is evaluated once per workload and not once per pod.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from equipoise.scheduling.model.arrays import Ints
from equipoise.scheduling.model.pod_info import GroupKey, PodInfo


class PodGroup:
    """`by_row`: number of its pods by node."""

    __slots__ = ("by_row", "owner", "pod")

    def __init__(self, pod: PodInfo, by_row: dict[int, int], owner: object) -> None:
        self.pod = pod
        """One of them: namespace, labels and terms are those of all."""

        self.by_row = by_row
        self.owner = owner
        """Who may change it."""


class PodGroups:
    """A clone shares the groups with its original: whoever changes a group first copies it."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, PodGroup] = {}
        self._by_namespace: dict[str, dict[GroupKey, PodGroup]] = {}
        self._with_terms: dict[GroupKey, PodGroup] = {}
        self._owner = object()

    def clone(self) -> "PodGroups":
        copy = PodGroups()
        copy._groups, copy._with_terms = dict(self._groups), dict(self._with_terms)
        copy._by_namespace = {name: dict(groups) for name, groups in self._by_namespace.items()}
        self._owner = object()
        return copy

    def in_namespace(self, namespace: str) -> Iterable[PodGroup]:
        return self._by_namespace.get(namespace, _NOTHING).values()

    @property
    def namespaces(self) -> Iterable[str]:
        """Those with pods."""
        return self._by_namespace.keys()

    def with_terms(self) -> Iterable[PodGroup]:
        """Those whose pods have any term of affinity or anti-affinity to other pods."""
        return self._with_terms.values()

    def add(self, pod: PodInfo, row: int) -> None:
        by_row = self._writable(pod).by_row
        by_row[row] = by_row.get(row, 0) + 1

    def remove(self, pod: PodInfo, row: int) -> None:
        """Raises KeyError if there is none."""
        by_row = self._writable(pod).by_row
        left = by_row[row] - 1
        if left:
            by_row[row] = left
            return
        del by_row[row]
        if not by_row:
            self._remove_group(pod)

    def _writable(self, pod: PodInfo) -> PodGroup:
        key = pod.group_key
        group = self._groups.get(key)
        if group is None or group.owner is not self._owner:
            group = PodGroup(pod, {} if group is None else dict(group.by_row), self._owner)
            self._groups[key] = group
            self._by_namespace.setdefault(pod.namespace, {})[key] = group
            if pod.affinity_key:
                self._with_terms[key] = group
        return group

    def _remove_group(self, pod: PodInfo) -> None:
        del self._groups[pod.group_key]
        del self._by_namespace[pod.namespace][pod.group_key]
        if not self._by_namespace[pod.namespace]:
            del self._by_namespace[pod.namespace]
        self._with_terms.pop(pod.group_key, None)


_NOTHING: Mapping[GroupKey, PodGroup] = {}


def count_by_node(groups: Iterable[PodGroup], nodes: int) -> Ints:
    """Per node: pods of all these groups."""
    found = np.zeros(nodes, dtype=np.int64)
    for group in groups:
        rows = np.fromiter(group.by_row, np.intp, len(group.by_row))
        found[rows] += np.fromiter(group.by_row.values(), np.int64, len(group.by_row))
    return found
