"""The measured usage of a trace by day and hour, and the days that proposals are learned from and judged by."""

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.lab.model.period_means import period_means
from equipoise.lab.model.trace import Array, Trace

HOURS = 24
DAY = 86_400.0
_HOUR = 3_600.0

COVERED = 0.8
"""The share of an hour that must be measured for the hour to count, as in a recording."""

_REPLAYED_DAYS = 3
"""A replay learns on the first day, rolls out every workload on the second, and measures the third."""


class LearnedAndJudged(msgspec.Struct, frozen=True, kw_only=True):
    """The days of a trace by their use. A day has 24 hours from the start of the trace."""

    learned: Trace
    """All days but the last; of a trace of one day, this day."""

    judged: Trace
    """Three days for a replay, which measures the last of them: the last day of the trace."""

    last_day: Trace
    learned_days: int
    in_sample: bool
    """Whether the proposals are judged by the day that they are learned from."""


def learned_and_judged(trace: Trace) -> LearnedAndJudged:
    """Divides a trace. A trace of less than a day counts as one day."""
    trace = trace.in_whole_days
    per_day = min(trace.steps, round(DAY / trace.seconds_per_step))
    days = trace.steps // per_day

    def of(chosen: list[int]) -> Trace:
        steps = np.concatenate([np.arange(day * per_day, (day + 1) * per_day) for day in chosen])
        return trace.with_steps(steps)

    replayed = of([max(0, day) for day in range(days - _REPLAYED_DAYS, days)])
    if trace.starts_at:
        replayed = msgspec.structs.replace(replayed, starts_at=trace.starts_at + (days - _REPLAYED_DAYS) * DAY)
    return LearnedAndJudged(
        learned=of(list(range(max(1, days - 1)))),
        judged=replayed if per_day * trace.seconds_per_step == DAY else trace,
        last_day=of([days - 1]),
        learned_days=max(1, days - 1),
        in_sample=days == 1,
    )


def measured_hours(trace: Trace, resource: int) -> Array:
    """workloads × days × 24: the mean usage of a pod in each hour; NaN for an hour that was hardly measured.

    `resource`: 0 for CPU (milli cores), 1 for memory (MiB). The hours of an incomplete day that are missing are NaN.
    """
    usage, measured = measured_steps(trace, resource)
    covered = period_means(measured.astype(np.float64), trace.seconds_per_step, _HOUR)
    used = period_means(np.where(measured, usage, 0.0), trace.seconds_per_step, _HOUR)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Rounding errors of sums must not make an hour incomplete.
        hours = np.where(covered > COVERED - 1e-9, used / covered, np.nan)
    missing = -hours.shape[1] % HOURS
    padded = np.concatenate([hours, np.full((len(hours), missing), np.nan)], axis=1)
    return padded.reshape(len(hours), -1, HOURS)


def measured_steps(trace: Trace, resource: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    """workloads × steps: the usage of a pod, and whether it was measured. `resource` as in `measured_hours`."""
    usage = (trace.cpu_milli, trace.memory_mib)[resource]
    measured = np.ones(usage.shape, dtype=np.bool_) if trace.gaps is None else ~trace.gaps[resource]
    return usage, measured
