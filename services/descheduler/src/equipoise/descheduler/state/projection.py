"""The cluster once the pending moves and the moves planned so far are done, and the terminating pods have ended."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

from equipoise.contracts.numeric import Array, Flags, Indexes, np
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.planning.node_arrays import (
    MEASURED,
    amount_of,
    amounts,
    bases,
    batch_work_amount,
    expected_amounts,
    production_amounts,
    terminating_amounts,
)

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.descheduler.state.node_fit import NodeFit


MAX_OUTSCORED = 300
"""The number of pods without a target, since the last move, for which the scores of kube-scheduler are computed.
Without Equipoise's scores, a large cluster has thousands of such pods, and each takes about a millisecond with 5,000
nodes."""


class Projection:
    """The working copy of a plan. Requests move with the pods: they are freed at the source and taken at the target."""

    def __init__(self, cluster: ClusterView, window: str, *, production: bool = False) -> None:
        """`production`: whether to project the usage of production pods."""
        self.positions = {node.name: index for index, node in enumerate(cluster.nodes)}
        """The row of each node, by name."""

        self.further = further = cluster.further
        self.columns: tuple[Resource, ...] = (*MEASURED, *further)
        self.base = bases(cluster.nodes, further)
        self.amounts = amounts(cluster.nodes, window, projected=True, further=further)
        """Nodes × resources: cores, bytes and pods; NaN where unknown."""

        self.expected = expected_amounts(cluster.nodes, window, further)
        """Nodes × resources: the part of `amounts` that is only expected."""

        self.terminating = terminating_amounts(cluster.nodes, further=further)
        """Nodes × resources: what terminating pods use, which is not in `amounts`. It becomes free when they end."""

        self.terminating_production = terminating_amounts(cluster.nodes, production=True, further=further)
        if production:
            self.production, self.production_complete = production_amounts(cluster.nodes, further)
        else:
            self.production = np.full(self.base.shape, np.nan)
            self.production_complete = np.zeros(len(cluster.nodes), dtype=np.bool_)
        self._cluster = cluster
        self._nodes = cluster.nodes
        self._batch_work: dict[int, Array] = {}
        """The usage of batch work, by row; only of the nodes for which it was needed."""

        self._fit: NodeFit | None = None
        self._outscored = 0
        """The number of pods since the last move that kube-scheduler would place on none of their targets."""

    def load(self, node: ClusterNode) -> dict[Resource, float]:
        """Projected load (0..1) of the resources that are known."""
        index = self.positions[node.name]
        return self._known_loads(self.amounts[index] / self.base[index])

    def measured_load(self, node: ClusterNode) -> dict[Resource, float]:
        """`load` without the part that is only expected. It decides what has to leave the node."""
        index = self.positions[node.name]
        return self._known_loads(self.measured(index) / self.base[index])

    def measured(self, index: int) -> Array:
        """Cores, bytes and pods of the node in this row, without what is only expected."""
        measured: Array = np.maximum(self.amounts[index] - self.expected[index], 0.0)
        return measured

    def production_load(self, node: ClusterNode) -> dict[Resource, float]:
        """Projected load (0..1) of production, as far as it is known."""
        index = self.positions[node.name]
        return self._known_loads(self.production[index] / self.base[index])

    def load_without_batch_work(self, node: ClusterNode) -> dict[Resource, float]:
        """The same as `measured_load`, also without the pods that give way to others."""
        index = self.positions[node.name]
        return self._known_loads(np.maximum(self.measured(index) - self._batch_work_of(index), 0.0) / self.base[index])

    def amount_of(self, pod: MovablePod) -> Array:
        """What moves with a pod, in the columns of this projection."""
        return amount_of(pod, self.further)

    def _known_loads(self, loads: Array) -> dict[Resource, float]:
        """The known values of one row, by resource."""
        by_resource: Mapping[Resource, float] = dict(zip(self.columns, loads.tolist(), strict=True))
        return {resource: load for resource, load in by_resource.items() if not math.isnan(load)}

    def _batch_work_of(self, index: int) -> Array:
        if index not in self._batch_work:
            self._batch_work[index] = batch_work_amount(self._nodes[index], self.further)
        return self._batch_work[index]

    @property
    def fit(self) -> "NodeFit":
        """The fit of pods on the nodes, by row. It is created when it is first needed."""
        if self._fit is None:
            self._fit = self._cluster.fit(self._nodes)
        return self._fit

    def outscored(self, pod: MovablePod, targets: Indexes | int) -> Flags | None:
        """The flags of `NodeFit.outscored`, per node; None after MAX_OUTSCORED pods without a target.

        `targets`: the nodes to which the pod may be moved.
        """
        if self._outscored >= MAX_OUTSCORED:
            return None
        outscored = self.fit.outscored(pod)
        self._outscored += int(outscored[targets].all())
        return outscored

    def move(self, pod: MovablePod, target: str) -> None:
        self._outscored = 0
        source, target_row, amount = self.positions[pod.node], self.positions[target], self.amount_of(pod)
        for values in (self.amounts, self.production) if pod.production else (self.amounts,):
            values[source] = np.maximum(values[source] - amount, 0.0)
            values[target_row] += amount
        if pod.batch_work:
            self._batch_work[source] = np.maximum(self._batch_work_of(source) - amount, 0.0)
            self._batch_work[target_row] = self._batch_work_of(target_row) + amount
        self.fit.move(pod, target_row)

    def saved(self) -> "Projection":
        """A copy to restore after moves that were only tried."""
        saved = copy(self)
        saved.amounts, saved.production = self.amounts.copy(), self.production.copy()
        saved._batch_work = dict(self._batch_work)
        return saved

    def restore(self, saved: "Projection", tried: Sequence[MovablePod]) -> None:
        """Undoes moves. `tried`: the pods that were moved since `saved`."""
        self.amounts, self.production, self._batch_work = saved.amounts, saved.production, saved._batch_work
        self._outscored = max(saved._outscored, self._outscored)
        for pod in tried:
            self.fit.move(pod, self.positions[pod.node])
