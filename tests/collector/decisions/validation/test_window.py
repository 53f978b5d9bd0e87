"""The share of a window that samples cover."""

import pytest

from equipoise.collector.decisions.validation.window import coverage


@pytest.mark.parametrize(
    ("count", "length", "interval", "expected"),
    [
        (20, 300, 15, 1.0),
        (16, 300, 15, 16 / 19),
        (4, 4, 1, 1.0),
        (3, 4, 1, 1.0),
        (2, 4, 1, 2 / 3),
        (5, 300, 60, 1.0),
        (2, 1.333, 1, 1.0),
        (1, 1.333, 1, 0.5),
        (3_600, 86_400, 15, 3_600 / 5_759),
    ],
)
def test_coverage_is_the_share_of_expected_samples(
    count: float, length: float, interval: float, expected: float
) -> None:
    """Without the one sample that the window's ends may miss."""
    assert expected == coverage(count, length, interval)
