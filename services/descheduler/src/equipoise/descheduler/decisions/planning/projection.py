"""The cluster once the pending moves and the moves planned so far are done."""

import math
from collections.abc import Mapping, Sequence
from copy import copy

import msgspec

from equipoise.contracts.fit import (
    FitNode,
    FitPod,
    InterPodRules,
    PodIndex,
    inter_pod_refusal,
    inter_pod_rules,
    node_refusal,
)
from equipoise.contracts.numeric import Array, np
from equipoise.descheduler.decisions.planning.node_arrays import (
    MEASURED,
    amount_of,
    amounts,
    bases,
    batch_work_amount,
    production_amounts,
)
from equipoise.descheduler.state.cluster import ClusterNode, ClusterView, MovablePod, Resource


class Projection:
    """The working copy of a plan. Requests move with the pods: they are freed at the source and taken at the target."""

    def __init__(self, cluster: ClusterView, window: str, *, production: bool = False) -> None:
        """`production`: whether to project the usage of production pods."""
        self.positions = {node.name: index for index, node in enumerate(cluster.nodes)}
        """By name, the row of each node."""

        self.base = bases(cluster.nodes)
        self.amounts = amounts(cluster.nodes, window, projected=True)
        """Nodes × resources: cores, bytes and pods; NaN where unknown."""

        if production:
            self.production, self.production_complete = production_amounts(cluster.nodes)
        else:
            self.production = np.full(self.base.shape, np.nan)
            self.production_complete = np.zeros(len(cluster.nodes), dtype=np.bool_)
        self.fits = [node.fit for node in cluster.nodes]
        self._nodes = cluster.nodes
        self._batch_work: dict[int, Array] = {}
        """By row; only of the nodes for which it was needed."""

        self._census: PodIndex | None = None
        self._room: Array | None = None

    def load(self, node: ClusterNode) -> dict[Resource, float]:
        """Projected load (0..1) of the resources that are known."""
        index = self.positions[node.name]
        return known_loads(self.amounts[index] / self.base[index])

    def production_load(self, node: ClusterNode) -> dict[Resource, float]:
        """Projected load (0..1) of production, as far as it is known."""
        index = self.positions[node.name]
        return known_loads(self.production[index] / self.base[index])

    def load_without_batch_work(self, node: ClusterNode) -> dict[Resource, float]:
        """Projected load (0..1) without the pods that give way to others, of the resources that are known."""
        index = self.positions[node.name]
        return known_loads(np.maximum(self.amounts[index] - self._batch_work_of(index), 0.0) / self.base[index])

    def _batch_work_of(self, index: int) -> Array:
        if index not in self._batch_work:
            self._batch_work[index] = batch_work_amount(self._nodes[index])
        return self._batch_work[index]

    @property
    def room(self) -> Array:
        """Nodes × (cores, bytes, pods) that are not requested."""
        if self._room is None:
            self._room = np.array([_room(fit) for fit in self.fits]).reshape(-1, len(MEASURED))
        return self._room

    @property
    def requested(self) -> Array:
        """Nodes × (cpu, memory): share (0..1) of the allocatable amount that is requested; 1 of nothing."""
        offered = np.array([_offered(fit) for fit in self.fits]).reshape(-1, 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Array = np.where(offered > 0, 1.0 - self.room[:, :2] / offered, 1.0)
        return shares

    def around(self, pod: MovablePod) -> InterPodRules:
        """The constraints between this pod and the others: computed once, used for every target."""
        if self._census is None:
            self._census = PodIndex(self.fits)
        return inter_pod_rules(pod.fit, self.fits, self._census)

    def refusal(self, pod: MovablePod, target: ClusterNode, around: InterPodRules) -> str:
        """Why kube-scheduler's filters would reject the replacement; "" when they would not."""
        fit = self.fits[self.positions[target.name]]
        return node_refusal(pod.fit, fit) or inter_pod_refusal(fit, around)

    def move(self, pod: MovablePod, target: str) -> None:
        source, there, amount = self.positions[pod.node], self.positions[target], amount_of(pod)
        for values in (self.amounts, self.production) if pod.production else (self.amounts,):
            values[source] = np.maximum(values[source] - amount, 0.0)
            values[there] += amount
        if pod.batch_work:
            self._batch_work[source] = np.maximum(self._batch_work_of(source) - amount, 0.0)
            self._batch_work[there] = self._batch_work_of(there) + amount
        self._put(source, [other for other in self.fits[source].pods if other.uid != pod.uid])
        self._put(there, [*self.fits[there].pods, pod.fit])
        if self._census is not None:
            self._census.move(pod.fit, pod.node, target)

    def saved(self) -> "Projection":
        """A copy to restore after moves that were only tried."""
        saved = copy(self)
        saved.amounts, saved.production, saved.fits = self.amounts.copy(), self.production.copy(), list(self.fits)
        saved._batch_work = dict(self._batch_work)
        saved._room = None if self._room is None else self._room.copy()
        return saved

    def restore(self, saved: "Projection", tried: Sequence[tuple[MovablePod, str]]) -> None:
        """`tried`: the moves since `saved`, with their targets."""
        self.amounts, self.production = saved.amounts, saved.production
        self.fits, self._room, self._batch_work = saved.fits, saved._room, saved._batch_work
        for pod, target in reversed(tried):
            if self._census is not None:
                self._census.move(pod.fit, target, pod.node)

    def _put(self, index: int, pods: list[FitPod]) -> None:
        self.fits[index] = fit = msgspec.structs.replace(self.fits[index], pods=pods)
        if self._room is not None:
            self._room[index] = _room(fit)


def known_loads(loads: Array) -> dict[Resource, float]:
    """One row by resource, without what is unknown."""
    by_resource: Mapping[Resource, float] = dict(zip(MEASURED, loads.tolist(), strict=True))
    return {resource: load for resource, load in by_resource.items() if not math.isnan(load)}


def _offered(node: FitNode) -> tuple[float, float]:
    return node.allocatable.get("cpu", 0.0), node.allocatable.get("memory", 0.0)


def _room(node: FitNode) -> tuple[float, float, float]:
    free, taken = node.allocatable, node.requested
    return (
        free.get("cpu", 0.0) - taken.get("cpu", 0.0),
        free.get("memory", 0.0) - taken.get("memory", 0.0),
        free.get("pods", 0.0) - len(node.pods),
    )
