"""Where a node counts as hot and where as idle: fixed marks, or distances from the fleet's mean."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.load import RESOURCES
from equipoise.contracts.settings import Marks, Percent, Section, Thresholds
from equipoise.descheduler.fleet import Resource


class Deviation(Section, frozen=True, kw_only=True):
    """Marks as distances from the fleet's mean, in points of percent, so that every level can be kept even.

    A resource without a distance keeps the threshold of the shared section.
    """

    high: Marks = Marks(cpu=8)
    """So far above the mean a node is too hot."""

    low: Marks = Marks(cpu=8)
    """So far below the mean a node is idle."""

    floor: Percent = 10.0
    """No node below this load is too hot, however idle the others are."""


class Levels(msgspec.Struct, frozen=True, kw_only=True):
    """Marks as applied, as load (0..1). A resource that is absent from one of them is not looked at there."""

    hot: Mapping[Resource, float]
    """Above it in any resource a node is hot."""

    ceiling: Mapping[Resource, float]
    """A target must stay below it in every resource."""

    idle: Mapping[Resource, float]
    """At or below it in every resource a node is idle."""

    aim: Mapping[Resource, float]
    """Where a hot node should come to: pods are chosen by what is missing to there."""


class KnownLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A node's load where it is known, and what it refers to."""

    load: float
    base: float
    source: bool
    """Pods may leave it."""

    target: bool
    """Pods may come to it."""


def _marks(marks: Marks) -> dict[Resource, float]:
    return {name: value / 100 for name in RESOURCES if (value := getattr(marks, name)) is not None}


def fixed(thresholds: Thresholds, margin: float) -> Levels:
    """The shared thresholds as they are; hot nodes should come `margin` (0..1) below theirs."""
    high = _marks(thresholds.high)
    return Levels(
        hot=high,
        ceiling=high,
        idle=_marks(thresholds.low),
        aim={resource: max(0.0, mark - margin) for resource, mark in high.items()},
    )


def capping_level(readings: Sequence[KnownLoad], missing: float) -> float:
    """The load at which capping every source sets free `missing` (amount of the resource).

    Sources sorted downwards, the level that takes `missing` from the first k of them is
    (Σ load·base − missing) / Σ base; the right k is the first whose level the next source does not exceed.
    """
    amount = whole = 0.0
    sources = sorted((reading for reading in readings if reading.source), key=lambda reading: -reading.load)
    level = 0.0
    for position, reading in enumerate(sources):
        amount += reading.load * reading.base
        whole += reading.base
        level = (amount - missing) / whole
        if position + 1 == len(sources) or level >= sources[position + 1].load:
            break
    return level


def deviating(
    readings: Mapping[Resource, Sequence[KnownLoad]], deviation: Deviation, thresholds: Thresholds, margin: float
) -> Levels:
    """Marks around the mean of the nodes' loads.

    The idle nodes can only be filled with what the others give. Where the nodes over mean + high do not have enough,
    the hot mark is lowered, at most to the mean, to the level at which they do. Without that a few empty nodes stay
    empty beside many that are just below the mark.
    """
    levels = fixed(thresholds, margin)
    hot, ceiling, idle, aim = dict(levels.hot), dict(levels.ceiling), dict(levels.idle), dict(levels.aim)
    above, below = _marks(deviation.high), _marks(deviation.low)
    for resource in above.keys() & below.keys():
        known = readings.get(resource, ())
        if not known:
            continue
        mean = sum(reading.load for reading in known) / len(known)
        low = max(0.0, mean - below[resource])
        high = max(min(1.0, mean + above[resource]), deviation.floor / 100)
        missing = sum(max(0.0, low - reading.load) * reading.base for reading in known if reading.target)
        lowered = max(mean, capping_level(known, missing), deviation.floor / 100) if missing else high
        hot[resource], ceiling[resource], idle[resource] = min(high, lowered), high, low
        aim[resource] = mean
    return Levels(hot=hot, ceiling=ceiling, idle=idle, aim=aim)
