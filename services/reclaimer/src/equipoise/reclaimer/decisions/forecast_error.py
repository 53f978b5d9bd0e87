"""How far usage deviates from the typical day, learned from the deviations of the last days.

Two things are learned: how much of a deviation is still there some hours later, of all nodes together, since one node
has too few days; and how far each node then still was above what was expected, in levels of equal probability. Where
days repeat, the first is nearly nothing and the second small, so the typical day counts; where they do not, the last
hours count.
"""

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, Rows, np
from equipoise.reclaimer.state.deviations import LEVELS, MEAN_STEPS, MEANS, RECENT_STEPS, STEPS_PER_DAY, STEPS_PER_HOUR

_MIN_SAMPLES = 24
"""Known hours of a node. With fewer, its errors are unknown."""

_REGULARIZATION = 0.01


class ForecastErrors(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of forecasts, as shares of the capacity."""

    persistence: Array
    """hours ahead × means: weights of the means in what is expected of the deviation."""

    levels: Array
    """nodes × hours ahead × LEVELS, ascending: usage above (or below) what was expected. NaN: not known yet."""


def learn_errors(deviations: Array, hours: int = SLOTS) -> ForecastErrors:
    """`deviations`: nodes × steps, oldest first: usage minus that of the typical day, as shares of the capacity.

    A NaN is unknown, and so is every mean and hour that contains one.
    """
    persistence = persistence_of(learn_moments(deviations, hours).sum(axis=0))
    return ForecastErrors(persistence=persistence, levels=learn_levels(deviations, persistence))


def learn_moments(deviations: Array, hours: int) -> Array:
    """nodes × hours ahead × means × (means and the later deviation): sums of their products, of what is known.

    Those of nodes that are learned at different times can be added.
    """
    moments = np.zeros((len(deviations), hours, MEANS, MEANS + 1))
    instants = _instants(deviations, hours)
    if not len(instants):
        return moments
    means = _means(deviations, instants)
    for hour in range(hours):
        both = np.concatenate([means, _later(deviations, instants, hour).mean(axis=2)[:, :, np.newaxis]], axis=2)
        both[np.isnan(both).any(axis=2)] = 0.0
        moments[:, hour] = both[:, :, :MEANS].transpose(0, 2, 1) @ both
    return moments


def persistence_of(moments: Array) -> Array:
    """hours ahead × means, by least squares: of the moments of all nodes together."""
    square = moments[:, :, :MEANS]
    size = np.trace(square, axis1=1, axis2=2)[:, np.newaxis, np.newaxis] / MEANS
    weights: Array = np.linalg.solve(square + (_REGULARIZATION * size + 1e-12) * np.eye(MEANS), moments[:, :, MEANS:])
    return weights[:, :, 0]


def learn_levels(deviations: Array, persistence: Array) -> Array:
    """nodes × hours ahead × LEVELS, as in ForecastErrors."""
    nodes, hours = len(deviations), len(persistence)
    levels = np.full((nodes, hours, LEVELS), np.nan)
    instants = _instants(deviations, hours)
    if not len(instants):
        return levels
    means = _means(deviations, instants)
    for hour in range(hours):
        error = _later(deviations, instants, hour) - (means @ persistence[hour])[:, :, np.newaxis]
        levels[:, hour] = _levels(error.reshape(nodes, -1))
    return levels


def expected_deviation(recent: Array, persistence: Array) -> Array:
    """nodes × hours ahead: the highest that was expected in the last REMEMBERED_HOURS.

    `recent`: the last RECENT_STEPS deviations, oldest first. Unknown with any of them.
    """
    instants = np.arange(STEPS_PER_DAY + 1, RECENT_STEPS + 1)
    expected: Array = (_means(recent, instants) @ persistence.T).max(axis=1)
    return expected


def _means(deviations: Array, instants: Rows) -> Array:
    """nodes × instants × means, each of the steps before the instant."""
    sums = np.concatenate([np.zeros((len(deviations), 1)), np.cumsum(np.nan_to_num(deviations), axis=1)], axis=1)
    gaps = np.concatenate([np.zeros((len(deviations), 1)), np.cumsum(np.isnan(deviations), axis=1)], axis=1)
    means = np.stack([(sums[:, instants] - sums[:, instants - steps]) / steps for steps in MEAN_STEPS], axis=2)
    longest = gaps[:, instants] - gaps[:, instants - STEPS_PER_DAY]
    known: Array = np.where((longest > 0)[:, :, np.newaxis], np.nan, means)
    return known


def _instants(deviations: Array, hours: int) -> Rows:
    """Steps, one an hour, before which a day is recorded, and after which all hours ahead are."""
    instants: Rows = np.arange(deviations.shape[1] - hours * STEPS_PER_HOUR, STEPS_PER_DAY - 1, -STEPS_PER_HOUR)[::-1]
    return instants


def _later(deviations: Array, instants: Rows, hour: int) -> Array:
    """nodes × instants × steps of the hour that begins this many hours after each instant."""
    later: Array = deviations[:, instants[:, np.newaxis] + hour * STEPS_PER_HOUR + np.arange(STEPS_PER_HOUR)]
    return later


def _levels(error: Array) -> Array:
    """nodes × LEVELS of nodes × samples."""
    count = (~np.isnan(error)).sum(axis=1)
    # NaN is sorted to the end.
    ordered = np.sort(error, axis=1)
    places = ((np.arange(LEVELS) + 0.5) / LEVELS * count[:, np.newaxis]).astype(np.intp)
    levels = np.take_along_axis(ordered, places, axis=1)
    levels[count < _MIN_SAMPLES * STEPS_PER_HOUR] = np.nan
    return levels
