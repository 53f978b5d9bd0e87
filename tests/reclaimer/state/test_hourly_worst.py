"""The highest usage of nodes in each hour of the last day."""

import numpy as np
import pytest
from builders import GIB, NOW

from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.reclaimer.state.hourly_worst import HourlyWorst, published

HOUR = 3_600.0
SLOT = int(NOW // HOUR) % 24


def used(cores: float) -> np.ndarray:
    return np.array([cores, cores * GIB])


def cores(worst: HourlyWorst, now: float, uid: str = "u") -> list[float]:
    return [float(amount) for amount in worst.day("a", uid, now)[0]]


def test_the_highest_of_an_hour_is_kept_for_a_day() -> None:
    worst = HourlyWorst()
    worst.observe("a", "u", used(2.0), NOW)
    worst.observe("a", "u", used(5.0), NOW + 1)
    worst.observe("a", "u", used(3.0), NOW + 2)
    assert cores(worst, NOW + 23 * HOUR)[SLOT] == 5.0
    assert np.isnan(cores(worst, NOW + 24 * HOUR)[SLOT])


def test_an_hour_without_measurement_is_unknown() -> None:
    worst = HourlyWorst()
    worst.observe("a", "u", used(2.0), NOW)
    worst.observe("a", "u", used(3.0), NOW + 2 * HOUR)
    assert np.isnan(cores(worst, NOW + 2 * HOUR)[(SLOT + 1) % 24])


def test_a_shorter_day_has_shorter_hours() -> None:
    worst = HourlyWorst(day=24 * 60.0)
    worst.observe("a", "u", used(5.0), NOW)
    slot = int(NOW // 60) % 24
    assert cores(worst, NOW + 23 * 60)[slot] == 5.0
    assert np.isnan(cores(worst, NOW + 24 * 60)[slot])


def test_another_machine_of_the_same_name_begins_again() -> None:
    worst = HourlyWorst()
    worst.observe("a", "u", used(2.0), NOW)
    assert np.isnan(cores(worst, NOW, uid="other")).all()


@pytest.mark.parametrize("absurd", [1e39, 1e308, np.inf])
def test_usage_that_no_machine_has_is_no_measurement(absurd: float) -> None:
    """In 32 bits it would be infinite, and no number can be published of that."""
    worst = HourlyWorst()
    worst.observe("a", "u", np.array([2.0, absurd]), NOW)

    assert message(worst, NOW).highest["memory"] == [None] * 24
    assert message(worst, NOW).highest["cpu"][SLOT] == 2.0

    worst.observe("a", "u", used(3.0), NOW)
    assert cores(worst, NOW)[SLOT] == 3.0


def message(worst: HourlyWorst, at: float) -> ReclaimedNode:
    [highest] = published([worst.day("a", "u", at)])
    return ReclaimedNode(node="a", uid="u", evaluated_at=at, highest=highest, epoch=1, sequence=1)


def test_another_reclaimer_continues_with_what_was_published() -> None:
    worst, later = HourlyWorst(), HourlyWorst()
    worst.observe("a", "u", used(2.0), NOW)
    worst.observe("a", "u", used(3.0), NOW + HOUR)
    later.restore(message(worst, NOW + HOUR), NOW + 2 * HOUR)
    later.observe("a", "u", used(1.0), NOW + 2 * HOUR)
    expected = {SLOT: 2.0, (SLOT + 1) % 24: 3.0, (SLOT + 2) % 24: 1.0}
    found = cores(later, NOW + 2 * HOUR)
    assert {slot: amount for slot, amount in enumerate(found) if not np.isnan(amount)} == expected


def test_what_was_published_more_than_a_day_ago_is_not_used() -> None:
    worst, later = HourlyWorst(), HourlyWorst()
    worst.observe("a", "u", used(2.0), NOW)
    later.restore(message(worst, NOW), NOW + 25 * HOUR)
    assert np.isnan(cores(later, NOW + 25 * HOUR)).all()


def test_impossible_amounts_are_unknown() -> None:
    later = HourlyWorst()
    highest = {"cpu": [-1.0, float("inf"), 2.0], "memory": [None] * 30}
    later.restore(ReclaimedNode(node="a", uid="u", evaluated_at=NOW, highest=highest, epoch=1, sequence=1), NOW)
    assert [amount for amount in cores(later, NOW) if not np.isnan(amount)] == [2.0]
