"""Learns from the deviations of some nodes at a time, so that no step takes long."""

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.numeric import Array, np
from equipoise.reclaimer.decisions.forecast_error import (
    expected_deviation,
    learn_levels,
    learn_moments,
    persistence_of,
)
from equipoise.reclaimer.state.deviations import RECENT_STEPS, STEPS, Deviations

LEARNED_AT_A_TIME = 20
"""The number of nodes whose errors are learned in one step, which takes about 10 ms."""

EXPECTED_AT_A_TIME = 250
"""The number of nodes whose expected deviations are updated in one step."""


def expect(deviations: Deviations, now: float) -> bool:
    """Update the expected deviations of some nodes. Returns False if those of all nodes are of this quarter hour."""
    rows = deviations.outdated(EXPECTED_AT_A_TIME, now)
    if not len(rows):
        return False
    recent, persistence = deviations.latest(rows, RECENT_STEPS), _persistence(deviations)
    expected = [expected_deviation(recent[:, index], persistence[index]) for index in range(len(RESOURCES))]
    deviations.on_expected(rows, np.stack(expected, axis=1))
    return True


def learn(deviations: Deviations, now: float) -> bool:
    """Learn the errors of the nodes whose errors were learned longest ago. Returns False if no node is due."""
    rows = deviations.due(LEARNED_AT_A_TIME, now)
    if not len(rows):
        return False
    latest = deviations.latest(rows, STEPS)
    moments = [learn_moments(latest[:, index], deviations.hours) for index in range(len(RESOURCES))]
    deviations.moments[rows] = np.stack(moments, axis=1)
    persistence = _persistence(deviations)
    levels = [learn_levels(latest[:, index], persistence[index]) for index in range(len(RESOURCES))]
    deviations.on_learned(rows, np.stack(levels, axis=1), now)
    return True


def _persistence(deviations: Deviations) -> Array:
    """resources × hours ahead × means, learned over all nodes."""
    return np.stack([persistence_of(moments) for moments in deviations.moments.sum(axis=0, dtype=np.float64)])
