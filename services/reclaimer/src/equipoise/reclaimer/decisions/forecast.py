"""How much of a node stays idle for some hours.

`lasting` uses the errors of earlier forecasts. Until these are known, `lowest_reclaimable` is used: the lowest amount
that the typical day and the last day leave.
"""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, np

SUPPRESSED = 0.03
"""The last core of batch resources may be suppressed for this share of its hours (docs/decisions/0036)."""


def lowest_reclaimable(
    limit: Array, expected: Array, recent_worst: Array, now_hour: int, hours: int, margin: Array
) -> Array:
    """The lowest amount (by node) between now and the end of `hours`, at least 0; NaN where it is unknown.

    `limit` (nodes): what all pods and the system together may use. `expected` and `recent_worst` (nodes × 24 hours of
    the day, UTC): usage of high-priority pods and of the system, of the typical day and the highest of the last 24 h.
    `margin` (nodes): the amount by which usage may exceed the typical day. An hour without either is unknown.
    """
    slots = (now_hour + np.arange(min(hours, SLOTS - 1) + 1)) % SLOTS
    usage = np.fmax(expected[:, slots] + margin[:, None], recent_worst[:, slots])
    lowest: Array = np.maximum(limit - usage.max(axis=1), 0.0)
    return lowest


class NodesAhead(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of nodes, now and in the coming hours. If a value of a node is NaN (unknown), its result is unknown
    too."""

    idle: Array
    """nodes: the amount that is reclaimable now."""

    limit: Array
    """nodes: the amount that all pods and the system together may use."""

    typical: Array
    """nodes × hours ahead: usage of high-priority pods and of the system on the typical day."""

    deviation: Array
    """nodes × hours ahead: how far usage is expected to exceed the typical day."""

    errors: Array
    """nodes × hours ahead × levels of equal probability: how far usage exceeded the expectation."""

    running: Array
    """nodes: the amount that the running pods of the band request."""

    remaining: Array
    """nodes × hours ahead: the part of `running` that is still requested then."""


def hours_ahead(day: Array, hour_of_day: float, hours: int = SLOTS) -> Array:
    """nodes × hours ahead: the middle of each coming hour, of nodes × 24 hourly means (UTC)."""
    # Counted from the middle of the first hour of the day, because a mean applies to the middle of its hour.
    middle = hour_of_day - 1.0 + np.arange(1, hours + 1)
    slot = np.floor(middle).astype(np.intp)
    later = middle - slot
    ahead: Array = day[:, slot % SLOTS] * (1.0 - later) + day[:, (slot + 1) % SLOTS] * later
    return ahead


def lasting(nodes: NodesAhead, *, hours: Sequence[int], suppressed: float, margin: Array) -> Array:
    """nodes × `hours` (ascending): the amount that lasts for so many hours.

    It is the highest amount whose last core (or byte) is expected to be suppressed for at most a share `suppressed`
    (0..1) of these hours. Running pods are part of it, and leave space when they end. It never exceeds what is
    idle now, and never grows with the hours. `margin` (nodes): the part of the limit that must stay unused.
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
    """The quantile of each row, interpolated between two values; NaN if a value is unknown. Faster than
    `numpy.quantile`."""
    position = share * (values.shape[1] - 1)
    low = int(position)
    high = min(low + 1, values.shape[1] - 1)
    ordered = np.partition(values, (low, high), axis=1)
    between = ordered[:, low] + (ordered[:, high] - ordered[:, low]) * (position - low)
    quantile: Array = np.where(np.isnan(values).any(axis=1), np.nan, between)
    return quantile
