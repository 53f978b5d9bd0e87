"""Errors of the forecast, learned from the deviations of the last days."""

import numpy as np
import pytest

from equipoise.reclaimer.decisions.forecast_error import expected_deviation, learn_errors
from equipoise.reclaimer.state.deviations import RECENT_STEPS

STEPS_PER_DAY, HOURS = 96, 6


def constant(*levels: float, days: int = 4) -> np.ndarray:
    return np.repeat(np.array(levels)[:, np.newaxis], days * STEPS_PER_DAY, axis=1)


def noise(nodes: int, days: int = 8) -> np.ndarray:
    return np.random.default_rng(1).normal(0.0, 0.1, (nodes, days * STEPS_PER_DAY))


def test_a_constant_deviation_is_expected_to_stay() -> None:
    learned = learn_errors(constant(0.1, -0.1, 0.2), HOURS)
    expected = expected_deviation(constant(0.1)[:, -RECENT_STEPS:], learned.persistence)
    assert expected == pytest.approx(np.full((1, HOURS), 0.1), rel=0.02)
    assert abs(learned.levels).max() < 0.005


def test_noise_is_expected_to_vanish_and_its_size_is_the_error() -> None:
    learned = learn_errors(noise(20), HOURS)
    assert abs(expected_deviation(noise(1)[:, -RECENT_STEPS:], learned.persistence)).max() < 0.02
    assert learned.levels[:, :, 33].mean() == pytest.approx(0.1, rel=0.1)  # the 84th percentile


def test_a_deviation_counts_until_it_has_been_lower_for_four_hours() -> None:
    persistence = np.array([[1.0, 0.0, 0.0]])
    recent = np.zeros((2, RECENT_STEPS))
    recent[0, -16], recent[1, -17] = 0.5, 0.5
    assert expected_deviation(recent, persistence).tolist() == [[0.5], [0.0]]


@pytest.mark.parametrize("days", [0, 1, 2])
def test_without_more_than_two_days_nothing_is_known(days: int) -> None:
    assert np.isnan(learn_errors(constant(0.1, days=days), HOURS).levels).all()


def test_a_node_without_values_is_unknown_and_does_not_change_the_others() -> None:
    deviations = noise(3)
    alone = learn_errors(deviations[1:], HOURS)
    deviations[0] = np.nan
    learned = learn_errors(deviations, HOURS)
    assert np.isnan(learned.levels[0]).all()
    assert learned.levels[1:] == pytest.approx(alone.levels)
    assert np.isnan(expected_deviation(deviations[:, -RECENT_STEPS:], learned.persistence)[0]).all()
