"""NodeResourcesFit and NodeResourcesBalancedAllocation: whether requests fit, and how well they lie.

Arrays are resources × nodes, whole numbers in the resource's smallest unit (millicores, bytes, pods). kube-scheduler
skips an extended resource that it ignores, or that the pod does not ask for: leave its row out.
"""

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NOT_ASKED_CPU_MILLI = 100
NOT_ASKED_MEMORY = 200 * 2**20
"""What a container that does not ask for a resource counts for in NodeResourcesFit's score; an explicit 0 stays 0."""


def needed(asked: Ints) -> Ints:
    """resources × 1: what has to be free for a pod that asks for so much of each resource.

    Nothing asked for needs nothing, even where more was placed than there is. Pods are a resource of which every pod
    asks for 1. A node that has less in all could never take the pod.
    """
    column: Ints = np.where(asked > 0, asked, np.iinfo(np.int64).min)[:, np.newaxis]
    return column


class FitScore(msgspec.Struct, frozen=True, kw_only=True):
    """NodeResourcesFit's scoring strategy. Raises ValueError for weights that kube-scheduler would not start with."""

    strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    weights: tuple[int, ...] = (1, 1)
    """1..100 per resource, in the order of the rows."""

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError("no resources configured")
        if not all(1 <= weight <= 100 for weight in self.weights):
            raise ValueError(f"weights {self.weights} are not all within 1..100")

    def score(self, allocatable: Ints, requested: Ints) -> Ints:
        """0..100 per node. `requested`: with the pod, and with the amounts that stand in for what was not asked."""
        if self.strategy == "LeastAllocated":
            good = np.maximum(allocatable - requested, 0)
        else:
            good = np.minimum(requested, allocatable)
        weights = np.array(self.weights)
        points = weights @ (good * 100 // np.maximum(allocatable, 1))
        # A node is not judged by a resource that it does not have.
        whole = weights.sum() if allocatable.all() else np.maximum(weights @ (allocatable > 0), 1)
        score: Ints = points // whole
        return score


def balanced_allocation(allocatable: Ints, requested: Ints, asked: Ints) -> Ints | None:
    """50..100 per node: 75 when the pod leaves CPU and memory as far apart as before, more when nearer to each other.

    Two resources. `requested`: without the pod, what was really asked. None: kube-scheduler skips this score, as the
    pod asks for nothing.
    """
    if not asked.any():
        return None
    share = np.empty((2, *requested.shape))
    share[0], share[1] = requested, requested + asked[:, np.newaxis]
    share /= np.maximum(allocatable, 1)
    np.minimum(share, 1.0, out=share)
    apart = np.abs(share[:, 0] - share[:, 1]) / 2.0
    if not allocatable.all():
        apart[:, ~allocatable.all(axis=0)] = 0.0  # a resource alone is in balance
    balance = ((1.0 - apart) * 100.0).astype(np.int64)
    score: Ints = 75 + (balance[1] - balance[0] >> 1)
    return score
