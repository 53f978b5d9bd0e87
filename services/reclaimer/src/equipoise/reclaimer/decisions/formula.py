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
    """One resource of the pods of a node that are neither of the bands batch nor free. Finished pods are none."""

    requests: Array
    """The requests of the pods; of a mid pod, those of mid resources. 0 without a request."""

    usage: Array
    """NaN: not measured."""

    exclusive: Flags
    """Has cores of its own (QoS class LSE): under the policy `usage` its requests count. Of memory always False."""

    unplaced: float = 0.0
    """Usage of measured pods whose placement is not known: some may be of high priority."""

    def total(self, policy: MemoryPolicy) -> float:
        """The amount of all of them together, as the policy counts."""
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
    """`threshold`: percent of the capacity. Requests do not contain the usage of the system: it does not count then."""
    return ReclaimedTerms(
        capacity=capacity,
        margin=capacity * (100 - threshold) / 100,
        system=0.0 if policy == "request" else system,
        reserved=reserved,
        high_priority=pods.total(policy),
    )


def reclaimed(terms: ReclaimedTerms, *, cap: float | None = None, taken: float = 0.0) -> float:
    """`cap`: percent of the capacity. `taken`: what other programs have allocated of it."""
    idle = terms.capacity - terms.margin - max(terms.system, terms.reserved) - terms.high_priority
    return max(0.0, min(idle, _capped(terms.capacity, cap)) - taken)


def mid_amount(*, lowest: float, capacity: float, node_usage: float, cap: float) -> float:
    """`lowest`: what stays idle for a day. Not more than what is idle now, which a wrong forecast may exceed."""
    return max(0.0, min(lowest, capacity - node_usage, _capped(capacity, cap)))


def _capped(capacity: float, percent: float | None) -> float:
    return math.inf if percent is None else capacity * percent / 100
