"""The three scoring strategies of NodeResourcesFit, which score a node by the used share of its resources."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.arrays import Flags, Ints


class ResourceWeight(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that is scored, with a weight of 1..100."""

    name: str
    weight: int = 1


CPU_AND_MEMORY = (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))


class ShapePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the function of RequestedToCapacityRatio: a used share of 0..100 percent, and its score of 0..10."""

    utilization: int
    score: int


MAX_SHAPE_SCORE = 10

# Python numbers are converted in each operation, which takes as long as the operation on a hundred nodes.
_MAX_SCORE, _ZERO = np.array(MAX_SCORE), np.array(0)

Strategy = Callable[[Ints, Ints, Flags, Ints], Ints]
"""Scores nodes (0..100) by four arguments: the requests with the pod, the capacity and whether the resource counts,
which are resources × nodes; and the weights of the resources."""


def least_allocated(requested: Ints, capacity: Ints, counts: Flags, weights: Ints) -> Ints:
    """The unused share in percent, so that the emptiest node is the best."""
    unused = (capacity - requested) * MAX_SCORE
    return _weighted_mean(np.where(requested > capacity, 0, _divided(unused, np.maximum(capacity, 1))), counts, weights)


def least_allocated_exactly(requested: Ints, capacity: Ints, weights: Ints, total: Ints) -> Ints:
    """The result of `least_allocated` if all resources count, capacities are above 0, and no amount is above EXACT.

    `total`: the sum of the weights, as an array without dimensions.
    """
    unused = capacity - requested
    unused *= _MAX_SCORE
    unused //= capacity
    np.maximum(unused, _ZERO, out=unused)
    mean: Ints = weights.dot(unused)
    mean //= total
    return mean


def most_allocated(requested: Ints, capacity: Ints, counts: Flags, weights: Ints) -> Ints:
    """The used share in percent, so that the fullest node is the best."""
    used = np.minimum(requested, capacity)
    return _weighted_mean(_divided(used * MAX_SCORE, np.maximum(capacity, 1)), counts, weights)


def _divided(dividend: Ints, divisor: Ints) -> Ints:
    """The quotient rounded towards zero, as in Go.

    The dividend is negative if its multiplication has overflowed, which amounts above 92 PB cause.
    """
    quotient: Ints = np.where(dividend < 0, -(-dividend // divisor), dividend // divisor)
    return quotient


def requested_to_capacity_ratio(shape: Sequence[ShapePoint]) -> Strategy:
    """Scores the used share by a piecewise linear function. A resource that scores 0 does not count."""

    def strategy(requested: Ints, capacity: Ints, counts: Flags, weights: Ints) -> Ints:
        total = np.zeros(len(requested[0]), dtype=np.int64)
        total_weight = np.zeros_like(total)
        for used, size, counting, weight in zip(requested, capacity, counts, weights, strict=True):
            percent = np.where((used > size) | (size == 0), MAX_SCORE, used * MAX_SCORE // np.maximum(size, 1))
            scores = broken_linear(shape, percent)
            scoring = counting & (scores > 0)
            total += np.where(scoring, scores * weight, 0)
            total_weight += np.where(scoring, weight, 0)
        # As with Go's math.Round, a half is rounded away from zero.
        mean: Ints = np.floor(total / np.maximum(total_weight, 1) + 0.5).astype(np.int64)
        return mean

    return strategy


def broken_linear(shape: Sequence[ShapePoint], percent: Ints) -> Ints:
    """The score (0..100) of each used share in percent, by the function through the points of `shape`.

    It is constant outside of the points. Between two points it is rounded towards zero, as in Go.
    """
    factor = MAX_SCORE // MAX_SHAPE_SCORE
    result = np.full_like(percent, shape[-1].score * factor)
    for right in range(len(shape) - 1, 0, -1):
        left_point, right_point = shape[right - 1], shape[right]
        rise = (right_point.score - left_point.score) * factor
        steps = (percent - left_point.utilization) * abs(rise) // (right_point.utilization - left_point.utilization)
        inside = percent <= right_point.utilization
        result = np.where(inside, left_point.score * factor + np.sign(rise) * steps, result)
    result = np.where(percent <= shape[0].utilization, shape[0].score * factor, result)
    scores: Ints = result.astype(np.int64)
    return scores


def _weighted_mean(scores: Ints, counts: Flags, weights: Ints) -> Ints:
    """The mean over the resources that count, for each node; 0 where no resource counts."""
    if np.count_nonzero(counts) == counts.size:
        mean: Ints = np.dot(weights, scores)
        mean //= np.add.reduce(weights)
        return mean
    mean = weights @ np.where(counts, scores, 0) // np.maximum(weights @ counts, 1)
    return mean
