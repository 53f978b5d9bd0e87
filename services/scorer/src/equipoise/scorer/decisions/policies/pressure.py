"""pressure: prefers nodes whose pods do not wait for CPU or disks; it is meant as a part of a `mix`.

It knows nothing of the pod, and cannot predict the pressure after it: the other parts of the mix predict the load. A
node of unknown pressure scores like the one with the highest pressure that is known: it is not better than any other,
and the other parts of a mix still decide. Where no pressure is measured, the policy changes no order.
"""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, expected_load
from equipoise.scorer.decisions.policies.policy import SingleWindowPolicy

LEAST = 1.0
"""The score at `limit`. It is not 0, because a node that scores 0 in one part of a mix scores 0 in the mix."""


class PressurePolicy(SingleWindowPolicy, frozen=True, kw_only=True, tag="pressure"):
    """Scores by the share of time in which pods of the node wait for CPU or disks; waiting at the own CPU limit does
    not count."""

    window: str = "5m"
    """A window in which the load of the node must be known, and at most 100 % with the pod."""

    limit: Annotated[float, Meta(gt=0, le=100)] = 50.0
    """The pressure, in percent of time, from which on a node scores least."""

    def score_window(self, nodes: CandidateNodes, demand: Demand, at: int) -> Array:
        waiting = np.full(len(nodes.load), np.nan) if nodes.waiting is None else nodes.waiting
        waiting = np.where(np.isnan(waiting), nodes.cluster.highest_waiting, waiting)
        part = np.nan_to_num(np.minimum(waiting / (self.limit / 100.0), 1.0), nan=0.5)
        load = expected_load(nodes, demand)[:, at]
        usable = (load <= 1.0).all(axis=1)  # false for an unknown load
        scores: Array = np.where(usable, LEAST + (100.0 - LEAST) * (1.0 - part), 0.0)
        return scores
