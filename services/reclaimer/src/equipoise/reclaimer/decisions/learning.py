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
"""Nodes: some 10 ms."""

EXPECTED_AT_A_TIME = 250


def expect(deviations: Deviations, now: float) -> bool:
    """Update what is expected of some nodes, once a quarter hour. False: it was done for all."""
    rows = deviations.outdated(EXPECTED_AT_A_TIME, now)
    if not len(rows):
        return False
    recent, persistence = deviations.latest(rows, RECENT_STEPS), _persistence(deviations)
    expected = [expected_deviation(recent[:, row], persistence[row]) for row in range(len(RESOURCES))]
    deviations.on_expected(rows, np.stack(expected, axis=1))
    return True


def learn(deviations: Deviations, now: float) -> bool:
    """Learn the errors of some nodes, those first that were learned longest ago. False: none is due."""
    rows = deviations.due(LEARNED_AT_A_TIME, now)
    if not len(rows):
        return False
    known = deviations.latest(rows, STEPS)
    moments = [learn_moments(known[:, row], deviations.hours) for row in range(len(RESOURCES))]
    deviations.moments[rows] = np.stack(moments, axis=1)
    persistence = _persistence(deviations)
    levels = [learn_levels(known[:, row], persistence[row]) for row in range(len(RESOURCES))]
    deviations.on_learned(rows, np.stack(levels, axis=1), now)
    return True


def _persistence(deviations: Deviations) -> Array:
    """resources × hours ahead × means, learned over all nodes."""
    return np.stack([persistence_of(each) for each in deviations.moments.sum(axis=0, dtype=np.float64)])
