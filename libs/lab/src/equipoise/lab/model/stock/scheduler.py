"""One scheduling cycle: which nodes are looked at, what each scores, and which is taken."""

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.pod_kind import PodKind
from equipoise.lab.model.stock.resources import FitScore, Ints, balanced_allocation
from equipoise.lab.model.stock.spreading import spread_scores
from equipoise.lab.model.stock.taints import taint_scores

Rows = npt.NDArray[np.intp]

_TAINT_WEIGHT = 3
_SPREAD_WEIGHT = 2


class Chance(Protocol):
    """numpy's Generator, or Python's random.Random."""

    def random(self) -> float:
        """0 ≤ … < 1."""
        ...


class Extender(msgspec.Struct, frozen=True, kw_only=True):
    """Who scores the candidates beside kube-scheduler."""

    scores: Callable[[Rows], Ints | None]
    """Given nodes in the order that they were looked at: a whole number for each; None: no answer, which is ignored."""

    weight: int
    resolution: int = 10
    """The best answer. kube-scheduler's extenders have 10."""


def nodes_to_find(nodes: int) -> int:
    """How many feasible nodes end the search, of so many in all (percentageOfNodesToScore 0)."""
    if nodes < 100:
        return nodes
    return max(100, nodes * max(5, 50 - nodes // 125) // 100)


class StockScheduler:
    """kube-scheduler with its default plugins. It remembers only where the last search ended."""

    def __init__(self, fit: FitScore | None = None) -> None:
        self.fit = fit or FitScore()
        self.start = 0
        """The node that the next search begins with."""

    def candidates(self, placements: Placements, kind: PodKind) -> Rows:
        """Nodes that the pod could go to, in the order that they are looked at; the next search goes on after them."""
        order: Rows = placements.feasible(kind).nonzero()[0]
        if turn := int(order.searchsorted(self.start)):
            order = np.concatenate((order[turn:], order[:turn]))
        found = nodes_to_find(len(placements))
        if len(order) > found:
            # The search ends at the first feasible node that is one too many; else it comes round to where it began.
            self.start = int(order[found])
        return order[:found]

    def scores(self, placements: Placements, kind: PodKind, rows: Rows) -> Ints:
        """Weighted sum of the plugins' scores for each candidate."""
        allocatable = placements.allocatable[:2].take(rows, axis=1)
        counted = placements.counted.take(rows, axis=1) + kind.counted[:, np.newaxis]
        total = self.fit.score(allocatable, counted)
        counts = placements.disliked(kind)
        total += _TAINT_WEIGHT * (100 if counts is None else taint_scores(counts.take(rows)))
        requested = allocatable - placements.free[:2].take(rows, axis=1)
        balanced = balanced_allocation(allocatable, requested, kind.asked[:2])
        if balanced is not None:
            total += balanced
        if kind.spread:
            counts = placements.siblings(kind)
            total += _SPREAD_WEIGHT * (100 if counts is None else spread_scores(counts.take(rows)))
        return total

    def schedule(
        self, placements: Placements, kind: PodKind, chance: Chance, extender: Extender | None = None
    ) -> int | None:
        """The node for the pod, which is not placed yet; None when it fits nowhere (`Placements.refusals` says why).

        A sole candidate is taken without a question. Equals are drawn from if an extender scored them; else the first
        that was looked at is taken.
        """
        rows = self.candidates(placements, kind)
        if len(rows) < 2:
            return int(rows[0]) if len(rows) else None
        total = self.scores(placements, kind, rows)
        answer = extender.scores(rows) if extender is not None else None
        if extender is None or answer is None:
            return int(rows[total.argmax()])
        total = total + np.asarray(answer, dtype=np.int64) * extender.weight * 100 // extender.resolution
        best = (total == total.max()).nonzero()[0]
        return int(rows[best[int(chance.random() * len(best))]])
