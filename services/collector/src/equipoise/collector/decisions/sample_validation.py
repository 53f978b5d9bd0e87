"""Decides which samples are measurements. Everything else is unknown, with a reason, and never 0.

A single value is unknown when it is NaN, infinite, negative or above the capacity; when two series claim to be the
same node; when its samples cover too little of the window, are stale, lie in the future, or belong to an earlier object
of the same name. Two more checks compare values with one another (`check_plausibility`).
"""

import math
from collections.abc import Collection, Mapping
from statistics import median
from typing import Literal, NamedTuple, get_args

import msgspec

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import Aggregate, Origin, PodSeries, ResourceName, Sample, Statistic
from equipoise.collector.decisions.scrape_choice import Scrapes, choose_scrapes
from equipoise.collector.state.placement import PodName
from equipoise.contracts.bounds import MAX_BYTES
from equipoise.contracts.load.correction import FUTURE_TOLERANCE
from equipoise.contracts.messages.resources import Resources

Samples = Mapping[Aggregate, list[Sample]]
"""The samples of one resource and window, by the aggregate that was queried."""

MAX_EXCESS = 1.05
"""A usage above the capacity by at most this factor is a rounding error and capped; a larger one is unknown."""

SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 7 * 86_400.0
"""Seconds between two scrapes. Nothing is known of a series with other ones."""

MIN_ZEROS = 2
MAX_ZERO_SHARE = 0.5
"""Exactly 0 on that many nodes with pods, and on that share of them, is a fault of the metrics path."""

Reason = Literal[
    "no sample", "duplicate", "future", "stale", "gap", "young", "previous object", "invalid", "excess", "frozen",
    "zeros", "shared address", "other machine", "no interval", "short window", "no result", "unsupported",
    "no capacity",
]  # fmt: skip
"""Kinds of reasons why a usage is unknown: the label of a metric, and the key of `doctor`'s advice."""

_ROUNDING = 1e-9

STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


class UnknownUsage(NamedTuple):
    """Why a usage is unknown."""

    reason: Reason
    text: str
    """The explanation for people."""


class MeasurementTarget(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node or pod to be measured, as the API server has it."""

    since: float
    """The time at which it was created or began to run: earlier samples under its name belong to another object."""

    capacity: Resources
    """The capacity of its machine."""

    node: str = ""
    """The node on which a pod runs; "" for a node."""

    has_pods: bool = False
    """Whether pods ran on a node throughout the window; False for a pod."""


class ScrapeIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds between raw samples, per node, of the series that show the usage."""

    by_node: Mapping[str, float] = {}
    default: float | None = None
    """The interval of nodes that are not in `by_node`; None: unknown."""

    pod_series: PodSeries = "pods"
    """The series that show the usage of all pods, for intervals of pods."""

    machines: Mapping[ResourceName, Mapping[str, float]] = {}
    """Cores and bytes of the machine that each node's exporter measures, if that is known."""

    def of(self, node: str) -> float | None:
        return self.by_node.get(node, self.default)

    def or_those_of(self, other: "ScrapeIntervals") -> "ScrapeIntervals":
        """The intervals of others if none of these is known, with the series of these."""
        return self if self.default is not None else msgspec.structs.replace(other, pod_series=self.pod_series)

    @property
    def all(self) -> set[float]:
        """Every known interval."""
        return {*self.by_node.values()} | ({self.default} if self.default is not None else set())


class WindowCriteria(msgspec.Struct, frozen=True, kw_only=True):
    """What the samples of a window must meet. Seconds, except for `coverage`."""

    at: float
    length: float
    """The window is (at − length, at]."""

    coverage: float
    """0..1: a window with fewer samples is unknown."""

    max_age: float
    """The maximum age of the newest sample."""

    lookback: float
    """How far back the last sample of an ended series is searched for."""

    intervals: ScrapeIntervals
    names: NodeNames = NodeNames()
    """The names of all nodes of the cluster."""

    scrapes: Mapping[ResourceName, Scrapes] = {}
    """What measured each node last."""

    jobs: tuple[str, ...] = ()
    """Only series of these scrape jobs are queried; empty: of all."""


class NodeReading(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one resource of one node in one window."""

    mean: float | None = None
    statistics: Mapping[Statistic, float] = {}
    sampled_at: float | None = None
    """Time of the newest raw sample; None when there is none at all."""

    unknown: UnknownUsage | None = None
    """Why the mean is unknown; None when it is known."""

    @property
    def why(self) -> str:
        """Why the mean is unknown, for people; empty when it is known."""
        return self.unknown.text if self.unknown else ""


Readings = Mapping[ResourceName, Mapping[str, NodeReading]]
"""The readings of nodes, by resource and node."""


def scrape_intervals(samples: Collection[Sample], names: NodeNames, scrapes: Scrapes) -> ScrapeIntervals:
    """Intervals from measured spacings. The largest one of a node counts, so that coverage is never overestimated.

    `scrapes`: what measures each node; other samples of the node do not count.
    """
    by_node: dict[str, float] = {}
    for sample in samples:
        node = names.of(sample.node)
        if scrapes.get(node, sample.scrape) == sample.scrape and SHORTEST_INTERVAL <= sample.value <= LONGEST_INTERVAL:
            by_node[node] = max(sample.value, by_node.get(node, 0.0))
    return ScrapeIntervals(by_node=by_node, default=median(by_node.values()) if by_node else None)


def machine_sizes(samples: Collection[Sample], names: NodeNames, before: Scrapes) -> dict[str, float]:
    """The size of the machine of each node, by the scrape that measures it. `before`: what measured each node last."""
    scrapes = choose_scrapes(samples, names, before)
    return {
        node: sample.value
        for sample in samples
        if scrapes.get(node := names.of(sample.node)) == sample.scrape and math.isfinite(sample.value)
    }


def coverage(count: float, length: float, interval: float) -> float:
    """Share (0..1) of a window that `count` samples cover.

    A window holds length ÷ interval samples, or one fewer when its ends fall between two samples. A single sample
    covers nothing, as no rate can be computed from it.
    """
    return min(1.0, count / _full_count(length, interval))


def min_samples(criteria: WindowCriteria, interval: float) -> int:
    """How many samples at this interval cover enough of the window."""
    return max(2, math.ceil(criteria.coverage * _full_count(criteria.length, interval) - _ROUNDING))


def is_short(length: float, interval: float) -> bool:
    """Whether a window of this length may hold fewer than two samples, however complete they are."""
    return length < 2 * interval


def _full_count(length: float, interval: float) -> float:
    return max(2.0, math.floor(length / interval - 0.5))


def validate_nodes(
    targets: Mapping[str, MeasurementTarget], resource: ResourceName, samples: Samples, criteria: WindowCriteria
) -> tuple[dict[str, NodeReading], Scrapes]:
    """A reading for every target, and what measured each node; samples of other nodes are ignored."""
    names = criteria.names
    live = [sample for aggregate in ("newest", "last") for sample in samples.get(aggregate, ())]
    scrapes = choose_scrapes(live, names, criteria.scrapes.get(resource, {}))
    by_node: dict[str, dict[Aggregate, list[Sample]]] = {node: {} for node in targets}
    nodes: dict[Origin, str] = {}
    for aggregate, found in samples.items():
        # The other queries are about series that these two show.
        shows_series = aggregate in ("newest", "last")
        for sample in found:
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
    # Without a live series (it ended, or its last scrape failed) the last sample before that gives the age.
    ended = [sample for sample in samples.get("last", []) if math.isfinite(sample.value)]
    newest = alive[0] if alive else max(ended, key=lambda sample: sample.value, default=None)
    if newest is None and (shared := criteria.names.shared.get(node)):
        return unknown("shared address", f"no sample names it alone: {shared}")
    if newest is None or not math.isfinite(newest.value):
        return unknown("no sample", "no sample")
    sampled_at = newest.value
    if sampled_at > criteria.at + FUTURE_TOLERANCE:
        return unknown("future", f"newest sample lies {sampled_at - criteria.at:.0f} s in the future")
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
    mean, invalid = _single_value(own.get("mean", []), capacity)
    if problem := _not_covered(target, count, sampled_at, criteria.intervals.of(node), criteria) or invalid:
        return unknown(*problem, sampled_at)
    statistics = {name: _single_value(own.get(name, []), capacity)[0] for name in STATISTICS}
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


def known_usage(samples: list[Sample], capacity: float | None) -> float | None:
    """The usage in cores or bytes if there is exactly one valid sample, capped at the capacity; else None."""
    return _single_value(samples, capacity)[0]


def _single_value(samples: list[Sample], capacity: float | None) -> tuple[float | None, UnknownUsage | None]:
    """The value of the only sample, or None and why."""
    if not samples:
        return None, UnknownUsage("no sample", "no value")
    if len(samples) > 1:
        return None, UnknownUsage("duplicate", f"{len(samples)} values")
    return _usage(samples[0], capacity)


def _usage(sample: Sample, capacity: float | None) -> tuple[float | None, UnknownUsage | None]:
    """The usage in cores or bytes, capped at the capacity; or None and why."""
    value = sample.value
    if sample.share_of_capacity:
        if capacity is None:
            return None, UnknownUsage("no capacity", "value is a share of a machine whose size is not known")
        value *= capacity
    if not math.isfinite(value) or value < 0:
        return None, UnknownUsage("invalid", f"value is {value:g}")
    if capacity is not None and value > capacity * MAX_EXCESS:
        return None, UnknownUsage("excess", f"value is {value:g} where the machine has {capacity:g}")
    if value > MAX_BYTES:
        return None, UnknownUsage("excess", f"value is {value:g}, which no machine has")
    # + 0.0 turns a negative zero into a plain one.
    return (value if capacity is None else min(value, capacity)) + 0.0, None


def validate_pods(
    targets: Mapping[PodName, MeasurementTarget], resource: ResourceName, samples: Samples, criteria: WindowCriteria
) -> tuple[dict[PodName, float], Scrapes]:
    """Mean usage of the targets that were measured, and what measured the pods of each node; others are left out.

    Without samples of `count`, the source has already left out the series with too few samples.
    A pod that was created again under its name on another node has a series on both: the one of its node counts.
    """
    scrapes = choose_scrapes(samples.get("mean", ()), criteria.names, criteria.scrapes.get(resource, {}))
    counted = "count" in samples
    counts: dict[str, float] = {}
    for sample in samples.get("count", ()):
        counts[sample.series] = math.nan if sample.series in counts else sample.value
    begin = criteria.at - criteria.coverage * criteria.length
    accepted: dict[str, _AcceptedPods] = {}  # by node, of the last sample: nearly all of a node have one origin
    measured: dict[PodName, float] = {}  # NaN: unknown
    for sample in samples.get("mean", ()):
        name = (sample.namespace, sample.pod)
        pod = targets.get(name)
        if pod is None:
            continue
        bounds = accepted.get(pod.node)
        if bounds is None or bounds.origin is not sample.origin:
            bounds = accepted[pod.node] = _accepted_pods(pod, resource, sample.origin, scrapes, criteria)
        if not bounds.counts:
            continue
        if name in measured:
            measured[name] = math.nan
            continue
        covered = pod.since <= begin
        if covered and counted:
            covered = bounds.required <= counts.get(sample.series, 0.0) < math.inf
        if not covered or bounds.required == math.inf:
            usage = None
        elif 0.0 < sample.value <= bounds.most and not sample.share_of_capacity:  # nearly always
            usage = sample.value
        else:
            usage = _usage(sample, bounds.capacity)[0]
        measured[name] = math.nan if usage is None else usage
    for name in [name for name, usage in measured.items() if math.isnan(usage)]:
        del measured[name]
    return measured, scrapes


class _AcceptedPods(NamedTuple):
    """Which samples of the pods of a node are measurements."""

    origin: Origin
    counts: bool
    """Whether samples of this origin count."""

    required: float
    """The number of samples in the window; infinite if no number is enough."""

    capacity: float | None

    most: float
    """A positive value up to this one is a usage."""


def _accepted_pods(
    pod: MeasurementTarget, resource: ResourceName, origin: Origin, scrapes: Scrapes, criteria: WindowCriteria
) -> _AcceptedPods:
    node, interval = pod.node, criteria.intervals.of(pod.node)
    capacity: float | None = getattr(pod.capacity, resource)
    is_here = not origin.node or origin.node == node or not _is_elsewhere(origin.node, node, criteria.names)
    return _AcceptedPods(
        origin=origin,
        counts=is_here and scrapes.get(node, origin.scrape) == origin.scrape,
        required=_required(criteria, interval),
        capacity=capacity,
        most=MAX_BYTES if capacity is None else min(capacity, MAX_BYTES),
    )


def _required(criteria: WindowCriteria, interval: float | None) -> float:
    if interval is None or is_short(criteria.length, interval):
        return math.inf
    return min_samples(criteria, interval)


def _is_elsewhere(text: str, node: str, names: NodeNames) -> bool:
    """Whether the text names another node. The address of a proxy that is no node's does not rule it out."""
    named = names.of(text)
    return named != node and (names.has(named) or not names.by_text)


def check_plausibility(readings: Readings, with_pods: Collection[str]) -> dict[ResourceName, dict[str, NodeReading]]:
    """The same readings, with implausible ones made unknown. `with_pods`: nodes that ran pods throughout the window.

    - `frozen`: cpu of exactly 0 while memory is in use. The exporter repeats an old page, which rate() reads as idle.
    - `zeros`: half of the nodes with pods at exactly 0. The metrics path is broken, and not known for which nodes.
    """
    checked = {resource: dict(found) for resource, found in readings.items()}
    cpu, memory = checked.get("cpu", {}), checked.get("memory", {})
    for node, reading in cpu.items():
        other = memory.get(node)
        if reading.mean == 0.0 and other is not None and other.mean:
            text = "its cpu counter does not change while memory is in use"
            cpu[node] = _made_unknown(reading, "frozen", f"cpu: {text}")
            memory[node] = _made_unknown(other, "frozen", f"memory: {text}")
    return {resource: _without_zeros(resource, found, with_pods) for resource, found in checked.items()}


def _without_zeros(
    resource: ResourceName, readings: dict[str, NodeReading], with_pods: Collection[str]
) -> dict[str, NodeReading]:
    measured = [node for node, reading in readings.items() if reading.mean is not None and node in with_pods]
    zeros = [node for node in measured if readings[node].mean == 0.0]
    if len(zeros) < MIN_ZEROS or len(zeros) < MAX_ZERO_SHARE * len(measured):
        return readings
    text = f"{resource}: {len(zeros)} of {len(measured)} nodes with pods read exactly 0"
    # An empty node may really use nothing, but its 0 comes through the same path.
    return {
        node: _made_unknown(reading, "zeros", text) if reading.mean == 0.0 else reading
        for node, reading in readings.items()
    }


def _made_unknown(reading: NodeReading, reason: Reason, text: str) -> NodeReading:
    return msgspec.structs.replace(reading, mean=None, statistics={}, unknown=UnknownUsage(reason, text))
