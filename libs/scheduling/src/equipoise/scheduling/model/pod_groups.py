"""Pods with the same namespace, labels and affinity terms, and how many of them each node has.

The pods of a workload are one group, so that a selector is evaluated once per workload and not once per pod.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.group_index import GroupIndex
from equipoise.scheduling.model.pod_info import GroupKey, PodInfo


class SimilarPods:
    """A group of pods. `by_row`: the number of its pods by node."""

    __slots__ = ("_arrays", "by_row", "owner", "pod")

    def __init__(self, pod: PodInfo, by_row: dict[int, int], owner: object) -> None:
        self.pod = pod
        """One of the pods: all have its namespace, labels and terms."""

        self.by_row = by_row
        self.owner = owner
        """Identifies the index that may change this group. Any other index copies the group first."""

        self._arrays: tuple[Rows, Ints] | None = None

    @property
    def arrays(self) -> tuple[Rows, Ints]:
        """`by_row` as nodes, each once, and the numbers of pods."""
        if self._arrays is None:
            length = len(self.by_row)
            rows = np.fromiter(self.by_row, np.intp, length)
            self._arrays = (rows, np.fromiter(self.by_row.values(), np.int64, length))
        return self._arrays

    def add(self, row: int, pods: int) -> None:
        """Raises KeyError if pods are removed from a node without any."""
        left = (self.by_row[row] if pods < 0 else self.by_row.get(row, 0)) + pods
        if left:
            self.by_row[row] = left
        else:
            del self.by_row[row]
        self._arrays = None


class SimilarPodsIndex:
    """A clone shares the groups with its original: whoever changes a group first copies it."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, SimilarPods] = {}
        self._index = GroupIndex()
        """Shared with clones. Also knows groups that no longer exist here."""

        self._owner = object()

    def clone(self) -> "SimilarPodsIndex":
        copy = SimilarPodsIndex()
        copy._groups, copy._index = dict(self._groups), self._index
        self._owner = object()  # the groups are shared from now on, so this index copies them before a change, too
        return copy

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces that have pods, or had some."""
        return self._index.namespaces

    def selected(self, namespace: str, selector: LabelSelector | None) -> Sequence[SimilarPods]:
        """The groups of a namespace that the selector selects."""
        if selector is None:
            return ()
        return self._existing(self._index.selected(namespace, selector))

    def selecting(self, pod: PodInfo) -> Sequence[SimilarPods]:
        """All groups with a term of affinity or anti-affinity that selects the pod, and others."""
        return self._existing(self._index.selecting(pod))

    def add(self, pod: PodInfo, row: int) -> None:
        self._writable(pod).add(row, 1)

    def add_counts(self, pod: PodInfo, by_row: Mapping[int, int]) -> None:
        """Adds pods like this one. `by_row`: their number by node."""
        group = self._writable(pod)
        for row, pods in by_row.items():
            group.add(row, pods)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Raises KeyError if there is none."""
        group = self._writable(pod)
        group.add(row, -1)
        if not group.by_row:
            del self._groups[pod.group_key]

    def _existing(self, keys: Iterable[GroupKey]) -> list[SimilarPods]:
        return [group for key in keys if (group := self._groups.get(key)) is not None]

    def _writable(self, pod: PodInfo) -> SimilarPods:
        key = pod.group_key
        group = self._groups.get(key)
        if group is None or group.owner is not self._owner:
            if group is None:
                self._add_to_index(pod)
            group = SimilarPods(pod, {} if group is None else dict(group.by_row), self._owner)
            self._groups[key] = group
        return group

    def _add_to_index(self, pod: PodInfo) -> None:
        if len(self._index) > 2 * len(self._groups) + _MOST_FORGOTTEN:
            # A new one, because clones use the old one.
            self._index = GroupIndex()
            for group in self._groups.values():
                self._index.add(group.pod)
        self._index.add(pod)


_MOST_FORGOTTEN = 100
"""The index may keep groups that no longer exist: as many as there are groups, and this many more."""


def count_by_node(groups: Sequence[SimilarPods], nodes: int) -> Ints:
    """The number of pods of all these groups on each node. A group that is given twice counts twice."""
    found = np.zeros(nodes, dtype=np.int64)
    if len(groups) == 1:
        rows, counts = groups[0].arrays
        found[rows] = counts
    elif groups:
        arrays = [group.arrays for group in groups]
        rows, counts = (np.concatenate(parts) for parts in zip(*arrays, strict=True))
        np.add.at(found, rows, counts)
    return found
