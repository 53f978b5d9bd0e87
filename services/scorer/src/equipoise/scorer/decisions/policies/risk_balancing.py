"""risk_balancing: the LoadVariationRiskBalancing plugin of Trimaran, which prefers the node with the lowest risk.

Risk is half the node's load with the pod plus half the standard deviation of its load, for the resource with the higher
risk. Source: scheduler-plugins, pkg/trimaran/loadvariationriskbalancing and resourcestats.go (the formula in the
proposal is different).

The collector must measure the deviation: `statistics: [deviation]`, up to the `window`. A resource with an unknown mean
or deviation does not count, and a node without a known resource scores 0. (Trimaran reads a missing mean or deviation
as 0 if the other is known.)
"""

import math
from typing import Annotated, ClassVar

from msgspec import Meta

from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Statistic, expected_load
from equipoise.scorer.decisions.policies.policy import SingleWindowPolicy


class RiskBalancing(SingleWindowPolicy, frozen=True, kw_only=True, tag="risk_balancing"):
    """Scores by mean and deviation of the load."""

    safe_variance_margin: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    """The factor of the deviation."""

    safe_variance_sensitivity: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    """This root of the deviation (a share, 0..1) is used: with a root above 1, small deviations count more. 0: a
    deviation below 1 does not count."""

    statistics: ClassVar[tuple[Statistic, ...]] = ("deviation",)

    def score_window(self, nodes: CandidateNodes, demand: Demand, at: int) -> Array:
        mean = np.clip(expected_load(nodes, demand)[:, at], 0.0, 1.0)
        deviation = np.clip(nodes.statistics["deviation"][:, at], 0.0, 1.0)
        exponent = 1.0 / self.safe_variance_sensitivity if self.safe_variance_sensitivity else math.inf
        risk = (mean + np.minimum(self.safe_variance_margin * deviation**exponent, 1.0)) / 2.0
        scores: Array = 100.0 * (1.0 - np.fmax.reduce(risk, axis=1))
        return np.nan_to_num(scores)
