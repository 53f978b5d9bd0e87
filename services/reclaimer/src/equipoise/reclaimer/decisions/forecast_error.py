"""How far usage deviates from the typical day, learned from the deviations of the last days.

The first thing learned is the persistence: how much of a deviation remains some hours later. It is learned from all
nodes together, because one node has too few days. The second is the error: how far the usage of each node was above the
usage that was expected with this persistence, as levels of equal probability. If days repeat, both are small and the
typical day counts. If they do not, the last hours count.
"""

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, Rows, np
from equipoise.reclaimer.state.deviations import LEVELS, MEAN_STEPS, MEANS, RECENT_STEPS, STEPS_PER_DAY, STEPS_PER_HOUR

_MIN_SAMPLES = 24
"""Known hours of a node. With fewer, its errors are unknown."""

_REGULARIZATION = 0.01
"""Share of the mean square that is added to each square: similar means would otherwise get large opposite weights."""


class ForecastErrors(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of forecasts, as shares of the capacity."""

    persistence: Array
    """hours ahead × means: the weight of each mean in the expected deviation."""

    levels: Array
    """nodes × hours ahead × LEVELS, ascending: usage minus expected usage. NaN if not known yet."""


def learn_errors(deviations: Array, hours: int = SLOTS) -> ForecastErrors:
    """The errors of forecasts, from the deviations of the last days.

    `deviations` is nodes × steps, oldest first: usage minus usage on the typical day, as shares of the capacity. NaN is
    unknown, and so is every mean and hour that contains it.
    """
    persistence = persistence_of(learn_moments(deviations, hours).sum(axis=0))
    return ForecastErrors(persistence=persistence, levels=learn_levels(deviations, persistence))


def learn_moments(deviations: Array, hours: int) -> Array:
    """nodes × hours ahead × means × (means and the later deviation): sums of products of known values.

    The sums of nodes that are learned at different times can be added.
    """
    moments = np.zeros((len(deviations), hours, MEANS, MEANS + 1))
    instants = _instants(deviations, hours)
    if not len(instants):
        return moments
    means = _means(deviations, instants)
    for hour in range(hours):
        later = _later(deviations, instants, hour).mean(axis=2)
        values = np.concatenate([means, later[:, :, np.newaxis]], axis=2)
        values[np.isnan(values).any(axis=2)] = 0.0
        moments[:, hour] = values[:, :, :MEANS].transpose(0, 2, 1) @ values
    return moments


def persistence_of(moments: Array) -> Array:
    """hours ahead × means: the weights of least squares, from the sums of `learn_moments` over all nodes."""
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
    """nodes × hours ahead: the highest deviation that was expected in the last REMEMBERED_HOURS.

    `recent` is nodes × RECENT_STEPS: the last deviations, oldest first. With an unknown one, the result is unknown.
    """
    instants = np.arange(STEPS_PER_DAY + 1, RECENT_STEPS + 1)
    expected: Array = (_means(recent, instants) @ persistence.T).max(axis=1)
    return expected


def _means(deviations: Array, instants: Rows) -> Array:
    """nodes × instants × means: means of the deviations before each instant. NaN if one of the day is unknown."""
    sums = np.concatenate([np.zeros((len(deviations), 1)), np.cumsum(np.nan_to_num(deviations), axis=1)], axis=1)
    gaps = np.concatenate([np.zeros((len(deviations), 1)), np.cumsum(np.isnan(deviations), axis=1)], axis=1)
    means = np.stack([(sums[:, instants] - sums[:, instants - steps]) / steps for steps in MEAN_STEPS], axis=2)
    gaps_of_day = gaps[:, instants] - gaps[:, instants - STEPS_PER_DAY]
    known_means: Array = np.where((gaps_of_day > 0)[:, :, np.newaxis], np.nan, means)
    return known_means


def _instants(deviations: Array, hours: int) -> Rows:
    """The steps, one per hour, with a recorded day before them and all hours ahead recorded after them."""
    instants: Rows = np.arange(deviations.shape[1] - hours * STEPS_PER_HOUR, STEPS_PER_DAY - 1, -STEPS_PER_HOUR)[::-1]
    return instants


def _later(deviations: Array, instants: Rows, hour: int) -> Array:
    """nodes × instants × steps: the deviations in the hour that begins `hour` hours after each instant."""
    later: Array = deviations[:, instants[:, np.newaxis] + hour * STEPS_PER_HOUR + np.arange(STEPS_PER_HOUR)]
    return later


def _levels(error: Array) -> Array:
    """nodes × LEVELS: the levels of the errors (nodes × samples)."""
    count = (~np.isnan(error)).sum(axis=1)
    # NaN is sorted to the end.
    ordered = np.sort(error, axis=1)
    positions = ((np.arange(LEVELS) + 0.5) / LEVELS * count[:, np.newaxis]).astype(np.intp)
    levels = np.take_along_axis(ordered, positions, axis=1)
    levels[count < _MIN_SAMPLES * STEPS_PER_HOUR] = np.nan
    return levels
