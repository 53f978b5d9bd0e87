"""One scheduling cycle: find feasible nodes, score them, select one."""

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.plugins import (
    FitScore,
    Ints,
    affinity_scores,
    balanced_allocation,
    spread_scores,
    taint_scores,
)
from equipoise.lab.model.stock.pod_template import PodTemplate

Rows = npt.NDArray[np.intp]

_TAINT_WEIGHT = 3
_SPREAD_WEIGHT = 2
_AFFINITY_WEIGHT = 2


class RandomSource(Protocol):
    """numpy's Generator, or Python's random.Random."""

    def random(self) -> float:
        """0 ≤ … < 1."""
        ...


class SimulatedExtender(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler extender with a prioritize verb."""

    scores: Callable[[Rows], Ints | None]
    """The score of each of these nodes; None: the request failed, which is ignored."""

    weight: int
    max_score: int = 10
    """The highest possible score: 10 for the extenders of kube-scheduler."""


def feasible_nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """Number of feasible nodes that ends the search, of `nodes` in total. `percentage`: percentageOfNodesToScore."""
    if nodes < 100:
        return nodes
    return max(100, nodes * (percentage or max(5, 50 - nodes // 125)) // 100)


class StockScheduler:
    """kube-scheduler with its default plugins. Its only state is the node at which the next search starts."""

    def __init__(self, fit: FitScore | None = None, percentage_of_nodes_to_score: int = 0) -> None:
        self.fit = fit or FitScore()
        self.percentage = percentage_of_nodes_to_score
        self.next_start = 0
        """Index of the node at which the next search starts."""

    def candidates(self, placements: Placements, template: PodTemplate) -> Rows:
        """Feasible nodes in the order of the search. The next search continues after them."""
        order: Rows = placements.feasible(template).nonzero()[0]
        if split := int(order.searchsorted(self.next_start)):
            order = np.concatenate((order[split:], order[:split]))
        limit = feasible_nodes_to_find(len(placements), self.percentage)
        if len(order) > limit:
            # The search ends at the first feasible node above the limit; otherwise it examines all nodes.
            self.next_start = int(order[limit])
        return order[:limit]

    def scores(self, placements: Placements, template: PodTemplate, rows: Rows) -> Ints:
        """Weighted sum of the plugins' scores for each candidate."""
        allocatable = placements.allocatable[:2].take(rows, axis=1)
        with_pod = placements.nonzero_requested.take(rows, axis=1) + template.nonzero_requests[:, np.newaxis]
        total = self.fit.score(allocatable, with_pod)
        counts = placements.avoided_taints(template)
        total += _TAINT_WEIGHT * (100 if counts is None else taint_scores(counts.take(rows)))
        requested = allocatable - placements.free[:2].take(rows, axis=1)
        balanced = balanced_allocation(allocatable, requested, template.requests[:2])
        if balanced is not None:
            total += balanced
        if template.spread:
            counts = placements.siblings(template)
            total += _SPREAD_WEIGHT * (100 if counts is None else spread_scores(counts.take(rows)))
        return total

    def schedule(
        self,
        placements: Placements,
        template: PodTemplate,
        generator: RandomSource,
        extender: SimulatedExtender | None = None,
        preferred: Ints | None = None,
    ) -> int | None:
        """The node for a pod that is not placed yet; None if no node is feasible (see `Placements.refusals`).

        `preferred`: per node of the cluster, the weights of the preferred terms of the pod's node affinity that it
        matches. A single candidate is selected without calling the extender. Among equal scores, the first candidate is
        selected, or a random one if the extender scored them.
        """
        rows = self.candidates(placements, template)
        if len(rows) < 2:
            return int(rows[0]) if len(rows) else None
        total = self.scores(placements, template, rows)
        if preferred is not None:
            total += _AFFINITY_WEIGHT * affinity_scores(preferred.take(rows))
        extender_scores = extender.scores(rows) if extender is not None else None
        if extender is None or extender_scores is None:
            return int(rows[total.argmax()])
        total = total + np.asarray(extender_scores, dtype=np.int64) * extender.weight * 100 // extender.max_score
        best = (total == total.max()).nonzero()[0]
        return int(rows[best[int(generator.random() * len(best))]])
