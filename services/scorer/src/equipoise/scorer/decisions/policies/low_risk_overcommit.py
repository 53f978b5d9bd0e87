"""low_risk_overcommit: the LowRiskOverCommitment plugin of Trimaran, which prefers the node with the lowest risk.

The score combines two risks: that the limits of the pods exceed the node, and that usage exceeds the requests. The
second is computed with a Beta distribution of the mean and deviation of the node's load. The pod counts with its
requests and limits, not with its expected usage. Source: scheduler-plugins, pkg/trimaran/lowriskovercommitment.

It differs from Trimaran in two ways. A value that is not measured counts as full risk (in Trimaran as none): without
the collector's `statistics: [deviation]`, up to the `window`, nodes differ by their limits only. And `load_risk` is
different for nodes that use more than their limits.
"""

from typing import Annotated, ClassVar

from msgspec import Meta

from equipoise.contracts.configuration.settings import Section, Share
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Statistic
from equipoise.scorer.decisions.policies.beta import beta_cdf, greatest_variance, matched
from equipoise.scorer.decisions.policies.policy import SingleWindowPolicy

_VARIANCE_ALLOWED = 0.99
"""The share of the greatest variance that is used. For the greatest variance itself there is no Beta distribution."""


class RiskLimitWeights(Section, frozen=True, kw_only=True):
    """The weight of the limit risk per resource; the load risk has the remainder."""

    cpu: Share = 0.5
    memory: Share = 0.5


class LowRiskOvercommit(SingleWindowPolicy, frozen=True, kw_only=True, tag="low_risk_overcommit"):
    """Scores by the risk of overcommitment of the resource with the higher risk."""

    smoothing_window_size: Annotated[int, Meta(ge=1, le=10_000)] = 5
    """The number of samples that the metric source averages. The deviation is multiplied by its square root."""

    risk_limit_weights: RiskLimitWeights = RiskLimitWeights()

    statistics: ClassVar[tuple[Statistic, ...]] = ("deviation",)

    def score_window(self, nodes: CandidateNodes, demand: Demand, at: int) -> Array:
        """0 for all nodes if the pod has neither requests nor limits."""
        if not (demand.requests.any() or demand.limits.any()):
            return np.zeros(len(nodes.load))
        mean, base = nodes.load[:, at], nodes.base
        risk_of_limits = limit_risk(*with_pod(nodes, demand), base)
        risk_of_load = load_risk(
            mean,
            np.sqrt(self.smoothing_window_size) * np.clip(nodes.statistics["deviation"][:, at], 0.0, 1.0),
            requests=nodes.requests / base,
            limits=nodes.limits / base,
        )
        weights = np.array([getattr(self.risk_limit_weights, resource) for resource in RESOURCES])
        risk = weights * np.nan_to_num(risk_of_limits, nan=1.0) + (1.0 - weights) * np.nan_to_num(risk_of_load, nan=1.0)
        known = ~np.isnan(mean).all(axis=1)
        return np.where(known, np.clip(100.0 * (1.0 - risk.max(axis=1)), 0.0, 100.0), 0.0)


def with_pod(nodes: CandidateNodes, demand: Demand) -> tuple[Array, Array]:
    """The requests (at most the base) and the limits of each node with the pod."""
    return np.minimum(nodes.requests + demand.requests, nodes.base), nodes.limits + demand.limits


def limit_risk(requests: Array, limits: Array, base: Array) -> Array:
    """(L − C)/(L − R), with limits L, requests R ≤ C and base C: the part of L − R that exceeds the node; 0 for L ≤ C.

    Amounts are in any unit. NaN where C is NaN.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(limits <= base, 0.0, (limits - base) / (limits - requests))


def load_risk(mean: Array, deviation: Array, *, requests: Array, limits: Array) -> Array:
    """1 − P(load ≤ requests). If the limits are below the base, P is conditional on load ≤ limits.

    All values are shares. P is the probability of the Beta distribution with these moments; the result is NaN where it
    is unknown. Without a deviation, and for a mean of 0 or 1, load is the mean. Nodes without any limit have no risk.

    The condition load ≤ limits is used only for nodes that meet it at least half of the time. Trimaran always uses it:
    on a node far above its limits the risk then falls to 0 as the load rises.
    """
    mean = np.clip(mean, 0.0, 1.0)
    deviation = np.minimum(deviation, np.sqrt(_VARIANCE_ALLOWED * greatest_variance(mean)))
    alpha, beta = matched(mean, np.where(deviation > 0.0, deviation, np.nan))
    requested = np.minimum(requests, 1.0)
    limited = np.where((limits < 1.0) & (requests < limits), limits, np.nan)
    p_requests, p_limits = beta_cdf(np.stack([requested, limited]), alpha, beta)
    p_limits = np.where((limits < 1.0) & (requests == limits), p_requests, p_limits)  # half the time if all are equal
    p = np.where(deviation > 0.0, p_requests, np.where(mean <= requested, 1.0, 0.0))
    conditional = p_limits >= 0.5
    p = np.where(conditional, np.minimum(p / np.where(conditional, p_limits, 1.0), 1.0), p)
    p = np.where(limits == 0.0, 1.0, p)
    unknown = np.isnan(mean) | np.isnan(deviation) | np.isnan(requests)
    return np.where(unknown, np.nan, 1.0 - p)
