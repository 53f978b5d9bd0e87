"""Numbers of pods per topology domain: the nodes with the same value of a label, the topology key."""

import numpy as np

from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.node_labels import LabelColumn


class TopologyCounts:
    """A node without the label belongs to no domain, and has a count of 0."""

    __slots__ = ("_by_domain", "codes")

    def __init__(self, codes: Rows, by_domain: Ints) -> None:
        """See `count_by_domain`."""
        self.codes = codes
        """The index of the domain of each node; -1 without the label."""

        self._by_domain = by_domain
        """One longer than the number of domains: the last entry is that of code -1, and remains 0."""

    def of(self, rows: Rows) -> Ints:
        """The number of pods in the domain of each node."""
        found: Ints = self._by_domain[self.codes[rows]]
        return found

    def add(self, row: int, pods: int) -> None:
        """`pods` is negative for pods that are removed."""
        code = self.codes[row]
        if code >= 0:
            self._by_domain[code] += pods

    def lowest(self, domains: Rows) -> int:
        """The lowest number of pods of these domains; there must be one."""
        return int(self._by_domain[domains].min())

    @property
    def empty(self) -> bool:
        """There are no pods."""
        return not self._by_domain.any()

    def clone(self) -> "TopologyCounts":
        return TopologyCounts(self.codes, self._by_domain.copy())


def count_by_domain(column: LabelColumn, by_node: Ints) -> TopologyCounts:
    """`by_node`: pods per node, all columns of the snapshot; may be negative."""
    rows = by_node.nonzero()[0]
    # Sums of floats are exact: they are below 2^53. Without a label the code is -1, here the last one.
    codes, length = column.codes[rows] % (len(column.values) + 1), len(column.values) + 1
    by_domain = np.bincount(codes, weights=by_node[rows], minlength=length).astype(np.int64)
    by_domain[-1] = 0
    return TopologyCounts(column.codes, by_domain)
