"""How much batch work fits beside the usage of a trace, if more is always pending: running and suppressed core-hours.

Batch pods of one size and lifetime are admitted every 15 minutes while a node offers more than its pods request. What
runs above the reclaimable amount of that time is suppressed.
"""

from collections.abc import Callable

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, np
from equipoise.reclaimer.decisions.forecast import NodesAhead, hours_ahead, lasting
from equipoise.reclaimer.decisions.forecast_error import (
    ForecastErrors,
    expected_deviation,
    learn_errors,
)
from equipoise.reclaimer.state.deviations import RECENT_STEPS, STEPS_PER_HOUR

STEPS_PER_DAY = SLOTS * STEPS_PER_HOUR
_LEARNED_DAYS = 7
_SMOOTHING = 0.3
"""Weight of the latest day in the profile of a workload, as in the collector."""


class NodeDays(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of nodes over some days, in cores."""

    usage: Array
    """nodes × quarter hours, from midnight."""

    capacity: Array
    typical: Array | None = None
    """nodes × 24: a typical day that is known from the beginning (in sample); None: that of the days before."""

    measured_from: int
    """Quarter hour; the day before it, batch pods are admitted already."""

    measured_until: int
    pod_cores: float = 1.0

    def typical_day(self, day: int) -> Array:
        """nodes × 24, as known at the start of a day."""
        if self.typical is not None:
            return self.typical
        hourly = self.usage[:, : day * STEPS_PER_DAY].reshape(len(self.usage), day, SLOTS, STEPS_PER_HOUR).mean(axis=3)
        smoothed: Array = hourly[:, 0]
        for later in range(1, day):
            smoothed = (1.0 - _SMOOTHING) * smoothed + _SMOOTHING * hourly[:, later]
        return smoothed


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when batch pods are admitted: nothing later than `step`."""

    step: int
    past: Array
    """nodes × quarter hours before `step`."""

    limit: Array
    running: Array
    remaining: Array
    """nodes × hours ahead: cores of batch pods that then still run."""


OfferRule = Callable[[Situation], Array]
"""Cores that each node offers."""


class BatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the measured time."""

    running: float
    """Share (0..1) of the capacity that is requested by batch pods."""

    suppressed: float
    """Share (0..1) of the core-hours of batch pods that were suppressed."""


def offered_now(at: Situation) -> Array:
    """What is idle now, as Koordinator offers it."""
    idle: Array = np.maximum(at.limit - at.past[:, -1], 0.0)
    return idle


def lowest_of_last_day(at: Situation) -> Array:
    """What was idle in the worst quarter hour of the last 24 h."""
    idle: Array = np.maximum(at.limit - at.past[:, -STEPS_PER_DAY:].max(axis=1), 0.0)
    return idle


class LastingOffer:
    """The forecast of the reclaimer. Use one for each simulation: errors are learned every hour."""

    def __init__(self, days: NodeDays, *, hours: int, suppressed: float) -> None:
        self._days = days
        self._hours = hours
        self._suppressed = suppressed
        self._learned: tuple[int, ForecastErrors] | None = None
        self._deviations = _deviations(days)

    def __call__(self, at: Situation) -> Array:
        day, quarter = divmod(at.step, STEPS_PER_DAY)
        known, capacity = self._deviations[:, : at.step], self._days.capacity[:, np.newaxis]
        full_hour = at.step - at.step % STEPS_PER_HOUR
        if self._learned is None or self._learned[0] != full_hour:
            learned = self._deviations[:, max(0, full_hour - (_LEARNED_DAYS + 1) * STEPS_PER_DAY) : full_hour]
            self._learned = full_hour, learn_errors(learned, self._hours)
        errors = self._learned[1]
        ahead = NodesAhead(
            idle=offered_now(at),
            limit=at.limit,
            typical=hours_ahead(self._days.typical_day(day), quarter / STEPS_PER_HOUR, self._hours),
            deviation=expected_deviation(known[:, -RECENT_STEPS:], errors.persistence) * capacity,
            errors=errors.levels * capacity[:, :, np.newaxis],
            running=at.running,
            remaining=at.remaining[:, : self._hours],
        )
        return lasting(ahead, hours=(self._hours,), suppressed=self._suppressed, margin=np.zeros(len(at.limit)))[:, 0]


def run_batch(days: NodeDays, rule: OfferRule, *, hours: int, threshold: float) -> BatchFigures:
    """`hours`: the lifetime of batch pods. `threshold`: share (0..1) of the capacity that all pods together may use."""
    limit, lifetime = threshold * days.capacity, hours * STEPS_PER_HOUR
    ending = np.zeros((len(limit), max(lifetime, STEPS_PER_DAY)))
    """nodes × steps from now: cores of pods that end then."""

    ran = suppressed = 0.0
    for step in range(days.measured_from - STEPS_PER_DAY, days.measured_until):
        ending = np.concatenate([ending[:, 1:], np.zeros((len(limit), 1))], axis=1)
        left = ending[:, ::-1].cumsum(axis=1)[:, ::-1]
        running = left[:, 0]
        middle_of_hours = np.arange(STEPS_PER_HOUR // 2, STEPS_PER_DAY, STEPS_PER_HOUR)
        offer = rule(
            Situation(
                step=step, past=days.usage[:, :step], limit=limit, running=running, remaining=left[:, middle_of_hours]
            )
        )
        pods = np.floor(np.round((np.nan_to_num(offer) - running) / days.pod_cores, 9))
        admitted = np.maximum(pods, 0.0) * days.pod_cores
        ending[:, lifetime - 1] += admitted
        running = running + admitted
        if step >= days.measured_from:
            reclaimable = np.maximum(limit - days.usage[:, step], 0.0)
            ran += float(running.sum())
            suppressed += float(np.maximum(running - reclaimable, 0.0).sum())
    measured = days.measured_until - days.measured_from
    return BatchFigures(
        running=ran / measured / float(days.capacity.sum()), suppressed=suppressed / ran if ran else 0.0
    )


def _deviations(days: NodeDays) -> Array:
    """nodes × quarter hours, as shares of the capacity; unknown on the first day."""
    found = np.full_like(days.usage, np.nan)
    quarters = np.arange(STEPS_PER_DAY)
    for day in range(1, days.usage.shape[1] // STEPS_PER_DAY):
        typical = days.typical_day(day)
        middle = (quarters + 0.5) / STEPS_PER_HOUR - 0.5
        slot = np.floor(middle).astype(np.intp)
        later = middle - slot
        of_day = typical[:, slot % SLOTS] * (1.0 - later) + typical[:, (slot + 1) % SLOTS] * later
        steps = slice(day * STEPS_PER_DAY, (day + 1) * STEPS_PER_DAY)
        found[:, steps] = days.usage[:, steps] - of_day
    return found / days.capacity[:, np.newaxis]
