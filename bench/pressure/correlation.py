"""Rank correlations (Spearman), with equal ranks for equal values."""

import math
from collections.abc import Sequence


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, 1 for the lowest; equal values have their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for position in order[first : last + 1]:
            result[position] = (first + last) / 2 + 1
        first = last + 1
    return result


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """−1..1; NaN if one side has a single value."""
    first, second = ranks(left), ranks(right)
    mean = (len(first) + 1) / 2
    products = sum((a - mean) * (b - mean) for a, b in zip(first, second, strict=True))
    squares = [sum((value - mean) ** 2 for value in side) for side in (first, second)]
    return products / math.sqrt(squares[0] * squares[1]) if all(squares) else math.nan
