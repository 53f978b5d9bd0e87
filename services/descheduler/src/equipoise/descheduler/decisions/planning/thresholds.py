"""The loads above which a node is hot and below which it is idle: fixed, or as distances from the mean of its pool."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.configuration.settings import (
    FurtherThresholds,
    Percent,
    ResourceThresholds,
    Section,
    Thresholds,
    too_close,
)
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.descheduler.decisions.cluster_node import Resource
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED


class Deviation(Section, frozen=True, kw_only=True):
    """Thresholds as distances from the pool's mean, in percentage points, so that nodes are kept even at every level.

    A threshold without a distance is that of the shared thresholds.
    """

    high: ResourceThresholds = ResourceThresholds(cpu=8)
    """A node is hot when its load is so far above the mean."""

    low: ResourceThresholds = ResourceThresholds(cpu=8)
    """A node is idle when its load is so far below the mean."""

    prod_high: ResourceThresholds = ResourceThresholds()
    """The same as `high`, for the usage of production pods and its mean."""

    prod_low: ResourceThresholds = ResourceThresholds()

    floor: Percent = 10.0
    """A node below this load is never hot, however idle the others are."""

    def __post_init__(self) -> None:
        fault = too_close(_negative(self.low), self.high, low_name="−low", high_name="high") or too_close(
            _negative(self.prod_low), self.prod_high, low_name="−prodLow", high_name="prodHigh"
        )
        if fault:
            raise ValueError(fault)


def _negative(distances: ResourceThresholds) -> ResourceThresholds:
    """The distances with a negative sign: they are below the mean."""
    return msgspec.structs.replace(
        distances, **{name: None if (value := getattr(distances, name)) is None else 0.0 - value for name in MEASURED}
    )


class AppliedThresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds as load (0..1). A resource that is absent from one of them is not limited by it."""

    hot: Mapping[Resource, float]
    """The load above which a node is hot, in any resource."""

    ceiling: Mapping[Resource, float]
    """The highest load to which a move may bring its target, in any resource."""

    idle: Mapping[Resource, float]
    """The load at or below which, in every resource, a node is idle."""

    aim: Mapping[Resource, float]
    """The load to which a hot node should be brought: pods are chosen by the distance to it."""

    @property
    def limited(self) -> set[Resource]:
        return {*self.hot, *self.idle}


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """The highest load (0..1) to which a move may bring a node."""

    node: Mapping[Resource, float]
    production: Mapping[Resource, float] = {}
    """The ceiling of the usage of its production pods."""


class KnownLoads(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of the nodes of a pool."""

    load: Array
    """Nodes × resources, 0..1, as measured; NaN is unknown."""

    expected: Array
    """`load` with what is expected of pods that are not measured yet."""

    base: Array
    source: Flags
    """Pods may be moved away from the node."""

    target: Flags
    """Pods may be moved to it."""


def shares_of(thresholds: ResourceThresholds) -> dict[Resource, float]:
    """Percentages as shares (0..1), of the resources that have a threshold."""
    return {name: value / 100 for name in MEASURED if (value := getattr(thresholds, name)) is not None}


def fixed(high: ResourceThresholds, low: ResourceThresholds, margin: float) -> AppliedThresholds:
    """The thresholds as configured; hot nodes should be brought `margin` (0..1) below theirs."""
    hot = shares_of(high)
    return AppliedThresholds(
        hot=hot,
        ceiling=hot,
        idle=shares_of(low),
        aim={resource: max(0.0, threshold - margin) for resource, threshold in hot.items()},
    )


def with_further(
    applied: AppliedThresholds, resources: Mapping[str, FurtherThresholds], margin: float
) -> AppliedThresholds:
    """The thresholds with those of further resources."""
    if not resources:
        return applied
    high = {name: threshold.high / 100 for name, threshold in resources.items()}
    return AppliedThresholds(
        hot={**applied.hot, **high},
        ceiling={**applied.ceiling, **high},
        idle={**applied.idle, **{name: threshold.idle / 100 for name, threshold in resources.items()}},
        aim={**applied.aim, **{name: max(0.0, value - margin) for name, value in high.items()}},
    )


def filling(shared: Thresholds, headroom: float = 0.0) -> tuple[AppliedThresholds, AppliedThresholds | None]:
    """How far nodes are filled, for strategies in which no node is hot or idle: as a whole, and by production pods if
    these have a threshold. `headroom`: percentage points below the high thresholds."""

    def below(high: Mapping[Resource, float]) -> AppliedThresholds:
        ceiling = {name: max(0.0, value - headroom / 100) for name, value in high.items()}
        return AppliedThresholds(hot={}, ceiling=ceiling, idle={}, aim={})

    further = {name: threshold.high / 100 for name, threshold in shared.resources.items()}
    production = shares_of(shared.prod_high)
    return below({**shares_of(shared.high), **further}), below(production) if production else None


def capping_level(load: Array, base: Array, missing: float) -> float:
    """The load at which capping every one of these nodes frees `missing` (amount of the resource).

    With the nodes in descending order, the level that takes `missing` from the first k of them is
    (Σ load·base − missing) / Σ base; the right k is the first whose level is not below the load of the next node.
    """
    if not len(load):
        return 0.0
    order = np.argsort(-load, kind="stable")
    levels = (np.cumsum((load * base)[order]) - missing) / np.cumsum(base[order])
    enough = np.flatnonzero(levels[:-1] >= load[order][1:])
    return float(levels[enough[0] if len(enough) else -1])


def deviating(
    known: KnownLoads, above: ResourceThresholds, below: ResourceThresholds, floor: float, configured: AppliedThresholds
) -> AppliedThresholds:
    """The thresholds of `configured`; those with a distance are replaced by thresholds around the mean of the known
    loads. `floor`: 0..1.

    Idle nodes can only be filled by what other nodes give away. If the nodes above mean + high do not have enough, the
    hot threshold is lowered, at most to the mean, to the level at which they do. Otherwise a few empty nodes would stay
    empty next to many that are just below the threshold.
    """
    hot, ceiling = dict(configured.hot), dict(configured.ceiling)
    idle, aim = dict(configured.idle), dict(configured.aim)
    up, down = shares_of(above), shares_of(below)
    for column, resource in enumerate(MEASURED):
        load, base = known.load[:, column], known.base[:, column]
        measured = ~np.isnan(load)
        if not measured.any() or resource not in up.keys() | down.keys():
            continue
        mean = float(load[measured].mean())
        if resource in down:
            idle[resource] = max(0.0, mean - down[resource])
        if resource not in up:
            continue
        high = max(min(1.0, mean + up[resource]), floor)
        hot[resource], ceiling[resource], aim[resource] = high, high, mean
        if resource not in down:
            continue
        targets, sources = measured & known.target, measured & known.source
        # Pods that are not measured yet count as load, so that a node that they fill lacks nothing.
        lacking = np.maximum(0.0, idle[resource] - known.expected[targets, column])
        missing = float((lacking * base[targets]).sum())
        if missing:
            lowered = max(mean, capping_level(load[sources], base[sources], missing), floor)
            hot[resource] = min(high, lowered)
    return AppliedThresholds(hot=hot, ceiling=ceiling, idle=idle, aim=aim)
