"""How far usage deviates from the typical day, learned from the deviations of the last days.

Two things are learned: how much of a deviation is still there some hours later, of all nodes together, since one node
has too few days; and how far each node then still was above what was expected, in levels of equal probability. Where
days repeat, the first is nearly nothing and the second small, so the typical day counts; where they do not, the last
hours count.
"""

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, Rows, np

STEPS_PER_HOUR = 4
"""Deviations are recorded every 15 minutes."""

LEVELS = 40
"""Levels of the error: each stands for 2.5 % of what happened."""

REMEMBERED_HOURS = 4
"""A deviation counts until it has been lower for this time: a short dip of usage is not offered for hours."""

_DAY = SLOTS * STEPS_PER_HOUR
_MEANS = (1, 6 * STEPS_PER_HOUR, _DAY)
"""Steps of the means from which a later deviation is expected: the latest value, six hours, a day."""

RECENT_STEPS = _DAY + REMEMBERED_HOURS * STEPS_PER_HOUR
"""Steps of deviations that `expected_deviation` reads."""

_MIN_SAMPLES = 24
"""Known hours of a node. With fewer, its errors are unknown."""

_REGULARIZATION = 0.01


class ForecastErrors(msgspec.Struct, frozen=True, kw_only=True):
    """As shares of the capacity."""

    persistence: Array
    """hours ahead × means: weights of the means in what is expected of the deviation."""

    levels: Array
    """nodes × hours ahead × LEVELS, ascending: usage above (or below) what was expected. NaN: not known yet."""


def learn_errors(deviations: Array, hours: int = SLOTS) -> ForecastErrors:
    """`deviations`: nodes × steps, oldest first: usage minus that of the typical day, as shares of the capacity.

    A NaN is unknown, and so is every mean and hour that contains one.
    """
    nodes, steps = deviations.shape
    persistence = np.zeros((hours, len(_MEANS)))
    levels = np.full((nodes, hours, LEVELS), np.nan)
    instants = np.arange(steps - hours * STEPS_PER_HOUR, _DAY - 1, -STEPS_PER_HOUR)[::-1]
    if not len(instants):
        return ForecastErrors(persistence=persistence, levels=levels)
    means = _means(deviations, instants)
    for hour in range(hours):
        ahead = instants[:, np.newaxis] + hour * STEPS_PER_HOUR + np.arange(STEPS_PER_HOUR)
        later = deviations[:, ahead]
        persistence[hour] = _persistence(means, later.mean(axis=2))
        error = later - (means @ persistence[hour])[:, :, np.newaxis]
        levels[:, hour] = _levels(error.reshape(nodes, -1))
    return ForecastErrors(persistence=persistence, levels=levels)


def expected_deviation(recent: Array, persistence: Array) -> Array:
    """nodes × hours ahead: the highest that was expected in the last `REMEMBERED_HOURS`.

    `recent`: the last RECENT_STEPS deviations, oldest first. Unknown with any of them.
    """
    instants = np.arange(_DAY + 1, RECENT_STEPS + 1)
    expected: Array = (_means(recent, instants) @ persistence.T).max(axis=1)
    return expected


def _means(deviations: Array, instants: Rows) -> Array:
    """nodes × instants × means, each of the steps before the instant."""
    sums = np.concatenate([np.zeros((len(deviations), 1)), np.cumsum(np.nan_to_num(deviations), axis=1)], axis=1)
    gaps = np.concatenate([np.zeros((len(deviations), 1)), np.cumsum(np.isnan(deviations), axis=1)], axis=1)
    means = np.stack([(sums[:, instants] - sums[:, instants - steps]) / steps for steps in _MEANS], axis=2)
    longest = gaps[:, instants] - gaps[:, instants - _DAY]
    known: Array = np.where((longest > 0)[:, :, np.newaxis], np.nan, means)
    return known


def _persistence(means: Array, later: Array) -> Array:
    """Least squares over all nodes and instants that are known."""
    known = ~(np.isnan(means).any(axis=2) | np.isnan(later))
    inputs, outcome = means[known], later[known]
    square = inputs.T @ inputs
    square = square + (_REGULARIZATION * np.trace(square) / len(square) + 1e-12) * np.eye(len(square))
    weights: Array = np.linalg.solve(square, inputs.T @ outcome)
    return weights


def _levels(error: Array) -> Array:
    """nodes × LEVELS of nodes × samples."""
    count = (~np.isnan(error)).sum(axis=1)
    # NaN is sorted to the end.
    ordered = np.sort(error, axis=1)
    places = ((np.arange(LEVELS) + 0.5) / LEVELS * count[:, np.newaxis]).astype(np.intp)
    levels = np.take_along_axis(ordered, places, axis=1)
    levels[count < _MIN_SAMPLES * STEPS_PER_HOUR] = np.nan
    return levels
