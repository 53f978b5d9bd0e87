"""Numbers of pods per topology domain. A domain is the nodes with the same value of a label, the topology key."""

import numpy as np

from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.node_labels import LabelColumn


class TopologyCounts:
    """The number of pods in each domain. A node without the label belongs to no domain and has a count of 0."""

    __slots__ = ("_by_domain", "codes")

    def __init__(self, codes: Rows, by_domain: Ints) -> None:
        """See `count_by_domain`."""
        self.codes = codes
        """The index of the domain of each node; -1 without the label."""

        self._by_domain = by_domain
        """The number of pods by domain, and a last entry for the code -1, which remains 0."""

    def of(self, rows: Rows) -> Ints:
        """The number of pods in the domain of each node."""
        counts: Ints = self._by_domain[self.codes[rows]]
        return counts

    def add(self, row: int, pods: int) -> None:
        """Add this number of pods to the domain of a node; a negative number removes pods."""
        code = self.codes[row]
        if code >= 0:
            self._by_domain[code] += pods

    def lowest(self, domains: Rows) -> int:
        """The lowest number of pods in any of these domains, of which there must be one."""
        return int(self._by_domain[domains].min())

    @property
    def empty(self) -> bool:
        """Whether no domain has a pod."""
        return not self._by_domain.any()

    def clone(self) -> "TopologyCounts":
        return TopologyCounts(self.codes, self._by_domain.copy())


def count_by_domain(column: LabelColumn, by_node: Ints) -> TopologyCounts:
    """Sum pods per node to pods per domain. `by_node` has all columns of the snapshot; numbers may be negative."""
    rows = by_node.nonzero()[0]
    length = len(column.values) + 1
    codes = column.codes[rows] % length  # -1, which nodes without the label have, becomes the last index
    # The sums are floats, but exact, because they are below 2^53.
    by_domain = np.bincount(codes, weights=by_node[rows], minlength=length).astype(np.int64)
    by_domain[-1] = 0
    return TopologyCounts(column.codes, by_domain)
