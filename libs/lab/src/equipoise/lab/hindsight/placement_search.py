"""A local search for the most even placement: one pod moves, or two change their nodes, if that evens out the loads.

The spread of an hour depends on two nodes only, so most moves would not change it. The search therefore lowers the sum
over the hours of (Σ over nodes of |load − mean|^k)^(1/k), first with a small k, which all nodes count for, then with a
larger one, which the extremes dominate.
"""

from collections.abc import Iterator

import numpy as np

from equipoise.lab.hindsight.node_deviations import power
from equipoise.lab.hindsight.searched_placement import SearchedPlacement
from equipoise.lab.model.trace import Array
from equipoise.scheduling.model.arrays import Flags, Rows

EXPONENTS = (2, 4, 8)
"""Powers of two, which are computed by squaring."""

_RECOUNTED = 256
"""Steps after which rounding errors are removed."""

_MOST_SWAPS = 2_000
"""The number of pods that a step considers to swap with, if there are more."""


class PlacementSearch:
    """The search from one placement on, which it changes."""

    def __init__(
        self,
        placement: SearchedPlacement,
        generator: np.random.Generator,
        *,
        exponent: int,
        price: float = 0.0,
        exchanges: bool = True,
    ) -> None:
        """`price`: the gain that a pod on another node than in the trace needs, in points of the objective in each
        hour. `exchanges`: whether two pods can change their nodes."""
        self._placement, self._problem = placement, placement.problem
        self._generator = generator
        self._exponent = exponent
        self._origin = placement.problem.given
        self._price = price * placement.problem.cpu.shape[1]
        self._candidates = placement.candidates
        self._exchangeable = self._candidates if exchanges else self._candidates[:0]
        self._recount()

    def advance(self, steps: int) -> Iterator[int]:
        """Consider one pod in each step; yields the number of the step."""
        for step in range(steps):
            if step % _RECOUNTED == 0:
                self._placement.count_loads()
                self._recount()
            if (pod := self._placement.considered_pod(self._candidates, self._generator)) is not None:
                self._improve(pod)
            yield step

    def _recount(self) -> None:
        self._powers = power(self._placement.load - self._problem.mean, self._exponent)
        self._sums = self._powers.sum(axis=0)

    def _improve(self, pod: int) -> None:
        """Makes the best move or swap of the pod, if there is one that lowers the objective."""
        moves, costs_of_moves = self._moves(pod)
        swaps, costs_of_swaps = self._swaps(pod)
        move = costs_of_moves.min(initial=np.inf)
        swap = costs_of_swaps.min(initial=np.inf)
        if min(move, swap) > -1e-9:
            return
        placement = self._placement
        changed = [int(placement.node[pod])]
        if move <= swap:
            node = int(moves[costs_of_moves.argmin()])
            placement.move(pod, node)
        else:
            other = int(swaps[costs_of_swaps.argmin()])
            node = int(placement.node[other])
            placement.swap(pod, other)
        changed.append(node)
        self._sums = self._sums - self._powers[changed].sum(axis=0)
        self._powers[changed] = power(placement.load[changed] - self._problem.mean, self._exponent)
        self._sums = self._sums + self._powers[changed].sum(axis=0)

    def _moves(self, pod: int) -> tuple[Rows, Array]:
        """The nodes that the pod can move to, and the change of the objective."""
        problem, source = self._problem, int(self._placement.node[pod])
        workload = int(problem.workload[pod])
        nodes = self._placement.room(workload)
        nodes = nodes[(nodes != source) & (problem.domain[workload, nodes] == problem.domain[workload, source])]
        usage = problem.cpu[workload]
        costs = self._changes(source, -usage[np.newaxis], nodes, usage)
        away = (nodes != self._origin[pod]).astype(np.int64) - int(source != self._origin[pod])
        return nodes, costs + self._price * away

    def _swaps(self, pod: int) -> tuple[Rows, Array]:
        """The pods that can change nodes with the pod, and the change of the objective."""
        placement, problem = self._placement, self._problem
        source, workload = int(placement.node[pod]), int(problem.workload[pod])
        others = self._exchangeable
        if len(others) > _MOST_SWAPS:
            others = self._generator.choice(others, _MOST_SWAPS, replace=False)
        nodes = placement.node[others]
        others = others[self._may_swap(source, workload, problem.workload[others], nodes)]
        nodes = placement.node[others]
        more = problem.cpu[problem.workload[others]] - problem.cpu[workload]
        costs = self._changes(source, more, nodes, -more)
        away = (
            (nodes != self._origin[pod]).astype(np.int64)
            - int(source != self._origin[pod])
            + (self._origin[others] != source)
            - (self._origin[others] != nodes)
        )
        return others, costs + self._price * away

    def _may_swap(self, source: int, workload: int, workloads: Rows, nodes: Rows) -> Flags:
        """Whether a pod of `workload` on `source` can change nodes with each pod of `workloads` on `nodes`.

        Anti-affinity counts as if both pods were still there, which excludes some swaps that would be possible.
        """
        placement, problem = self._placement, self._problem
        more = problem.requests[workloads] - problem.requests[workload]
        fits = (placement.free[source] >= more).all(axis=1) & (placement.free[nodes] >= -more).all(axis=1)
        same_domains = (problem.domain[workload, nodes] == problem.domain[workload, source]) & (
            problem.domain[workloads, nodes] == problem.domain[workloads, source]
        )
        takes = problem.allowed[workload, nodes] & ~placement.excluded[workload, nodes]
        taken = problem.allowed[workloads, source] & ~placement.excluded[workloads, source]
        possible: Flags = fits & same_domains & takes & taken & (nodes != source) & (workloads != workload)
        return possible

    def _changes(self, source: int, at_source: Array, targets: Rows, at_targets: Array) -> Array:
        """The change of the objective by each of several changes of two nodes.

        `at_source`, `at_targets`: cores that are added to the source and to each target, (changes or 1) × hours.
        """
        exponent, mean, load, shares = self._exponent, self._problem.mean, self._placement.load, self._problem.shares
        sums = self._sums - self._powers[source] - self._powers[targets]
        sums += power(load[source] - mean + at_source * shares[source], exponent)
        sums += power(load[targets] - mean + at_targets * shares[targets], exponent)
        changes: Array = (np.maximum(sums, 0.0) ** (1.0 / exponent)).sum(axis=1)
        return changes - float((np.maximum(self._sums, 0.0) ** (1.0 / exponent)).sum())
