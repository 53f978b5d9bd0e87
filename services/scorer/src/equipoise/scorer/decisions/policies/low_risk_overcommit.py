"""low_risk_overcommit: the LowRiskOverCommitment plugin of Trimaran. Least risk of a contended node first.

Two risks, weighed: that limits are used which together exceed the node, and that more is used than was asked for. For
the second, a Beta distribution with mean and deviation of the node's load tells how likely the load is to stay below
the requests. The pod itself enters through its requests and limits; what it will use does not count. Source:
scheduler-plugins, pkg/trimaran/lowriskovercommitment.

Two things differ. What is not measured counts as full (in Trimaran as no risk): without the collector's `statistics:
[deviation]`, up to the `window`, only the limits tell nodes apart. And see `load_risk` for nodes that use more than
their limits.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from equipoise.contracts.configuration.settings import Section, Share
from equipoise.contracts.load.correction import RESOURCES
from equipoise.scorer.decisions.policies.beta import beta_cdf, greatest_variance, matched
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic

_VARIANCE_ALLOWED = 0.99
"""Of the greatest variance: at all of it there is no Beta distribution."""


class RiskLimitWeights(Section, frozen=True, kw_only=True):
    """What the risk of the limits counts for, per resource; the risk of the load has the rest."""

    cpu: Share = 0.5
    memory: Share = 0.5


class LowRiskOvercommit(ScoringPolicy, frozen=True, kw_only=True, tag="low_risk_overcommit"):
    """Scores by the risk of overcommitment, in the resource where it is higher."""

    smoothing_window_size: Annotated[int, Meta(ge=1, le=10_000)] = 5
    """How many samples were averaged before they were measured: the deviation is multiplied by the root of it."""

    risk_limit_weights: RiskLimitWeights = RiskLimitWeights()

    window: str = "15m"
    """By its name in `load.windows`; where it is not covered, the node is unknown."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return ("deviation",)

    @property
    def windows(self) -> tuple[str, ...]:
        return (self.window,)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        """0 for all when the pod asks for nothing and has no limits: the policy has nothing to say of it."""
        if self.window not in nodes.windows or not (demand.requests.any() or demand.limits.any()):
            return np.zeros(len(nodes.load))
        at = nodes.windows.index(self.window)
        mean, base = nodes.load[:, at], nodes.base
        risk_of_limits = limit_risk(*with_pod(nodes, demand), base)
        risk_of_load = load_risk(
            mean,
            np.sqrt(self.smoothing_window_size) * np.clip(nodes.statistics["deviation"][:, at], 0.0, 1.0),
            requested=nodes.requested / base,
            limited=nodes.limited / base,
        )
        weights = np.array([getattr(self.risk_limit_weights, resource) for resource in RESOURCES])
        risk = weights * np.nan_to_num(risk_of_limits, nan=1.0) + (1.0 - weights) * np.nan_to_num(risk_of_load, nan=1.0)
        known = ~np.isnan(mean).all(axis=1)
        return np.where(known, np.clip(100.0 * (1.0 - risk.max(axis=1)), 0.0, 100.0), 0.0)


def with_pod(nodes: NodeLoads, demand: Demand) -> tuple[Array, Array]:
    """Requests, at most the base, and limits of each node with the pod."""
    return np.minimum(nodes.requested + demand.requests, nodes.base), nodes.limited + demand.limits


def limit_risk(requested: Array, limited: Array, base: Array) -> Array:
    """(L − C)/(L − R), the part of the limits beyond the requests that the node does not have; 0 for L ≤ C.

    Amounts in any unit; R ≤ C. NaN where C is.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(limited <= base, 0.0, (limited - base) / (limited - requested))


def load_risk(mean: Array, deviation: Array, *, requested: Array, limited: Array) -> Array:
    """1 − P(load ≤ requests), given that load ≤ limits where these lie below the base. Shares; NaN where P is unknown.

    P is the Beta distribution's of these moments. Without a deviation, and for a mean of 0 or 1, load is the mean.
    Nodes without any limit have no risk.

    That the load keeps to the limits is only believed of nodes that do so at least half of the time. Trimaran believes
    it always, and in a node far above its limits the risk falls again, down to 0, as the load rises.
    """
    mean = np.clip(mean, 0.0, 1.0)
    deviation = np.minimum(deviation, np.sqrt(_VARIANCE_ALLOWED * greatest_variance(mean)))
    alpha, beta = matched(mean, np.where(deviation > 0.0, deviation, np.nan))
    asked = np.minimum(requested, 1.0)
    bound = np.where((limited < 1.0) & (requested <= limited), limited, np.nan)
    below, keeping = beta_cdf(np.stack([asked, bound]), alpha, beta)
    within = np.where(deviation > 0.0, below, np.where(mean <= asked, 1.0, 0.0))
    believed = keeping >= 0.5
    within = np.where(believed, np.minimum(within / np.where(believed, keeping, 1.0), 1.0), within)
    within = np.where(limited == 0.0, 1.0, within)
    unknown = np.isnan(mean) | np.isnan(deviation) | np.isnan(requested)
    return np.where(unknown, np.nan, 1.0 - within)
