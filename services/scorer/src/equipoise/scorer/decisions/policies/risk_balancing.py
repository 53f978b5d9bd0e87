"""risk_balancing: the LoadVariationRiskBalancing plugin of Trimaran. Least risk first: mean load and its variation.

A node's load with the pod and the standard deviation of its load count half each, in the resource where they are worse.
Source: scheduler-plugins, pkg/trimaran/loadvariationriskbalancing and resourcestats.go (the proposal has another
formula).

The collector has to measure the deviation: `statistics: [deviation]`, up to the `window`. A resource of which mean or
deviation is unknown does not count, and a node without any that is known gets 0. (Trimaran reads either as 0 when the
other is there.)
"""

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic, expected_load


class RiskBalancing(ScoringPolicy, frozen=True, kw_only=True, tag="risk_balancing"):
    """Scores by mean and deviation of the load."""

    safe_variance_margin: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    """What the deviation is multiplied by."""

    safe_variance_sensitivity: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    """Which root of the deviation (a share, 0..1) counts: above 1 small ones weigh more. 0: none below 1 counts."""

    window: str = "15m"
    """By its name in `load.windows`; where it is not covered, the node is unknown."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return ("deviation",)

    @property
    def windows(self) -> tuple[str, ...]:
        return (self.window,)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        if self.window not in nodes.windows:
            return np.zeros(len(nodes.load))
        at = nodes.windows.index(self.window)
        mean = np.clip(expected_load(nodes, demand)[:, at], 0.0, 1.0)
        deviation = np.clip(nodes.statistics["deviation"][:, at], 0.0, 1.0)
        exponent = 1.0 / self.safe_variance_sensitivity if self.safe_variance_sensitivity else math.inf
        risk = (mean + np.minimum(self.safe_variance_margin * deviation**exponent, 1.0)) / 2.0
        scores: Array = 100.0 * (1.0 - np.fmax.reduce(risk, axis=1))
        return np.nan_to_num(scores)
