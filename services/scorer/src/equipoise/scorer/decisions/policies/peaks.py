"""peaks: the Peaks plugin of Trimaran. First comes the node whose power draw the pod raises least.

A node draws k0 + k1·e^(k2·u) at a CPU utilization of u percent. The extra draw is spread over 0..100 by what the same
pod would cost elsewhere. Source: scheduler-plugins, pkg/trimaran/peaks.

Three things differ. In Trimaran a node that is unknown, has no model or would be overfull costs nothing and so comes
first; here it gets 0. Trimaran compares with the other candidates, so that the scores of two nodes hang on a third;
here it is the fleet's lowest and highest load and every model that count. And the pod's expected usage enters instead
of its requests.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, pod_share

_CPU = RESOURCES.index("cpu")

_LEAST = 1.0
"""Points of a node with room: 0 says keep away."""

_ALIKE = 0.05
"""Costs that differ by less than this part of the highest are not spread over all points: noise is no difference."""


class PowerModel(Section, frozen=True, kw_only=True):
    """What a node draws: k0 + k1·e^(k2·u), in any unit (the same for all), at a CPU utilization of u percent."""

    k0: float
    """It changes no order: only what a pod adds counts."""

    k1: Annotated[float, Meta(ge=-1e9, le=1e9)]

    k2: Annotated[float, Meta(ge=-5, le=5)]
    """Below 0 the first percent cost most, and nodes are filled; above 0 the last, and load is spread."""

    def __post_init__(self) -> None:
        if self.k1 * self.k2 < 0:
            raise ValueError("k1 and k2 must have the same sign: power does not fall as load rises")


class Peaks(ScoringPolicy, frozen=True, kw_only=True, tag="peaks", dict=True):
    """Scores by the power that the pod would add."""

    node_power_model: dict[str, PowerModel] = msgspec.field(default_factory=dict)
    """By name of the node."""

    default_power_model: PowerModel | None = PowerModel(
        k0=471.7412504314313, k1=-91.50493019588365, k2=-0.07186049052516228
    )
    """Of nodes that are not named: Trimaran's example, in watts. null: they get 0."""

    window: str = "15m"
    """By its name in `load.windows`; where it is not covered, the node is unknown."""

    def __post_init__(self) -> None:
        if not self._models:
            raise ValueError("peaks needs a nodePowerModel or a defaultPowerModel")

    @property
    def windows(self) -> tuple[str, ...]:
        return (self.window,)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        scores = np.zeros(len(nodes.load))
        if self.window not in nodes.windows:
            return scores
        at = nodes.windows.index(self.window)
        used, share = nodes.load[:, at, _CPU], pod_share(nodes, demand)[:, at, _CPU]
        k1, k2 = self._coefficients[:, self._positions(nodes.names)]
        room = (used + share <= 1.0) & ~np.isnan(k1)
        if not room.any():
            return scores
        cost = extra_power(used[room], share[room], k1[room], k2[room])
        elsewhere = self._elsewhere(nodes.fleet.load[:, at, _CPU], share[room])
        scores[room] = np.maximum(spread(cost, elsewhere), _LEAST)
        return scores

    def level(self, nodes: NodeLoads) -> Resources:
        """Full, as soon as one model draws ever less for more load; otherwise nodes are led nowhere."""
        return Resources(cpu=1.0) if any(model.k2 < 0 for model in self._models) else Resources()

    def _elsewhere(self, fleet: Array, shares: Array) -> Array:
        """What the pod may cost in this fleet: in its emptiest and its fullest node with room, by each model.

        The smallest and the largest of the nodes asked about stand for the sizes there are.
        """
        k1, k2 = self._coefficients[:, : len(self._models)]
        found = []
        for share in (shares.min(), shares.max()):
            with_room = fleet[fleet + share <= 1.0]
            if len(with_room):
                found += [extra_power(used, share, k1, k2) for used in (with_room.min(), with_room.max())]
        return np.concatenate(found) if found else np.zeros(1)

    @cached_property
    def _models(self) -> Sequence[PowerModel]:
        default = [] if self.default_power_model is None else [self.default_power_model]
        return [*self.node_power_model.values(), *default]

    @cached_property
    def _coefficients(self) -> Array:
        """k1, then k2, of each model; the last column is that of a node without one."""
        return np.array([*((model.k1, model.k2) for model in self._models), (np.nan, np.nan)]).T

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.node_power_model)}

    def _positions(self, names: Sequence[str]) -> Array:
        other = len(self.node_power_model)
        return np.fromiter(map(self._position.get, names, repeat(other)), np.intp, len(names))


def extra_power(used: Array, share: Array, k1: Array, k2: Array) -> Array:
    """k1·e^(k2·u)·(e^(k2·s) − 1): what s percent more cost at u percent. `used` and `share` are 0..1."""
    extra: Array = k1 * np.exp(k2 * 100.0 * used) * np.expm1(k2 * 100.0 * share)
    return extra


def spread(costs: Array, among: Array) -> Array:
    """100 for the lowest of the costs `among`, 0 for the highest, in proportion between; 100 when all are alike."""
    lowest, highest = among.min(), among.max()
    width = max(highest - lowest, _ALIKE * highest)
    if width <= 0.0:
        return np.full(len(costs), 100.0)
    points: Array = np.clip(100.0 * (1.0 - (costs - lowest) / width), 0.0, 100.0)
    return points
