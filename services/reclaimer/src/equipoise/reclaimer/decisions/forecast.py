"""How much of a node stays idle for some hours: the lowest of what its typical day and its last day leave."""

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, np


def lowest_reclaimable(
    limit: Array, expected: Array, recent_worst: Array, now_hour: int, hours: int, margin: Array
) -> Array:
    """The lowest amount (by node) between now and the end of `hours`, at least 0; NaN where it is unknown.

    `limit` (nodes): what all pods and the system together may use. `expected` and `recent_worst` (nodes × 24 hours of
    the day, UTC): usage of high-priority pods and of the system, of the typical day and the highest of the last 24 h.
    `margin` (nodes): what the typical day is exceeded by. An hour without either is unknown.
    """
    slots = (now_hour + np.arange(min(hours, SLOTS - 1) + 1)) % SLOTS
    usage = np.fmax(expected[:, slots] + margin[:, None], recent_worst[:, slots])
    lowest: Array = np.maximum(limit - usage.max(axis=1), 0.0)
    return lowest
