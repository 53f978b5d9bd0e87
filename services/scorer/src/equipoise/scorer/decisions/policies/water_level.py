"""water_level: brings every node to the level of the cluster, the fullest node below it first.

Small pods go to nodes just below the level, large ones to nodes far below it. Source: the water-level scheduler of
Hello, which repairs the formula of Trimaran's TargetLoadPacking and uses the cluster's own level as its target.
"""

from typing import ClassVar

import msgspec

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.demand import WATER_LEVEL, EstimateSource
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import MAX_SHARE, CandidateNodes, Demand, resources
from equipoise.scorer.decisions.further_points import with_further_points
from equipoise.scorer.decisions.policies.policy import ScoringPolicy, Weight


class ResourceWeights(Section, frozen=True, kw_only=True):
    """The weight of each resource, relative to the other."""

    cpu: Weight = 1.0
    memory: Weight = 0.5
    """The weight of memory: less than that of cpu, because memory usage changes little over the day, and requests limit
    it better."""


class WaterLevel(ScoringPolicy, frozen=True, kw_only=True, tag="water_level"):
    """Scores by the distance to the cluster's level."""

    cluster_cpu_min_node_weight: Weight = 0.2
    """w in level = (average + w·minimum)/(1 + w): the higher, the more the emptiest node lowers the level."""

    window_weights: dict[str, Weight] = msgspec.field(default_factory=lambda: {"15m": 0.5, "1h": 0.3, "1d": 0.2})
    """The weights by name of a window in `load.windows`. A window that is unknown for a node does not count."""

    resource_weights: ResourceWeights = ResourceWeights()

    further_weights: dict[str, Weight] = msgspec.field(default_factory=dict)
    """Weights of further resources by their names in `load.resources`, compared with 1 for cpu and memory together."""

    def __post_init__(self) -> None:
        if not any(self.window_weights.values()):
            raise ValueError("windowWeights needs at least one window with a weight above 0")
        if not self.resource_weights.cpu and not self.resource_weights.memory:
            raise ValueError("resourceWeights needs at least one weight above 0")

    demand_chain: ClassVar[tuple[EstimateSource, ...]] = WATER_LEVEL

    @property
    def further(self) -> tuple[str, ...]:
        return tuple(self.further_weights)

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(name for name, weight in self.window_weights.items() if weight > 0)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        """The distance score of cpu and memory, and the points of further resources."""
        return with_further_points(self._distance_scores(nodes, demand), nodes, self.further_weights)

    def _distance_scores(self, nodes: CandidateNodes, demand: Demand) -> Array:
        """Weighted mean, over the known windows and resources, of the distance score of each."""
        rows = [index for index, name in enumerate(nodes.windows) if self.window_weights.get(name, 0.0) > 0.0]
        if not rows:
            return np.zeros(len(nodes.load))
        # windows × resources × nodes: every operation runs along the nodes, and over all columns at once.
        load, levels = nodes.load.transpose(1, 2, 0)[rows], self._levels(nodes)[rows][:, :, np.newaxis]
        share = np.minimum(demand.usage[rows][:, :, np.newaxis] / nodes.base.T, MAX_SHARE)
        scores = distance_score(100.0 * (load + share), 100.0 * levels)
        weights = np.outer(
            [self.window_weights[nodes.windows[row]] for row in rows],
            [getattr(self.resource_weights, resource) for resource in RESOURCES],
        )[:, :, np.newaxis]
        known = ~np.isnan(scores)
        if known.all():
            known_mean: Array = np.minimum((weights * scores).sum(axis=(0, 1)) / weights.sum(), 100.0)
            return known_mean
        total = (weights * known).sum(axis=(0, 1))
        weighted = (weights * np.where(known, scores, 0.0)).sum(axis=(0, 1))
        mean = np.divide(weighted, total, out=np.zeros_like(total), where=total > 0)
        weighted_mean: Array = np.minimum(mean, 100.0)  # rounding may exceed 100
        return weighted_mean

    def level(self, nodes: CandidateNodes) -> Resources:
        """The level in the first of its windows that is measured anywhere."""
        levels = self._levels(nodes)
        for name in self.windows:
            if name in nodes.windows and not np.isnan(row := levels[nodes.windows.index(name)]).all():
                return resources(row)
        return Resources()

    def _levels(self, nodes: CandidateNodes) -> Array:
        """windows × resources, 0..1: the level of all fresh nodes; NaN where there is none."""
        w = self.cluster_cpu_min_node_weight
        return (nodes.cluster.mean + nodes.cluster.minimum * w) / (1.0 + w)


def distance_score(expected: Array, level: Array) -> Array:
    """0..100 for an expected load of t percent and a cluster level of c percent. NaN where either is unknown.

    t ≤ c: (100 − c)·t/c + c. c < t ≤ 100: c·(100 − t)/(100 − c). t > 100: 0. At both ends the limit of the formula
    counts: at c = 0 a node that remains empty scores 100, every other 0; at c ≥ 100 every node up to t = 100 gets 100.
    """
    c = np.clip(level, 0.0, 100.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Each side is a line; the ends of the formula are lines as well.
        rise, start = np.where(c > 0.0, (100.0 - c) / c, 0.0), np.where(c > 0.0, c, 100.0)
        fall = np.where(c < 100.0, c / (100.0 - c), 0.0)
        scores = np.where(expected <= c, rise * expected + start, fall * (100.0 - expected))
    return np.where(np.isnan(level), np.nan, np.clip(scores, 0.0, 100.0))
