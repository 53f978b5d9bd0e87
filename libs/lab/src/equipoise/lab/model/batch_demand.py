"""How much batch work fits beside the usage of a trace if more is always pending, in running and suppressed core-hours.

Batch pods of one size and lifetime are admitted every 15 minutes, as long as a node offers more CPU (and memory, if it
is simulated) than its batch pods request. Batch usage above what is reclaimable at a time is suppressed.
"""

from collections.abc import Callable, Iterator, Sequence

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
"""The weight of the latest day in the profile of a workload, as in the collector."""

_MIDDLE_OF_HOURS = np.arange(STEPS_PER_HOUR // 2, STEPS_PER_DAY, STEPS_PER_HOUR)


class NodeDays(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one resource of nodes over some days, in cores or bytes."""

    usage: Array
    """nodes × quarter hours, from the start of a day."""

    capacity: Array
    typical: Array | None = None
    """nodes × 24: a typical day that is known from the start (in sample); None: it is learned from the days before."""

    measured_from: int
    """The first measured quarter hour. Batch pods are admitted from one day before it."""

    measured_until: int
    pod: float = 1.0
    """The request of a batch pod."""

    def typical_day(self, day: int) -> Array:
        """The typical day, nodes × 24, as it is known at the start of a day."""
        if self.typical is not None:
            return self.typical
        hourly = self.usage[:, : day * STEPS_PER_DAY].reshape(len(self.usage), day, SLOTS, STEPS_PER_HOUR).mean(axis=3)
        smoothed: Array = hourly[:, 0]
        for later in range(1, day):
            smoothed = (1.0 - _SMOOTHING) * smoothed + _SMOOTHING * hourly[:, later]
        return smoothed


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a resource when batch pods are admitted at `step`."""

    step: int
    past: Array
    """nodes × quarter hours before `step`."""

    limit: Array
    running: Array
    remaining: Array
    """nodes × hours ahead: the requests of the batch pods that will then still run."""


OfferRule = Callable[[Situation], Array]
"""A rule that returns what each node offers, in the unit of the resource."""


class BatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run, as means over the measured time."""

    running: float
    """Share (0..1) of the cores of all nodes that is requested by batch pods."""

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


def with_margin(rule: OfferRule, margin: Array) -> OfferRule:
    """The rule with `margin` subtracted from the offer of each node, as if the threshold were lower."""

    def offer(at: Situation) -> Array:
        less: Array = np.maximum(rule(at) - margin, 0.0)
        return less

    return offer


class Forecast:
    """What the reclaimer expects of nodes, for any threshold. Errors are learned every hour."""

    def __init__(self, days: NodeDays, *, hours: int) -> None:
        self.hours = hours
        self._days = days
        self._deviations = _deviations(days)
        self._learned: tuple[int, ForecastErrors] | None = None
        self._expected: tuple[int, tuple[Array, Array, Array]] | None = None

    def at(self, step: int) -> tuple[Array, Array, Array]:
        """nodes × hours ahead: the typical day, the expected deviation from it, and (× levels) the errors."""
        if self._expected is None or self._expected[0] != step:
            self._expected = step, self._expect(step)
        return self._expected[1]

    def _expect(self, step: int) -> tuple[Array, Array, Array]:
        day, quarter = divmod(step, STEPS_PER_DAY)
        capacity = self._days.capacity[:, np.newaxis]
        full_hour = step - step % STEPS_PER_HOUR
        if self._learned is None or self._learned[0] != full_hour:
            learned = self._deviations[:, max(0, full_hour - (_LEARNED_DAYS + 1) * STEPS_PER_DAY) : full_hour]
            self._learned = full_hour, learn_errors(learned, self.hours)
        errors = self._learned[1]
        recent = self._deviations[:, :step][:, -RECENT_STEPS:]
        return (
            hours_ahead(self._days.typical_day(day), quarter / STEPS_PER_HOUR, self.hours),
            expected_deviation(recent, errors.persistence) * capacity,
            errors.levels * capacity[:, :, np.newaxis],
        )


class LastingOffer:
    """The rule of the reclaimer.

    It offers an amount of which the last core is suppressed in at most a share of the hours.
    """

    def __init__(self, forecast: Forecast, *, suppressed: float) -> None:
        self._forecast = forecast
        self._suppressed = suppressed

    def __call__(self, at: Situation) -> Array:
        typical, deviation, errors = self._forecast.at(at.step)
        hours = self._forecast.hours
        ahead = NodesAhead(
            idle=offered_now(at),
            limit=at.limit,
            typical=typical,
            deviation=deviation,
            errors=errors,
            running=at.running,
            remaining=at.remaining[:, :hours],
        )
        return lasting(ahead, hours=(hours,), suppressed=self._suppressed, margin=np.zeros(len(at.limit)))[:, 0]


class BatchRun:
    """The batch pods of one rule and threshold."""

    def __init__(self, days: Sequence[NodeDays], rules: Sequence[OfferRule], *, hours: int, threshold: float) -> None:
        """`days`, `rules`: one for CPU, and one for memory if it is simulated. `hours`: the lifetime of the pods.
        `threshold`: share (0..1) of the capacity that all pods together may use."""
        self._days, self._rules = days, rules
        self._limits = [threshold * resource.capacity for resource in days]
        self._lifetime = hours * STEPS_PER_HOUR
        self._ending = np.zeros((len(days[0].capacity), max(self._lifetime, STEPS_PER_DAY)))
        """nodes × steps from now: pods that end then."""

        self._ran = self._suppressed = 0.0

    def advance(self, step: int) -> None:
        """Admit pods at this quarter hour. Steps are consecutive."""
        self._ending[:, :-1] = self._ending[:, 1:]
        self._ending[:, -1] = 0.0
        # nodes × steps from now: the pods that still run then, which are those that end then or later.
        left = self._ending[:, ::-1].cumsum(axis=1)[:, ::-1]
        pods, remaining = left[:, 0], left[:, _MIDDLE_OF_HOURS]
        more = np.full(len(pods), np.inf)
        for days, rule, limit in zip(self._days, self._rules, self._limits, strict=True):
            running = pods * days.pod
            offer = rule(
                Situation(
                    step=step,
                    past=days.usage[:, :step],
                    limit=limit,
                    running=running,
                    remaining=remaining * days.pod,
                )
            )
            # An unknown offer admits nothing.
            more = np.minimum(more, np.floor(np.round((np.nan_to_num(offer) - running) / days.pod, 9)))
        admitted = np.maximum(more, 0.0)
        self._ending[:, self._lifetime - 1] += admitted
        if step >= self._days[0].measured_from:
            self._measure(step, pods + admitted)

    def _measure(self, step: int, pods: Array) -> None:
        """A pod that lacks either resource does not run: the scarcer one counts."""
        above = np.zeros(len(pods))
        for days, limit in zip(self._days, self._limits, strict=True):
            reclaimable = np.maximum(limit - days.usage[:, step], 0.0)
            above = np.maximum(above, pods - reclaimable / days.pod)
        self._ran += float(pods.sum()) * self._days[0].pod
        self._suppressed += float(above.sum()) * self._days[0].pod

    @property
    def figures(self) -> BatchFigures:
        cpu = self._days[0]
        steps = cpu.measured_until - cpu.measured_from
        return BatchFigures(
            running=self._ran / steps / float(cpu.capacity.sum()),
            suppressed=self._suppressed / self._ran if self._ran else 0.0,
        )


def run_all(days: NodeDays, runs: Sequence[BatchRun]) -> Iterator[int]:
    """Advance all runs together, so that they share what is learned; yields each quarter hour when it is over."""
    for step in range(days.measured_from - STEPS_PER_DAY, days.measured_until):
        for run in runs:
            run.advance(step)
        yield step


def run_batch(days: NodeDays, rule: OfferRule, *, hours: int, threshold: float) -> BatchFigures:
    """One rule for one resource."""
    run = BatchRun([days], [rule], hours=hours, threshold=threshold)
    for _ in run_all(days, [run]):
        pass
    return run.figures


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the measured time, of one resource at one threshold."""

    offered: float
    """Share (0..1) of the capacity that is idle below the threshold."""

    after: dict[int, float]
    """The share (0..1) of it that stays idle, by number of hours. Only hours that the trace is long enough for."""


def remaining_of_idle(days: NodeDays, *, threshold: float, hours: Sequence[int]) -> Remaining:
    """How long what is idle at a quarter hour stays idle, over all nodes and quarter hours."""
    idle = np.maximum(threshold * days.capacity[:, np.newaxis] - days.usage[:, days.measured_from :], 0.0)
    starts = days.measured_until - days.measured_from
    after = {}
    for length in hours:
        steps = length * STEPS_PER_HOUR
        known = min(starts, idle.shape[1] - steps)
        if known <= 0:
            continue
        lowest = np.lib.stride_tricks.sliding_window_view(idle, steps + 1, axis=1)[:, :known].min(axis=2)
        offered = float(idle[:, :known].sum())
        if offered:
            after[length] = float(lowest.sum()) / offered
    return Remaining(offered=float(idle[:, :starts].sum()) / starts / float(days.capacity.sum()), after=after)


def _deviations(days: NodeDays) -> Array:
    """nodes × quarter hours, as shares of the capacity; unknown on the first day."""
    found = np.full_like(days.usage, np.nan)
    quarters = np.arange(STEPS_PER_DAY)
    for day in range(1, days.usage.shape[1] // STEPS_PER_DAY):
        typical = days.typical_day(day)
        # Each quarter hour is interpolated between the middles of two hours.
        middle = (quarters + 0.5) / STEPS_PER_HOUR - 0.5
        slot = np.floor(middle).astype(np.intp)
        share_of_next = middle - slot
        of_day = typical[:, slot % SLOTS] * (1.0 - share_of_next) + typical[:, (slot + 1) % SLOTS] * share_of_next
        steps = slice(day * STEPS_PER_DAY, (day + 1) * STEPS_PER_DAY)
        found[:, steps] = days.usage[:, steps] - of_day
    return found / days.capacity[:, np.newaxis]
