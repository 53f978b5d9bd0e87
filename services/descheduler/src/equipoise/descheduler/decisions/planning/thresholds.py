"""Where a node counts as hot and where as idle: fixed marks, or distances from the mean of its pool."""

from collections.abc import Mapping

import msgspec
import numpy as np

from equipoise.contracts.configuration.settings import Percent, ResourceThresholds, Section, too_close
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, Array, Flags
from equipoise.descheduler.state.cluster import Resource


class Deviation(Section, frozen=True, kw_only=True):
    """Marks as distances from the pool's mean, in points of percent, so that every level can be kept even.

    A mark without a distance stays where the thresholds have it.
    """

    high: ResourceThresholds = ResourceThresholds(cpu=8)
    """So far above the mean a node is too hot."""

    low: ResourceThresholds = ResourceThresholds(cpu=8)
    """So far below the mean a node is idle."""

    prod_high: ResourceThresholds = ResourceThresholds()
    """As `high`, for what production pods use, around the mean of that."""

    prod_low: ResourceThresholds = ResourceThresholds()

    floor: Percent = 10.0
    """No node below this load is too hot, however idle the others are."""

    def __post_init__(self) -> None:
        fault = too_close(_below(self.low), self.high, low_name="−low", high_name="high") or too_close(
            _below(self.prod_low), self.prod_high, low_name="−prodLow", high_name="prodHigh"
        )
        if fault:
            raise ValueError(fault)


def _below(distances: ResourceThresholds) -> ResourceThresholds:
    """Distances below the mean as marks beside those above it: only to be compared."""
    return msgspec.structs.replace(
        distances, **{name: None if (value := getattr(distances, name)) is None else -value for name in MEASURED}
    )


class Levels(msgspec.Struct, frozen=True, kw_only=True):
    """Marks as applied, as load (0..1). A resource that is absent from one of them is not looked at there."""

    hot: Mapping[Resource, float]
    """Above it in any resource a node is hot."""

    ceiling: Mapping[Resource, float]
    """A target must not come above it in any resource."""

    idle: Mapping[Resource, float]
    """At or below it in every resource a node is idle."""

    aim: Mapping[Resource, float]
    """Where a hot node should come to: pods are chosen by what is missing to there."""

    @property
    def looked_at(self) -> set[Resource]:
        return {*self.hot, *self.idle}


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """Load (0..1) that no move may bring a node above."""

    node: Mapping[Resource, float]
    production: Mapping[Resource, float] = {}
    """Of what its production pods use."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of a pool, as far as they are known, and what they refer to."""

    load: Array
    """Nodes × resources, 0..1; NaN is unknown."""

    base: Array
    source: Flags
    """Pods may leave the node."""

    target: Flags
    """Pods may come to it."""


def shares_of(marks: ResourceThresholds) -> dict[Resource, float]:
    """Percent as shares (0..1), of the resources that have a mark."""
    return {name: value / 100 for name in MEASURED if (value := getattr(marks, name)) is not None}


def fixed(high: ResourceThresholds, low: ResourceThresholds, margin: float) -> Levels:
    """The marks as they are; hot nodes should come `margin` (0..1) below theirs."""
    hot = shares_of(high)
    return Levels(
        hot=hot,
        ceiling=hot,
        idle=shares_of(low),
        aim={resource: max(0.0, mark - margin) for resource, mark in hot.items()},
    )


def capping_level(load: Array, base: Array, missing: float) -> float:
    """The load at which capping every one of these nodes sets free `missing` (amount of the resource).

    Nodes sorted downwards, the level that takes `missing` from the first k of them is
    (Σ load·base − missing) / Σ base; the right k is the first whose level the next node does not exceed.
    """
    if not len(load):
        return 0.0
    order = np.argsort(-load, kind="stable")
    levels = (np.cumsum((load * base)[order]) - missing) / np.cumsum(base[order])
    enough = np.flatnonzero(levels[:-1] >= load[order][1:])
    return float(levels[enough[0] if len(enough) else -1])


def deviating(
    known: Known, above: ResourceThresholds, below: ResourceThresholds, floor: float, levels: Levels
) -> Levels:
    """`levels`, with marks around the mean of the known loads where there is a distance. `floor`: 0..1.

    The idle nodes can only be filled with what the others give. Where the nodes over mean + high do not have enough,
    the hot mark is lowered, at most to the mean, to the level at which they do. Without that a few empty nodes stay
    empty beside many that are just below the mark.
    """
    hot, ceiling, idle, aim = dict(levels.hot), dict(levels.ceiling), dict(levels.idle), dict(levels.aim)
    up, down = shares_of(above), shares_of(below)
    for column, resource in enumerate(MEASURED):
        load, base = known.load[:, column], known.base[:, column]
        there = ~np.isnan(load)
        if not there.any() or resource not in up.keys() | down.keys():
            continue
        mean = float(load[there].mean())
        if resource in down:
            idle[resource] = max(0.0, mean - down[resource])
        if resource not in up:
            continue
        high = max(min(1.0, mean + up[resource]), floor)
        hot[resource], ceiling[resource], aim[resource] = high, high, mean
        if resource not in down:
            continue
        targets, sources = there & known.target, there & known.source
        missing = float((np.maximum(0.0, idle[resource] - load[targets]) * base[targets]).sum())
        if missing:
            lowered = max(mean, capping_level(load[sources], base[sources], missing), floor)
            hot[resource] = min(high, lowered)
    return Levels(hot=hot, ceiling=ceiling, idle=idle, aim=aim)
