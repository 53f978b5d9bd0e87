"""How far the loads of nodes are from the mean: the objective of a search, and its slope."""

from collections.abc import Sequence

import numpy as np

from equipoise.lab.hindsight.searched_placement import SearchedPlacement
from equipoise.lab.model.trace import Array
from equipoise.scheduling.model.arrays import Rows


class NodeDeviations:
    """Σ over hours of (Σ over nodes of |load − mean|^k)^(1/k), for a placement that changes."""

    def __init__(self, placement: SearchedPlacement, exponent: int) -> None:
        self._placement, self._exponent = placement, exponent
        self._mean, self._shares = placement.problem.mean, placement.problem.shares
        self._powers = power(placement.load - self._mean, exponent)
        self._sums: Array = self._powers.sum(axis=0)

    def update(self, nodes: Sequence[int]) -> None:
        """Take over the loads of nodes that have changed."""
        self._powers[nodes] = power(self._placement.load[nodes] - self._mean, self._exponent)
        self._sums = self._powers.sum(axis=0)

    @property
    def objective(self) -> float:
        return float((self._sums ** (1.0 / self._exponent)).sum())

    def change(self, nodes: Rows, added: Array) -> float:
        """The change of the objective by a change of several nodes. `added`: cores, nodes × hours."""
        after = power(self._placement.load[nodes] - self._mean + added * self._shares[nodes], self._exponent)
        sums = np.maximum(self._sums + (after - self._powers[nodes]).sum(axis=0), 0.0)
        return float((sums ** (1.0 / self._exponent)).sum()) - self.objective

    def costs(self, nodes: Rows, added: Array) -> Array:
        """The change of the objective, as its slope estimates it, by each of several changes of one node.

        `added`: cores that are added to each node, (changes or 1) × hours. Costs of different nodes can be added.
        """
        slope = np.maximum(self._sums, 1e-12) ** (1.0 / self._exponent - 1.0) / self._exponent
        after = power(self._placement.load[nodes] - self._mean + added * self._shares[nodes], self._exponent)
        costs: Array = (after - self._powers[nodes]) @ slope
        return costs


def power(values: Array, exponent: int) -> Array:
    """values ** exponent, for a power of two."""
    while exponent > 1:
        values = values * values
        exponent //= 2
    return values
