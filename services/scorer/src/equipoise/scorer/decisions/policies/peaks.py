"""peaks: the Peaks plugin of Trimaran. The node whose power consumption the pod raises least scores highest.

A node consumes k0 + k1·e^(k2·u) at a CPU utilization of u percent. The additional power is scaled to 0..100 between the
lowest and the highest cost of the same pod in the cluster. Source: scheduler-plugins, pkg/trimaran/peaks.

It differs from Trimaran in three ways. In Trimaran, a node that is unknown, has no model or would be overcommitted
costs nothing and scores highest; here it scores 0. Trimaran scales between the costs of the candidates, so one more
candidate changes all scores; here the scale follows from all models and the lowest and highest load of the cluster. And
the pod's expected usage counts, not its requests.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, pod_share
from equipoise.scorer.decisions.policies.policy import SingleWindowPolicy

_CPU = RESOURCES.index("cpu")

_MIN_SCORE = 1.0
"""The lowest score of a usable node: 0 means unknown or overcommitted."""

_MIN_WIDTH = 0.05
"""Minimum difference between costs, as a share of the highest, that is scaled to 100 points: less is noise."""


class PowerModel(Section, frozen=True, kw_only=True):
    """The power of a node: k0 + k1·e^(k2·u) at a CPU utilization of u percent. One unit for all nodes."""

    k0: float
    """Has no effect on scores: only the additional power counts."""

    k1: Annotated[float, Meta(ge=-1e9, le=1e9)]

    k2: Annotated[float, Meta(ge=-5, le=5)]
    """The exponent of the power. If it is negative, the first percent cost most and nodes are filled; if
    positive, the last percent cost most and load is spread."""

    def __post_init__(self) -> None:
        if self.k1 * self.k2 < 0:
            raise ValueError("k1 and k2 must have the same sign: power does not fall as load rises")


class Peaks(SingleWindowPolicy, frozen=True, kw_only=True, tag="peaks", dict=True):
    """Scores by the additional power."""

    node_power_model: dict[str, PowerModel] = msgspec.field(default_factory=dict)
    """The power models by name of the node."""

    default_power_model: PowerModel | None = PowerModel(
        k0=471.7412504314313, k1=-91.50493019588365, k2=-0.07186049052516228
    )
    """The power model of all other nodes: Trimaran's example, in watts. null: they score 0."""

    def __post_init__(self) -> None:
        if not self._models:
            raise ValueError("peaks needs a nodePowerModel or a defaultPowerModel")

    def score_window(self, nodes: CandidateNodes, demand: Demand, at: int) -> Array:
        scores = np.zeros(len(nodes.load))
        used, share = nodes.load[:, at, _CPU], pod_share(nodes, demand)[:, at, _CPU]
        k1, k2 = self._coefficients[:, self._positions(nodes.names)]
        usable = (used + share <= 1.0) & ~np.isnan(k1)
        if not usable.any():
            return scores
        cost = extra_power(used[usable], share[usable], k1[usable], k2[usable])
        costs = self._cost_range(nodes.cluster.load[:, at, _CPU], share[usable])
        scores[usable] = np.maximum(scaled(cost, costs), _MIN_SCORE)
        return scores

    def level(self, nodes: CandidateNodes) -> Resources:
        """Full if any model fills nodes (k2 below 0); else the policy aims at no level."""
        return Resources(cpu=1.0) if any(model.k2 < 0 for model in self._models) else Resources()

    def _cost_range(self, loads: Array, shares: Array) -> Array:
        """The cost of the pod on the cluster's emptiest and fullest usable nodes (`loads`), for each model.

        `shares` are those of the candidates: the smallest and the largest represent the node sizes in the cluster.
        """
        k1, k2 = self._coefficients[:, : len(self._models)]
        costs = []
        for share in (shares.min(), shares.max()):
            usable = loads[loads + share <= 1.0]
            if len(usable):
                costs += [extra_power(used, share, k1, k2) for used in (usable.min(), usable.max())]
        return np.concatenate(costs) if costs else np.zeros(1)

    @cached_property
    def _models(self) -> Sequence[PowerModel]:
        default = [] if self.default_power_model is None else [self.default_power_model]
        return [*self.node_power_model.values(), *default]

    @cached_property
    def _coefficients(self) -> Array:
        """k1, then k2, of each model; the last column is NaN, for nodes without a model."""
        return np.array([*((model.k1, model.k2) for model in self._models), (np.nan, np.nan)]).T

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.node_power_model)}

    def _positions(self, names: Sequence[str]) -> Array:
        default = len(self.node_power_model)
        return np.fromiter(map(self._position.get, names, repeat(default)), np.intp, len(names))


def extra_power(used: Array, share: Array, k1: Array, k2: Array) -> Array:
    """k1·e^(k2·u)·(e^(k2·s) − 1): the power of s percent more at u percent. `used` and `share` are 0..1."""
    extra: Array = k1 * np.exp(k2 * 100.0 * used) * np.expm1(k2 * 100.0 * share)
    return extra


def scaled(costs: Array, costs_in_cluster: Array) -> Array:
    """100 for the lowest cost in the cluster, 0 for the highest, linear between; 100 for all if they are equal."""
    lowest, highest = costs_in_cluster.min(), costs_in_cluster.max()
    width = max(highest - lowest, _MIN_WIDTH * highest)
    if width <= 0.0:
        return np.full(len(costs), 100.0)
    points: Array = np.clip(100.0 * (1.0 - (costs - lowest) / width), 0.0, 100.0)
    return points
