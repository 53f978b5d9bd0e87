"""Scores of the plugins NodeResourcesFit, NodeResourcesBalancedAllocation, TaintToleration and PodTopologySpread.

Amounts are resources × nodes, integers in the smallest unit of the resource (millicores, bytes, pods). kube-scheduler
skips extended resources that it ignores or that the pod does not request: omit their rows.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.contracts.kubernetes.taints import tolerates
from equipoise.lab.model.trace import TraceTaint

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

UNSCHEDULABLE = TraceTaint(key="node.kubernetes.io/unschedulable")
"""Pods that tolerate this taint may be scheduled to cordoned nodes."""

_MAX_SKEW = 3
"""Of the default constraint over hostnames."""


class FitScore(msgspec.Struct, frozen=True, kw_only=True):
    """The scoring strategy of NodeResourcesFit. Raises ValueError for weights that kube-scheduler rejects."""

    strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    weights: tuple[int, ...] = (1, 1)
    """1..100 per resource, in the order of the rows."""

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError("no resources configured")
        if not all(1 <= weight <= 100 for weight in self.weights):
            raise ValueError(f"weights {self.weights} are not all within 1..100")

    def score(self, allocatable: Ints, requested: Ints) -> Ints:
        """0..100 per node. `requested`: including the pod, with defaults for missing requests."""
        if self.strategy == "LeastAllocated":
            preferred = np.maximum(allocatable - requested, 0)
        else:
            preferred = np.minimum(requested, allocatable)
        weights = np.array(self.weights)
        points = weights @ (preferred * 100 // np.maximum(allocatable, 1))
        # Resources that a node does not have are ignored.
        total = weights.sum() if allocatable.all() else np.maximum(weights @ (allocatable > 0), 1)
        score: Ints = points // total
        return score


def balanced_allocation(allocatable: Ints, requested: Ints, requests: Ints) -> Ints | None:
    """50..100 per node: 75 when the pod does not change the difference of CPU and memory, more when it reduces it.

    Two resources. `requested`: without the pod and without defaults. None: the pod has no `requests`, so kube-scheduler
    skips this score.
    """
    if not requests.any():
        return None
    share = np.empty((2, *requested.shape))
    share[0], share[1] = requested, requested + requests[:, np.newaxis]
    share /= np.maximum(allocatable, 1)
    np.minimum(share, 1.0, out=share)
    difference = np.abs(share[:, 0] - share[:, 1]) / 2.0
    if not allocatable.all():
        difference[:, ~allocatable.all(axis=0)] = 0.0  # a single resource is balanced
    balance = ((1.0 - difference) * 100.0).astype(np.int64)
    score: Ints = 75 + (balance[1] - balance[0] >> 1)
    return score


def excluded_by_taints(taints: Sequence[Sequence[TraceTaint]], tolerations: Sequence[Toleration]) -> Flags:
    """Per node: whether it has a NoSchedule or NoExecute taint that is not tolerated. `taints`: of each node."""
    return _untolerated(taints, tolerations, prefer=False) > 0


def avoided_taints(taints: Sequence[Sequence[TraceTaint]], tolerations: Sequence[Toleration]) -> Ints:
    """Per node: number of PreferNoSchedule taints that are not tolerated. `taints`: of each node."""
    return _untolerated(taints, tolerations, prefer=True)


def _untolerated(taints: Sequence[Sequence[TraceTaint]], tolerations: Sequence[Toleration], *, prefer: bool) -> Ints:
    counts = [
        sum((taint.effect == "PreferNoSchedule") == prefer and not tolerates(tolerations, taint) for taint in of_node)
        for of_node in taints
    ]
    return np.array(counts, dtype=np.int64)


def taint_scores(counts: Ints) -> Ints:
    """0..100 per candidate from its `avoided_taints`: 0 for the highest count, 100 if all counts are 0."""
    score: Ints = 100 - 100 * counts // max(int(counts.max()), 1)
    return score


def spread_scores(counts: Ints) -> Ints:
    """0..100 per candidate from its number of sibling pods, with the default constraints of PodTopologySpread."""
    weight = math.log(len(counts) + 2)
    highest, lowest = int(counts.max()), int(counts.min())
    # By number of siblings: there are far fewer numbers than nodes.
    raw = [math.floor(count * weight + (_MAX_SKEW - 1) + 0.5) for count in range(highest + 1)]
    points = [100 * (raw[highest] + raw[lowest] - each) // raw[highest] for each in raw]
    score: Ints = np.array(points).take(counts)
    return score


def affinity_scores(weights: Ints) -> Ints:
    """0..100 per candidate from the sum of the weights of the preferred terms of node affinity that it matches."""
    score: Ints = 100 * weights // max(int(weights.max()), 1)
    return score
