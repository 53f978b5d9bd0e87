"""target_load_packing: the TargetLoadPacking plugin of Trimaran. Fills each node up to a fixed CPU utilization.

Of the nodes at or below the target, the fullest is the best; of those above it, the emptiest. Sources:
scheduler-plugins, pkg/trimaran/targetloadpacking; for the original formula, the document of the water-level scheduler.

Trimaran adds the usage of the pods of the last 60 s to the measured mean, and stops long before its 15-minute mean
includes that usage. This policy adds it for as long as the mean does not include it (`load.compensation`).
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.demand import TARGET_LOAD_PACKING, EstimateSource
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, expected_load
from equipoise.scorer.decisions.policies.policy import SingleWindowPolicy

_CPU = RESOURCES.index("cpu")


class TargetLoadPacking(SingleWindowPolicy, frozen=True, kw_only=True, tag="target_load_packing"):
    """Scores a node by the CPU utilization that it would have with the pod."""

    target_utilization: Annotated[float, Meta(gt=0, lt=100)] = 40.0
    """Percent. Recommended: 10 points below the highest acceptable utilization."""

    formula: Literal["published", "original"] = "published"
    """The score of a node just above the target: with `published` it is the target itself, with `original` it is 50.

    With `original` and a target below 50, such a node scores higher than an idle node.
    """

    demand_chain: ClassVar[tuple[EstimateSource, ...]] = TARGET_LOAD_PACKING

    def score_window(self, nodes: CandidateNodes, demand: Demand, at: int) -> Array:
        expected = 100.0 * expected_load(nodes, demand)[:, at, _CPU]
        above = self.target_utilization if self.formula == "published" else 50.0
        return np.nan_to_num(packing_score(expected, self.target_utilization, above=above))

    def level(self, nodes: CandidateNodes) -> Resources:
        """The target."""
        return Resources(cpu=self.target_utilization / 100.0)


def packing_score(expected: Array, target: float, *, above: float) -> Array:
    """0..100 for an expected utilization of P percent and a target of X percent (0 < X < 100). NaN where P is.

    P ≤ X: (100 − X)·P/X + X. X < P ≤ 100: above·(100 − P)/(100 − X). P > 100: 0.
    """
    below = (100.0 - target) * expected / target + target
    beyond = above * (100.0 - expected) / (100.0 - target)
    return np.where(expected <= target, below, np.maximum(beyond, 0.0))
