"""What is idle on a node now, per resource: Koordinator's formulas of batch resources.

reclaimed = capacity - margin - max(system, reserved) - high_priority, at least 0. Two defects of Koordinator are not
copied: a pod without a metric counts with its request under every policy, and a mid pod requests mid resources.
"""

import math

import msgspec

from equipoise.contracts.messages.reclaimed import ReclaimedTerms
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.reclaimer.decisions.strategy import MemoryPolicy


class HighPriorityPods(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of the pods of a node, without those of the bands batch and free, and without finished ones."""

    requests: Array
    """The request of each pod; for a mid pod, that of mid resources. 0 without a request."""

    usage: Array
    """The usage of each pod; NaN if it was not measured."""

    exclusive: Flags
    """Whether each pod has cores of its own (QoS class LSE), so that its request counts under the policy `usage`.

    Always False for memory.
    """

    unplaced: float = 0.0
    """Usage of measured pods whose placement is not known, since some may be of high priority."""

    def total(self, policy: MemoryPolicy) -> float:
        """The amount that all pods together take under the policy."""
        if policy == "request":
            return float(self.requests.sum())
        if policy == "maxUsageRequest":
            counted = np.fmax(self.usage, self.requests)
        else:
            counted = np.where(np.isnan(self.usage) | self.exclusive, self.requests, self.usage)
        return float(counted.sum()) + self.unplaced


def terms_of(
    *,
    capacity: float,
    threshold: float,
    system: float,
    reserved: float,
    pods: HighPriorityPods,
    policy: MemoryPolicy,
) -> ReclaimedTerms:
    """The terms of the formula. `threshold`: percent of the capacity. Under the policy `request`, the usage of the
    system does not count, because it is not requested."""
    return ReclaimedTerms(
        capacity=capacity,
        margin=capacity * (100 - threshold) / 100,
        system=0.0 if policy == "request" else system,
        reserved=reserved,
        high_priority=pods.total(policy),
    )


def reclaimed(terms: ReclaimedTerms, *, cap: float | None = None, taken: float = 0.0) -> float:
    """The reclaimed amount, at least 0. `cap`: percent of the capacity. `taken`: what other programs have allocated."""
    idle = terms.capacity - terms.margin - max(terms.system, terms.reserved) - terms.high_priority
    return max(0.0, min(idle, _capped(terms.capacity, cap)) - taken)


def mid_amount(*, lowest: float, capacity: float, node_usage: float, cap: float) -> float:
    """The amount of the band mid, at least 0. `lowest`: what stays idle for a day, as forecast.

    It is not above what is idle now, even if the forecast is.
    """
    return max(0.0, min(lowest, capacity - node_usage, _capped(capacity, cap)))


def _capped(capacity: float, percent: float | None) -> float:
    return math.inf if percent is None else capacity * percent / 100
