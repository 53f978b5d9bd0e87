"""A node from which pods would have to be removed, and the choice between several of them."""

import math
from collections.abc import Sequence

import msgspec

from equipoise.scheduling.model.pod_info import PodInfo

LOWEST_PRIORITY = -(2**31)


class PreemptionCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """The pod fits on the node once the victims are removed."""

    node: str
    victims: tuple[PodInfo, ...]
    """The most important one first; never empty."""

    violations: int = 0
    """Victims whose removal violates a PodDisruptionBudget."""


def importance(pod: PodInfo) -> tuple[float, float]:
    """Lower is more important: a higher priority, then an earlier start. Without a start: the least."""
    started = pod.pod.status.start_time
    return -pod.priority, math.inf if started is None else started.timestamp()


def best_candidate(candidates: Sequence[PreemptionCandidate]) -> PreemptionCandidate | None:
    """The best candidate by the rules of kube-scheduler; each decides between those that are equal by the rules before.

    1. fewest violations of PodDisruptionBudgets; 2. lowest priority of the most important victim; 3. lowest sum of
    priorities; 4. fewest victims; 5. latest start of the victims with the highest priority; 6. the first one.
    """
    return min(candidates, key=cost, default=None)


def cost(candidate: PreemptionCandidate) -> tuple[float, ...]:
    """What the rules 1 to 5 compare, in their order."""
    victims = candidate.victims
    return (
        candidate.violations,
        victims[0].priority,
        # Every pod counts by at least 1, so that a sum of negative priorities does not prefer more victims.
        sum(pod.priority - LOWEST_PRIORITY for pod in victims),
        len(victims),
        -_earliest_start(victims),
    )


def _earliest_start(victims: Sequence[PodInfo]) -> float:
    """The earliest start of those with the highest priority. Infinite if one has not started: as if it started now."""
    highest = max(pod.priority for pod in victims)
    return min(importance(pod)[1] for pod in victims if pod.priority == highest)


def candidates_wanted(nodes: int, percentage: int, absolute: int) -> int:
    """Number of candidates that ends the search: `minCandidateNodesPercentage`, `minCandidateNodesAbsolute`."""
    return min(nodes, max(nodes * percentage // 100, absolute))
