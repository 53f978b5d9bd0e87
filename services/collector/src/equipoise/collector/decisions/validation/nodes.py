"""The usage of nodes in a window, each with the reason if it is unknown.

The usage is unknown when it has no valid value, when two series claim to be the same node, or when the samples cover
too little of the window, are stale, lie in the future, or belong to an earlier node of the same name.
"""

import math
from collections.abc import Mapping
from typing import get_args

import msgspec

from equipoise.collector.decisions.query import Aggregate, Origin, ResourceName, Sample, Statistic
from equipoise.collector.decisions.scrape_choice import Scrapes, choose_scrapes
from equipoise.collector.decisions.validation.usage import MAX_EXCESS, Reason, UnknownUsage, single_value
from equipoise.collector.decisions.validation.window import (
    MeasurementTarget,
    Samples,
    WindowCriteria,
    coverage,
    is_short,
    min_samples,
)
from equipoise.contracts.load.correction import FUTURE_TOLERANCE

STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


class NodeReading(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one resource of one node in one window."""

    mean: float | None = None
    statistics: Mapping[Statistic, float] = {}
    sampled_at: float | None = None
    """Time of the newest raw sample; None when there is no sample."""

    unknown: UnknownUsage | None = None
    """Why the mean is unknown; None when it is known."""

    @property
    def why(self) -> str:
        """Why the mean is unknown, for people; empty when it is known."""
        return self.unknown.text if self.unknown else ""


Readings = Mapping[ResourceName, Mapping[str, NodeReading]]
"""The readings of nodes, by resource and node."""


def validate_nodes(
    targets: Mapping[str, MeasurementTarget], resource: ResourceName, samples: Samples, criteria: WindowCriteria
) -> tuple[dict[str, NodeReading], Scrapes]:
    """A reading for every target, and the scrape that measured each node. Samples of other nodes are ignored."""
    names = criteria.names
    live = [sample for aggregate in ("newest", "last") for sample in samples.get(aggregate, ())]
    scrapes = choose_scrapes(live, names, criteria.scrapes.get(resource, {}))
    by_node: dict[str, dict[Aggregate, list[Sample]]] = {node: {} for node in targets}
    nodes: dict[Origin, str] = {}
    for aggregate, of_aggregate in samples.items():
        # These two choose the series of a node. Of the other aggregates, `_node_reading` uses only that series.
        shows_series = aggregate in ("newest", "last")
        for sample in of_aggregate:
            origin = sample.origin
            if (node := nodes.get(origin)) is None:
                node = nodes[origin] = names.of(origin.node)
            of_node = by_node.get(node)
            if of_node is None or (shows_series and scrapes.get(node, origin.scrape) != origin.scrape):
                continue
            of_node.setdefault(aggregate, []).append(sample)
    readings = {
        node: _node_reading(node, target, resource, by_node[node], criteria) for node, target in targets.items()
    }
    return readings, scrapes


def _node_reading(
    node: str, target: MeasurementTarget, resource: ResourceName, samples: Samples, criteria: WindowCriteria
) -> NodeReading:
    def unknown(reason: Reason, text: str, sampled_at: float | None = None) -> NodeReading:
        return NodeReading(sampled_at=sampled_at, unknown=UnknownUsage(reason, f"{resource}: {text}"))

    alive = samples.get("newest", [])
    if len(alive) > 1:
        return unknown("duplicate", f"{len(alive)} series claim to be this node")
    # If no series is alive (it ended, or its last scrape failed), its last sample gives the age.
    ended = [sample for sample in samples.get("last", []) if math.isfinite(sample.value)]
    newest = alive[0] if alive else max(ended, key=lambda sample: sample.value, default=None)
    if newest is None and (shared := criteria.names.shared.get(node)):
        return unknown("shared address", f"no sample names it alone: {shared}")
    if newest is None or not math.isfinite(newest.value):
        return unknown("no sample", "no sample")
    sampled_at = newest.value
    if sampled_at > criteria.at + FUTURE_TOLERANCE:
        ahead = sampled_at - max(criteria.at, criteria.responded_at)
        if ahead > FUTURE_TOLERANCE:
            return unknown("future", f"newest sample lies {ahead:.0f} s in the future")
        sampled_at = criteria.at  # it was scraped while the query waited
    if sampled_at < target.since:
        return unknown("previous object", "newest sample is older than the node")
    capacity: float | None = getattr(target.capacity, resource)
    machine = criteria.intervals.machines.get(resource, {}).get(node)
    if machine is not None and capacity is not None and machine > capacity * MAX_EXCESS:
        return unknown(
            "other machine", f"its exporter measures {machine:g} where the node has {capacity:g}", sampled_at
        )
    own = {
        aggregate: [sample for sample in of_aggregate if sample.series == newest.series]
        for aggregate, of_aggregate in samples.items()
    }
    counts = own.get("count", [])
    count = counts[0].value if len(counts) == 1 else math.nan
    mean, invalid = single_value(own.get("mean", []), capacity)
    if problem := _not_covered(target, count, sampled_at, criteria.intervals.of(node), criteria) or invalid:
        return unknown(*problem, sampled_at)
    statistics = {name: single_value(own.get(name, []), capacity)[0] for name in STATISTICS}
    measured = {name: value for name, value in statistics.items() if value is not None}
    return NodeReading(mean=mean, statistics=measured, sampled_at=sampled_at)


def _not_covered(
    target: MeasurementTarget, count: float, sampled_at: float, interval: float | None, criteria: WindowCriteria
) -> UnknownUsage | None:
    """Why `count` samples (NaN: unknown), the newest at `sampled_at`, do not cover the window; None when they do."""
    age, length = criteria.at - sampled_at, criteria.length
    if age > criteria.max_age:
        return UnknownUsage("stale", f"newest sample is {age:.0f} s old")
    if interval is None:
        return UnknownUsage("no interval", "scrape interval not known yet (fewer than two samples of a series)")
    if is_short(length, interval):
        return UnknownUsage("short window", f"a window of {length:g} s at one sample per {interval:g} s holds no two")
    lifetime = criteria.at - target.since
    if lifetime < criteria.coverage * length:
        return UnknownUsage("young", f"has existed for {lifetime:.0f} s of a window of {length:g} s")
    count = count if math.isfinite(count) else 0.0
    if count < min_samples(criteria, interval):
        share = coverage(count, length, interval)
        return UnknownUsage("gap", f"samples cover {share:.0%} of a window of {length:g} s at one per {interval:g} s")
    return None
