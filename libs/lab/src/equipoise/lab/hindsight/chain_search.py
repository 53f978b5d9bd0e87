"""Chains of two and three moves: a pod moves into the room that a second pod leaves on another node, and so on.

The last pod of a chain moves to a node that has room. So evictions can carry out a chain, the last move first, while
two pods that exchange their nodes need room on a third one. The best few pods are tried at each place of a chain.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from equipoise.lab.hindsight.node_deviations import NodeDeviations
from equipoise.lab.hindsight.searched_placement import SearchedPlacement
from equipoise.lab.model.trace import Array
from equipoise.scheduling.model.arrays import Flags, Rows

_SECOND_PODS = 8
"""The pods that are tried as the second of a chain."""

_THIRD_PODS = 4
"""The pods that are tried as the third of a chain, for each second one."""

_COMPARED = 24
"""The chains of a pod, those with the best estimates, for which the change of the objective is computed exactly."""


class _Chain(NamedTuple):
    """Pods, and the node to which each moves: that of the next pod, and a node with room for the last one."""

    pods: tuple[int, ...]
    nodes: tuple[int, ...]
    cost: float
    """An estimate of the change of the objective, from its slope, with the price of the moves."""


class ChainSearch:
    """A search that starts with one placement, and changes it."""

    def __init__(
        self,
        placement: SearchedPlacement,
        generator: np.random.Generator,
        *,
        exponent: int,
        price: float = 0.0,
    ) -> None:
        """The `price` is that of `PlacementSearch`: the gain that a pod on another node than in the trace needs."""
        self._placement, self._problem = placement, placement.problem
        self._generator = generator
        self._deviations = NodeDeviations(placement, exponent)
        self._price: float = price * placement.problem.cpu.shape[1]
        self._candidates = placement.candidates

    def advance(self, steps: int) -> Iterator[int]:
        """Consider the chains of one pod in each step; yields the number of the step."""
        for step in range(steps):
            if (pod := self._placement.considered_pod(self._candidates, self._generator)) is not None:
                self._improve(pod)
            yield step

    def _improve(self, pod: int) -> None:
        """Carries out the best chain of the pod, if one lowers the objective."""
        chains = sorted(self._chains(pod), key=lambda chain: chain.cost)[:_COMPARED]
        changes = [self._change(chain) for chain in chains]
        if changes and min(changes) < -1e-9:
            self._apply(chains[changes.index(min(changes))])

    def _change(self, chain: _Chain) -> float:
        """The exact change of the objective."""
        placement, added = self._placement, defaultdict[int, Array | float](float)
        for pod, node in zip(chain.pods, chain.nodes, strict=True):
            added[int(placement.node[pod])] -= self._usage(pod)
            added[node] += self._usage(pod)
        change = self._deviations.change(np.array([*added]), np.array([*added.values()]))
        return change + self._price_of(chain)

    def _apply(self, chain: _Chain) -> None:
        placement = self._placement
        changed = {int(placement.node[pod]) for pod in chain.pods} | {*chain.nodes}
        for pod, node in zip(reversed(chain.pods), reversed(chain.nodes), strict=True):
            placement.move(pod, node)
        self._deviations.update(sorted(changed))

    def _chains(self, first: int) -> Iterator[_Chain]:
        """The chains that begin with this pod, with the best end of each."""
        placement = self._placement
        source = int(placement.node[first])
        vacated = float(self._deviations.costs(np.array([source]), -self._usage(first)[np.newaxis])[0])
        seconds, costs = self._successors(first, (source,))
        for second, cost in _lowest(seconds, vacated + costs, _SECOND_PODS):
            node = int(placement.node[second])
            yield from self._ended((first, second), (node,), cost, exclude=(source, node))
            thirds, further = self._successors(second, (source, node))
            for third, total in _lowest(thirds, cost + further, _THIRD_PODS):
                last = int(placement.node[third])
                yield from self._ended((first, second, third), (node, last), total, exclude=(source, node, last))

    def _ended(
        self, pods: tuple[int, ...], nodes: tuple[int, ...], cost: float, *, exclude: tuple[int, ...]
    ) -> Iterator[_Chain]:
        """The chain whose last pod moves to the best node with room."""
        last = pods[-1]
        problem, workload = self._problem, int(self._problem.workload[last])
        ends = self._placement.room(workload)
        same = problem.domain[workload, ends] == problem.domain[workload, self._placement.node[last]]
        ends = ends[same & ~np.isin(ends, exclude)]
        if len(ends):
            costs = self._deviations.costs(ends, self._usage(last)[np.newaxis])
            best = int(costs.argmin())
            chain = _Chain(pods, (*nodes, int(ends[best])), cost + float(costs[best]))
            yield chain._replace(cost=chain.cost + self._price_of(chain))

    def _successors(self, pod: int, exclude: tuple[int, ...]) -> tuple[Rows, Array]:
        """The pods whose room the pod can take, outside of some nodes, and what that changes on their nodes."""
        placement, problem = self._placement, self._problem
        others = self._candidates[~np.isin(placement.node[self._candidates], exclude)]
        others = others[problem.workload[others] != problem.workload[pod]]
        others = others[self._takes(pod, placement.node[others], others)]
        added = problem.cpu[problem.workload[pod]] - problem.cpu[problem.workload[others]]
        return others, self._deviations.costs(placement.node[others], added)

    def _takes(self, pod: int, nodes: Rows, leaving: Rows) -> Flags:
        """Whether each node takes the pod when a pod has left it, that of `leaving` with the same index.

        Anti-affinity counts as if that pod were still there, which excludes some chains that would be possible.
        """
        placement, problem = self._placement, self._problem
        workload, source = int(problem.workload[pod]), int(placement.node[pod])
        free = placement.free[nodes] + problem.requests[problem.workload[leaving]]
        takes: Flags = (
            (free >= problem.requests[workload]).all(axis=1)
            & problem.allowed[workload, nodes]
            & ~placement.excluded[workload, nodes]
            & (problem.domain[workload, nodes] == problem.domain[workload, source])
        )
        return takes

    def _price_of(self, chain: _Chain) -> float:
        """The price of the pods that leave their node in the trace, less that of those that return to it."""
        given, node = self._problem.given, self._placement.node
        moves = zip(chain.pods, chain.nodes, strict=True)
        away = sum(int(target != given[pod]) - int(node[pod] != given[pod]) for pod, target in moves)
        return self._price * away

    def _usage(self, pod: int) -> Array:
        usage: Array = self._problem.cpu[self._problem.workload[pod]]
        return usage


def _lowest(pods: Rows, costs: Array, number: int) -> Iterator[tuple[int, float]]:
    """The pods with the lowest costs, and their costs."""
    if len(pods) > number:
        lowest = np.argpartition(costs, number)[:number]
        pods, costs = pods[lowest], costs[lowest]
    yield from zip(pods.tolist(), costs.tolist(), strict=True)
