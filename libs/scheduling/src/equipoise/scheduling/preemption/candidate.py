"""A node from which pods would have to be removed, and the choice between several of them."""

import math
from collections.abc import Sequence

import msgspec

from equipoise.scheduling.model.pod_info import PodInfo

LOWEST_PRIORITY = -(2**31)


class PreemptionCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A node on which the pod fits once the victims are removed."""

    node: str
    victims: tuple[PodInfo, ...]
    """The pods to remove, the most important one first. Never empty."""

    violations: int = 0
    """The number of victims whose removal violates a PodDisruptionBudget."""


def importance(pod: PodInfo) -> tuple[float, float]:
    """A sort key that is lower for more important pods: those of higher priority, then those that started earlier. A
    pod that has not started is the least important of its priority."""
    started = pod.pod.status.start_time
    return -pod.priority, math.inf if started is None else started.timestamp()


def best_candidate(candidates: Sequence[PreemptionCandidate]) -> PreemptionCandidate | None:
    """The best candidate by the rules of kube-scheduler. Each rule decides between candidates that are equal so far.

    1. fewest violations of PodDisruptionBudgets; 2. lowest priority of the most important victim; 3. lowest sum of
    priorities; 4. fewest victims; 5. latest start of the victims with the highest priority; 6. the first one.
    """
    return min(candidates, key=cost, default=None)


def cost(candidate: PreemptionCandidate) -> tuple[float, ...]:
    """The values that the rules 1 to 5 compare, in this order."""
    victims = candidate.victims
    return (
        candidate.violations,
        victims[0].priority,
        # No pod counts as negative, so that a sum over more victims of negative priority is not lower.
        sum(pod.priority - LOWEST_PRIORITY for pod in victims),
        len(victims),
        -_earliest_start(victims),
    )


def _earliest_start(victims: Sequence[PodInfo]) -> float:
    """The earliest start of the victims with the highest priority. A pod that has not started counts as infinitely
    late."""
    highest = max(pod.priority for pod in victims)
    return min(importance(pod)[1] for pod in victims if pod.priority == highest)


def candidates_wanted(nodes: int, percentage: int, absolute: int) -> int:
    """The number of candidates after which the search ends, from `minCandidateNodesPercentage` and
    `minCandidateNodesAbsolute`."""
    return min(nodes, max(nodes * percentage // 100, absolute))
