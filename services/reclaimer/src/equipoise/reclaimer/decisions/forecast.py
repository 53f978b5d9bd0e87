"""How much of a node stays idle for some hours.

`lasting` uses the errors of earlier forecasts. Until they are known, `lowest_reclaimable` is the lowest of what the
typical day and the last day leave.
"""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, np

SUPPRESSED = 0.03
"""Share of its hours for which the last core of batch resources may be suppressed (docs/decisions/0036)."""


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


class NodesAhead(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of nodes, now and in the coming hours. A NaN is unknown, and then so is the result of the node."""

    idle: Array
    """nodes: what is reclaimable now."""

    limit: Array
    """nodes: what all pods and the system together may use."""

    typical: Array
    """nodes × hours ahead: usage of high-priority pods and of the system on the typical day."""

    deviation: Array
    """nodes × hours ahead: how far usage is expected to be above that."""

    errors: Array
    """nodes × hours ahead × levels of equal probability: how far usage was above what was expected."""

    running: Array
    """nodes: requested by the pods of the band."""

    remaining: Array
    """nodes × hours ahead: of these, what is then still requested."""


def hours_ahead(day: Array, hour_of_day: float, hours: int = SLOTS) -> Array:
    """nodes × hours ahead: the middle of each coming hour, of nodes × 24 hourly means (UTC)."""
    middle = hour_of_day - 1.0 + np.arange(1, hours + 1)
    slot = np.floor(middle).astype(np.intp)
    later = middle - slot
    ahead: Array = day[:, slot % SLOTS] * (1.0 - later) + day[:, (slot + 1) % SLOTS] * later
    return ahead


def lasting(nodes: NodesAhead, *, hours: Sequence[int], suppressed: float, margin: Array) -> Array:
    """nodes × `hours` (ascending): how much lasts that long.

    It is the highest amount whose last core (or byte) is expected to be suppressed for at most a share `suppressed`
    (0..1) of these hours. Running pods are part of it, and leave space when they end. It is never more than what is
    idle now, and never more for longer. `margin` (nodes): part of the limit that is not used.
    """
    usage = nodes.typical + nodes.deviation + nodes.remaining
    left = (nodes.limit - margin)[:, np.newaxis] - usage
    space = left[:, :, np.newaxis] - nodes.errors
    amounts = np.empty((len(nodes.idle), len(hours)))
    for column, length in enumerate(hours):
        ahead = space[:, :length].reshape(len(space), -1)
        amounts[:, column] = nodes.running + np.maximum(_quantile(ahead, suppressed), 0.0)
    amounts = np.minimum(np.minimum.accumulate(amounts, axis=1), nodes.idle[:, np.newaxis])
    lowest: Array = np.maximum(amounts, 0.0)
    return lowest


def _quantile(values: Array, share: float) -> Array:
    """The quantile of each row, between two values; NaN if one is unknown. Faster than `numpy.quantile`."""
    place = share * (values.shape[1] - 1)
    low = int(place)
    ordered = np.partition(values, (low, min(low + 1, values.shape[1] - 1)), axis=1)
    between = ordered[:, low] + (ordered[:, min(low + 1, values.shape[1] - 1)] - ordered[:, low]) * (place - low)
    quantile: Array = np.where(np.isnan(values).any(axis=1), np.nan, between)
    return quantile
