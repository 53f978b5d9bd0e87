"""A placement of pods on nodes, with the load of each node."""

import numpy as np

from equipoise.lab.hindsight.placement_problem import PlacementProblem
from equipoise.lab.model.load_figures import spread
from equipoise.lab.model.trace import Array
from equipoise.scheduling.model.arrays import Flags, Rows


class SearchedPlacement:
    """The node of each pod, and what follows from it. Pods are moved one by one."""

    def __init__(self, problem: PlacementProblem, node: Rows) -> None:
        """`node`: the node of each pod; −1: none."""
        self.problem = problem
        self.node = node.copy()
        workloads, nodes = problem.allowed.shape
        self._counts = np.zeros((workloads, nodes), dtype=np.int64)
        """workloads × nodes: the number of pods."""

        placed = node >= 0
        np.add.at(self._counts, (problem.workload[placed], node[placed]), 1)
        self.free = problem.allocatable - self._counts.T @ problem.requests
        """nodes × resources: what is not requested; below 0 on a node that the trace fills above its allocatable."""

        self.load: Array
        """nodes × hours: the CPU load, in percent."""

        self.count_loads()
        self.excluded: Flags = np.zeros((workloads, nodes), dtype=np.bool_)
        """workloads × nodes: whether an anti-affinity rule excludes another pod."""

        for number in range(nodes):
            self._exclude(number)

    @property
    def candidates(self) -> Rows:
        """The pods that may move and have a node."""
        rows: Rows = np.flatnonzero(self.problem.movable & (self.node >= 0))
        return rows

    @property
    def unplaced(self) -> int:
        return int((self.node < 0).sum())

    @property
    def moved(self) -> int:
        """The number of pods that are on another node than in the trace."""
        given = self.problem.given
        return int(((self.node != given) & (given >= 0)).sum())

    def count_loads(self) -> None:
        """Add up the loads, without the rounding errors of many moves."""
        self.load = self._counts.T @ self.problem.cpu * self.problem.shares

    def loads(self) -> Array:
        """nodes × hours × (CPU, memory), in percent."""
        memory = self._counts.T @ self.problem.memory * (100.0 / self.problem.base[:, 1:])
        return np.stack([self._counts.T @ self.problem.cpu * self.problem.shares, memory], axis=2)

    @property
    def spreads(self) -> tuple[float, float]:
        """The spread in the peak hour, and the median of all hours."""
        spreads = spread(self.load)
        return float(spreads[self.problem.peak_hour]), float(np.median(spreads))

    def move(self, pod: int, node: int) -> None:
        """Moves the pod to the node; −1: to none."""
        if self.node[pod] >= 0:
            self._add(pod, int(self.node[pod]), -1)
        if node >= 0:
            self._add(pod, node, 1)
        self.node[pod] = node

    def swap(self, pod: int, other: int) -> None:
        """Two pods change their nodes."""
        first, second = int(self.node[pod]), int(self.node[other])
        self.move(other, -1)
        self.move(pod, second)
        self.move(other, first)

    def room(self, workload: int) -> Rows:
        """The nodes that can take one more pod of the workload."""
        problem = self.problem
        fits = (self.free >= problem.requests[workload]).all(axis=1)
        rows: Rows = np.flatnonzero(fits & problem.allowed[workload] & ~self.excluded[workload])
        return rows

    def considered_pod(self, candidates: Rows, generator: np.random.Generator) -> int | None:
        """The pod that a search considers next: any, or, every second time, one of the most or least loaded node of an
        hour. None if that node has no candidate."""
        if generator.random() < 0.5:
            load = self.load[:, int(generator.integers(self.load.shape[1]))]
            node = load.argmax() if generator.random() < 0.5 else load.argmin()
            candidates = candidates[self.node[candidates] == node]
        return int(generator.choice(candidates)) if len(candidates) else None

    def _add(self, pod: int, node: int, number: int) -> None:
        workload = int(self.problem.workload[pod])
        self._counts[workload, node] += number
        self.free[node] -= number * self.problem.requests[workload]
        self.load[node] += number * self.problem.cpu[workload] * self.problem.shares[node]
        self._exclude(node)

    def _exclude(self, node: int) -> None:
        """Computes which workloads the rules exclude from the node, see `AntiAffinity`."""
        excluded, counts = self.excluded[:, node], self._counts[:, node]
        excluded[:] = False
        beside, limited, most = self.problem.rules.T
        same = beside == limited
        excluded[limited[((counts[beside] > 0) | same) & (counts[limited] >= most)]] = True
        excluded[beside[~same & (counts[limited] > most)]] = True
