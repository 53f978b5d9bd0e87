"""The lowest of what stays idle for some hours."""

import math

import numpy as np
import pytest

from equipoise.reclaimer.decisions.forecast import lowest_reclaimable


def lowest(expected: dict[int, float], worst: dict[int, float], *, hour: int, hours: int, margin: float = 0.0) -> float:
    """Of a node that may use 10; the other hours use 2."""

    def day(slots: dict[int, float]) -> np.ndarray:
        return np.array([[slots.get(slot, 2.0) for slot in range(24)]])

    found = lowest_reclaimable(np.array([10.0]), day(expected), day(worst), hour, hours, np.array([margin]))
    return float(found[0])


@pytest.mark.parametrize(
    ("about", "expected", "worst", "hours", "margin", "amount"),
    [
        ("a quiet day", {}, {}, 6, 0.0, 8.0),
        ("a peak in reach", {3: 6.0}, {}, 6, 0.0, 4.0),
        ("a peak after it", {8: 6.0}, {}, 6, 0.0, 8.0),
        ("the last hour counts", {4: 6.0}, {}, 6, 0.0, 4.0),
        ("a peak of a whole day", {21: 6.0}, {}, 24, 0.0, 4.0),
        ("the last day was worse", {3: 6.0}, {3: 7.0}, 6, 0.0, 3.0),
        ("a margin", {3: 6.0}, {}, 6, 1.0, 3.0),
        ("never below 0", {3: 60.0}, {}, 6, 0.0, 0.0),
        ("no sample of an hour of the last day", {3: 6.0}, {3: math.nan}, 6, 0.0, 4.0),
        ("no typical usage of an hour", {3: math.nan}, {3: 5.0}, 6, 0.0, 5.0),
    ],
)
def test_the_lowest_amount(
    about: str, expected: dict[int, float], worst: dict[int, float], hours: int, margin: float, amount: float
) -> None:
    """From 22:00 UTC."""
    assert lowest(expected, worst, hour=22, hours=hours, margin=margin) == amount, about


def test_an_hour_without_any_usage_is_unknown() -> None:
    """Unknown is not 0."""
    assert math.isnan(lowest({3: math.nan}, {3: math.nan}, hour=22, hours=6))
