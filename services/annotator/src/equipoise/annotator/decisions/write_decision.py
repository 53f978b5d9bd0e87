"""Decides when a measured value is written: after a significant change, or for its periodic refresh."""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section
from equipoise.contracts.hashing import phase

Scale = Literal["points", "relative"]
"""How a change is measured: of shares (0..1) by their difference, of amounts relative to the written one."""


class WriteThreshold(Section, frozen=True, kw_only=True):
    """The conditions under which an object's annotation is written again."""

    min_change: Percent
    """A mean that differs by more than this is written."""

    min_interval: Duration
    """Minimum time between two writes of one object."""

    refresh_period: Duration
    """Maximum time between two writes, even without a change. The objects are spread over the period."""

    def __post_init__(self) -> None:
        if not self.refresh_period >= self.min_interval > 0:
            raise ValueError("minInterval must be longer than 0s and not longer than refreshPeriod")


class WrittenValue(msgspec.Struct, frozen=True, kw_only=True):
    """What an object's annotation holds."""

    at: float
    """Unix seconds of the write."""

    sampled_at: float
    means: Mapping[str, float]
    """The written means, by window and resource."""


class DueWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that is due."""

    why: str
    urgent: bool = False
    """A change is written before periodic refreshes."""


def decide(
    key: str,
    last: WrittenValue | None,
    means: Mapping[str, float],
    *,
    sampled_at: float,
    now: float,
    threshold: WriteThreshold,
    scale: Scale,
) -> DueWrite | None:
    """The reason to write these means on the object `key` now; None if there is none yet. `sampled_at`: the time of the
    means.
    """
    if not means:
        return None
    if last is None:
        return DueWrite(why="not written before")
    if sampled_at <= last.sampled_at or now - last.at < threshold.min_interval:
        return None
    if change := largest_change(last.means, means, scale, threshold.min_change / 100):
        return DueWrite(why=change, urgent=True)
    if _refreshes(key, now, threshold.refresh_period) > _refreshes(key, last.at, threshold.refresh_period):
        return DueWrite(why=f"due every {threshold.refresh_period}")
    return None


def retry_backoff(backoff: float, shortest: float, longest: float) -> float:
    """Seconds until a refused write is tried again, after the previous backoff (0: none).

    A permission may be missing only briefly, while roles or the fence are applied.
    """
    return min(max(2 * backoff, shortest), longest)


def largest_change(before: Mapping[str, float], after: Mapping[str, float], scale: Scale, min_change: float) -> str:
    """Describes the mean that changed most, if it changed by more than `min_change` (0..1); else "".

    A mean that becomes known is a change. A mean that is no longer known is no change: there is nothing new to write.
    """
    if new := sorted(after.keys() - before.keys()):
        return f"{new[0]} is known now"
    changes = {name: _difference(before[name], value, scale) for name, value in after.items()}
    name = max(changes, key=lambda name: changes[name])
    if changes[name] <= min_change:
        return ""
    unit = "points" if scale == "points" else "%"
    return f"{name} changed by {changes[name] * 100:.1f} {unit}"


def _difference(before: float, after: float, scale: Scale) -> float:
    if scale == "points" or before == after:
        return round(abs(after - before), 9)  # 0.55 - 0.5 is a little more than 0.05
    return abs(after - before) / before if before > 0 else math.inf


def _refreshes(key: str, time: float, period: float) -> int:
    """How many refreshes of the object were due by this time."""
    return math.floor(time / period - phase(key))
