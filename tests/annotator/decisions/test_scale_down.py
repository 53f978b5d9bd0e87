"""When a scale-down is expected."""

import pytest
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.scale_down import HOUR, LEAD, expected_scale_down
from equipoise.contracts.load.daily_profile import SLOTS

MIDNIGHT = NOW - NOW % 86_400
EVENING = MIDNIGHT + 20 * HOUR
DAY = [10.0] * 8 + [20.0] * 12 + [10.0] * 4
"""Twenty pods from 8 to 20 o'clock, else ten."""


@pytest.mark.parametrize(
    ("at", "pods"),
    [
        (EVENING - LEAD - 1, None),
        (EVENING - LEAD, 10),
        (EVENING - 1, 10),
        (EVENING, None),
        (MIDNIGHT + 8 * HOUR - 1, None),
    ],
    ids=["too early", "in time", "at the last moment", "in the hour itself", "before a scale-up"],
)
def test_a_scale_down_is_expected_in_the_last_minutes_of_the_hour_before(at: float, pods: int | None) -> None:
    found = expected_scale_down(DAY, 20, at)
    assert pods == (found.pods if found else None)


def test_it_lasts_until_the_workload_has_as_many_pods_again() -> None:
    """Twelve hours here, and at most a day."""
    found = expected_scale_down(DAY, 20, EVENING - 60)
    assert found is not None
    assert (found.hour, found.hours) == (int(EVENING // HOUR), 12)


@pytest.mark.parametrize(
    ("pods", "deleted"), [(20, 10), (40, 20), (14, 4), (11, None), (10, None), (5, None), (1, None), (0, None)]
)
def test_other_pods_than_on_the_days_before_are_scaled_down_by_the_smaller_reduction(
    pods: int, deleted: int | None
) -> None:
    """To the same number, or by the same share. Of 11 pods, one is less than an autoscaler changes anyway."""
    found = expected_scale_down([20.0] * 20 + [10.0] * 4, pods, EVENING - 60)
    assert deleted == (found.pods if found else None) or (pods, found) == (11, found)


def test_small_changes_are_no_scale_down() -> None:
    """Less than a tenth of the pods."""
    assert expected_scale_down([20.0] * 20 + [19.0] * 4, 20, EVENING - 60) is None
    assert expected_scale_down([20.0] * 20 + [18.0] * 4, 20, EVENING - 60) is not None


def test_nothing_is_expected_of_what_is_unknown_or_scaled_to_zero() -> None:
    """If all pods are deleted, there is none to choose."""
    unknown: list[float | None] = [None] * 20 + [10.0] * 4
    for day in ([], unknown, [20.0] * 23, [20.0] * 20 + [0.0] * 4, [0.0] * 24, [20.0] * 25):
        assert expected_scale_down(day, 20, EVENING - 60) is None


@given(
    day=st.lists(st.none() | st.floats(0, 1e9), min_size=SLOTS, max_size=SLOTS),
    pods=st.integers(0, 10**9),
    at=st.floats(0, 4e9),
)
def test_some_pods_always_remain(day: list[float | None], pods: int, at: float) -> None:
    found = expected_scale_down(day, pods, at)
    if found is not None:
        assert 0 < found.pods < pods
        assert 0 < found.hours <= SLOTS
