"""Decides when a measured value is worth a write: a change one would act upon, or its turn."""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from equipoise.annotator.decisions.hashing import phase
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section

Scale = Literal["points", "relative"]
"""How a change is measured: shares (0..1) by their difference, amounts by their ratio to what was written."""


class DeadBand(Section, frozen=True, kw_only=True):
    """When what stands on an object is written anew."""

    change: Percent
    """A mean that differs by more than this is worth a write."""

    least_interval: Duration
    """Between two writes of one object, however much it changes."""

    period: Duration
    """Written this often even without a change; objects are spread over it."""

    def __post_init__(self) -> None:
        if not self.period >= self.least_interval > 0:
            raise ValueError("leastInterval must be longer than 0s and not longer than period")


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What we last wrote on an object."""

    at: float
    """Unix seconds."""

    sampled_at: float
    means: Mapping[str, float]
    """By window and resource."""


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """It is worth a write."""

    why: str
    urgent: bool = False
    """A change goes before what is only due."""


def decide(
    key: str,
    last: Written | None,
    means: Mapping[str, float],
    *,
    sampled_at: float,
    now: float,
    band: DeadBand,
    scale: Scale,
) -> Write | None:
    """Write these means (of a sample of this time) on the object `key` now? None: not yet."""
    if not means:
        return None
    if last is None:
        return Write(why="not written before")
    if sampled_at <= last.sampled_at or now - last.at < band.least_interval:
        return None
    if change := largest_change(last.means, means, scale, band.change / 100):
        return Write(why=change, urgent=True)
    if _turn(key, now, band.period) > _turn(key, last.at, band.period):
        return Write(why=f"due every {band.period}")
    return None


def rest_after(rest: float, band: DeadBand) -> float:
    """Seconds until a refused write is tried again, when the last rest was `rest` (0: none).

    A right may be missing for a moment only, while roles or the fence are applied anew.
    """
    return min(max(2 * rest, band.least_interval), band.period)


def largest_change(before: Mapping[str, float], after: Mapping[str, float], scale: Scale, least: float) -> str:
    """The mean that changed most, in words, if it changed by more than `least` (0..1); else "".

    A mean that was not known before is a change; one that is no longer known is none: there is nothing new to write.
    """
    if new := sorted(after.keys() - before.keys()):
        return f"{new[0]} is known now"
    changes = {name: _difference(before[name], value, scale) for name, value in after.items()}
    name = max(changes, key=lambda name: changes[name])
    if changes[name] <= least:
        return ""
    unit = "points" if scale == "points" else "%"
    return f"{name} changed by {_shown(changes[name])} {unit}"


def _difference(before: float, after: float, scale: Scale) -> float:
    if scale == "points" or before == after:
        return round(abs(after - before), 9)  # 0.55 - 0.5 is a little more than 0.05
    return abs(after - before) / before if before > 0 else math.inf


def _shown(change: float) -> str:
    return f"{change * 100:.1f}"


def _turn(key: str, moment: float, period: float) -> int:
    """How many turns the object has had by then."""
    return math.floor(moment / period - phase(key))
