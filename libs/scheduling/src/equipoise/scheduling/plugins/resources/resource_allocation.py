"""The three scoring strategies of NodeResourcesFit: how full the requested resources would be."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.arrays import Flags, Ints


class ResourceWeight(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that is scored. The weight is 1..100."""

    name: str
    weight: int = 1


CPU_AND_MEMORY = (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))


class ShapePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the function of RequestedToCapacityRatio: percent used (0..100), and a score of 0..10."""

    utilization: int
    score: int


MAX_SHAPE_SCORE = 10

# Python numbers are converted in each operation, which takes as long as the operation on a hundred nodes.
_MAX_SCORE, _ZERO = np.array(MAX_SCORE), np.array(0)

Strategy = Callable[[Ints, Ints, Flags, Ints], Ints]
"""Requested with the pod, capacity, and whether the resource counts: resources × nodes; and the weight of each."""


def least_allocated(requested: Ints, capacity: Ints, counts: Flags, weights: Ints) -> Ints:
    """What is left, in percent: the emptier the better."""
    left = (capacity - requested) * MAX_SCORE
    return _weighted_mean(np.where(requested > capacity, 0, _divided(left, np.maximum(capacity, 1))), counts, weights)


def least_allocated_exactly(requested: Ints, capacity: Ints, weights: Ints, total: Ints) -> Ints:
    """The same if all resources count, capacities are above 0, and no amount is above EXACT.

    `total`: the sum of the weights, as an array without dimensions.
    """
    left = capacity - requested
    left *= _MAX_SCORE
    left //= capacity
    np.maximum(left, _ZERO, out=left)
    mean: Ints = weights.dot(left)
    mean //= total
    return mean


def most_allocated(requested: Ints, capacity: Ints, counts: Flags, weights: Ints) -> Ints:
    """What is used, in percent: the fuller the better."""
    used = np.minimum(requested, capacity)
    return _weighted_mean(_divided(used * MAX_SCORE, np.maximum(capacity, 1)), counts, weights)


def _divided(dividend: Ints, divisor: Ints) -> Ints:
    """Divides as Go, towards zero. The dividend is negative if a multiplication of more than 92 PB has overflowed."""
    found: Ints = np.where(dividend < 0, -(-dividend // divisor), dividend // divisor)
    return found


def requested_to_capacity_ratio(shape: Sequence[ShapePoint]) -> Strategy:
    """The score of what is used, by a piecewise linear function. A resource that scores 0 does not count."""

    def strategy(requested: Ints, capacity: Ints, counts: Flags, weights: Ints) -> Ints:
        total = np.zeros(len(requested[0]), dtype=np.int64)
        weight = np.zeros_like(total)
        for used, size, counting, each in zip(requested, capacity, counts, weights, strict=True):
            percent = np.where((used > size) | (size == 0), MAX_SCORE, used * MAX_SCORE // np.maximum(size, 1))
            scores = broken_linear(shape, percent)
            counted = counting & (scores > 0)
            total += np.where(counted, scores * each, 0)
            weight += np.where(counted, each, 0)
        # math.Round of Go: halves away from zero.
        mean: Ints = np.floor(total / np.maximum(weight, 1) + 0.5).astype(np.int64)
        return mean

    return strategy


def broken_linear(shape: Sequence[ShapePoint], percent: Ints) -> Ints:
    """0..100. Constant outside of the points; between two of them with the division of Go, towards zero."""
    factor = MAX_SCORE // MAX_SHAPE_SCORE
    result = np.full_like(percent, shape[-1].score * factor)
    for right in range(len(shape) - 1, 0, -1):
        left_point, right_point = shape[right - 1], shape[right]
        rise = (right_point.score - left_point.score) * factor
        steps = (percent - left_point.utilization) * abs(rise) // (right_point.utilization - left_point.utilization)
        inside = percent <= right_point.utilization
        result = np.where(inside, left_point.score * factor + np.sign(rise) * steps, result)
    result = np.where(percent <= shape[0].utilization, shape[0].score * factor, result)
    found: Ints = result.astype(np.int64)
    return found


def _weighted_mean(scores: Ints, counts: Flags, weights: Ints) -> Ints:
    """0 where no resource counts."""
    if np.count_nonzero(counts) == counts.size:
        mean: Ints = np.dot(weights, scores)
        mean //= np.add.reduce(weights)
        return mean
    mean = weights @ np.where(counts, scores, 0) // np.maximum(weights @ counts, 1)
    return mean
