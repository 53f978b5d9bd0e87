"""water_level: leads every node to the level of the cluster, the fullest that still lies below it first.

Light pods go to nodes that nearly reach the level, heavy ones to those far below it. Source: the water-level
scheduler of Hello (its document repairs the formula of Trimaran's TargetLoadPacking, and takes the target from the
cluster's own level instead of a fixed one).
"""

from typing import Annotated, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from equipoise.contracts.demand import WATER_LEVEL, Link
from equipoise.contracts.load import RESOURCES
from equipoise.contracts.messages import Resources
from equipoise.contracts.settings import Section
from equipoise.scorer.loads import Array, Demand, NodeLoads, expected_load

Weight = Annotated[float, Meta(ge=0)]


class ResourceWeights(Section, frozen=True, kw_only=True):
    """How much each resource counts, relative to the other."""

    cpu: Weight = 1.0
    memory: Weight = 0.5
    """Less than cpu: memory hardly moves with the time of day, and requests guard it better."""


class WaterLevel(Section, frozen=True, kw_only=True, tag_field="name", tag="water_level"):
    """Scores by the distance to the cluster's level."""

    cluster_cpu_min_node_weight: Weight = 0.2
    """w in level = (average + w·minimum)/(1 + w): the higher, the more the emptiest node pulls the level down."""

    window_weights: dict[str, Weight] = msgspec.field(default_factory=lambda: {"15m": 0.5, "1h": 0.3, "1d": 0.2})
    """By name of a window in `load.windows`; what a node has not measured, or nobody configured, drops out."""

    resource_weights: ResourceWeights = ResourceWeights()

    demand_chain: ClassVar[tuple[Link, ...]] = WATER_LEVEL

    def __post_init__(self) -> None:
        if not any(self.window_weights.values()):
            raise ValueError("windowWeights needs at least one window with a weight above 0")
        if not self.resource_weights.cpu and not self.resource_weights.memory:
            raise ValueError("resourceWeights needs at least one weight above 0")

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(name for name, weight in self.window_weights.items() if weight > 0)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        """Weighted mean, over windows and resources that are known, of the distance score of each."""
        expected = 100.0 * expected_load(nodes, demand)
        scores = distance_score(expected, 100.0 * self._levels(nodes)[np.newaxis, :, :])
        weights = np.where(np.isnan(scores), 0.0, self._weights(nodes.windows)[np.newaxis, :, :])
        total = weights.sum(axis=(1, 2))
        weighted = (np.where(np.isnan(scores), 0.0, scores) * weights).sum(axis=(1, 2))
        mean: Array = np.divide(weighted, total, out=np.zeros_like(total), where=total > 0)
        return np.clip(mean, 0.0, 100.0)

    def level(self, nodes: NodeLoads) -> Resources:
        """The level in the first of its windows that anybody has measured."""
        levels = self._levels(nodes)
        for name in self.windows:
            if name in nodes.windows and not np.isnan(row := levels[nodes.windows.index(name)]).all():
                return Resources(
                    **{resource: float(value) for resource, value in zip(RESOURCES, row, strict=True) if value == value}
                )
        return Resources()

    def _levels(self, nodes: NodeLoads) -> Array:
        """windows × resources, 0..1: the level of all fresh nodes, each node counting alike; NaN when there is none."""
        known = ~np.isnan(nodes.fleet)
        count = known.sum(axis=0)
        average = np.divide(
            np.where(known, nodes.fleet, 0.0).sum(axis=0), count, out=np.full(count.shape, np.nan), where=count > 0
        )
        minimum = np.fmin.reduce(nodes.fleet, axis=0, initial=np.inf)
        w = self.cluster_cpu_min_node_weight
        return np.where(count > 0, (average + minimum * w) / (1.0 + w), np.nan)

    def _weights(self, windows: tuple[str, ...]) -> Array:
        return np.outer(
            [self.window_weights.get(name, 0.0) for name in windows],
            [getattr(self.resource_weights, resource) for resource in RESOURCES],
        )


def distance_score(expected: Array, level: Array) -> Array:
    """0..100 for a node expected at t percent while the cluster's level is c percent. NaN where either is unknown.

    t ≤ c: (100 − c)·t/c + c. c < t ≤ 100: c·(100 − t)/(100 − c). t > 100: 0. Both ends are the limits of the
    formula: at c = 0 a node that stays empty gets 100 and every other 0; at c ≥ 100 all that is not overfull gets 100.
    """
    c = np.clip(level, 0.0, 100.0)
    t = expected
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        below = np.where(c > 0, (100.0 - c) * t / c + c, 100.0)
        above = np.where(c < 100, c * (100.0 - t) / (100.0 - c), 0.0)
    scores = np.where(t <= c, below, np.where(t <= 100.0, above, 0.0))
    return np.where(np.isnan(t) | np.isnan(level), np.nan, scores)
