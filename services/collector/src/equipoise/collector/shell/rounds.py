"""One round of measurement: runs every query about one window at the same time, and validates the results."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from equipoise.collector.decisions.query import (
    Aggregate,
    MetricQuery,
    NodeMatcher,
    ResourceName,
    Sample,
    SourceError,
    Statistic,
)
from equipoise.collector.decisions.recent_usage import MIN_SAMPLES
from equipoise.collector.decisions.scrape_choice import Scrapes
from equipoise.collector.decisions.validation.nodes import NodeReading, validate_nodes
from equipoise.collector.decisions.validation.plausibility import check_plausibility
from equipoise.collector.decisions.validation.pods import validate_pods
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria, min_samples
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.placement import PodName
from equipoise.contracts.load.correction import FUTURE_TOLERANCE, RESOURCES
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.async_tools.batching import in_thread_if_many

LAST_STEPS = 20
"""The last sample of a series that has ended is searched for in this number of steps over the lookback."""

STATISTIC_STEPS = 60
SAMPLES_PER_STEP = 4
"""A rate of CPU within a step needs some raw samples, or it shows the times of the scrapes instead of the usage."""

MAX_SAMPLED_PODS = 2_000
"""Number of pods with samples whose names are compared with those of the cluster."""

Results = dict[ResourceName, dict[Aggregate, list[Sample]]]


class NodeRound(msgspec.Struct, frozen=True, kw_only=True):
    """Readings by resource and node. A resource with a failed query is in `failed` only."""

    readings: Mapping[ResourceName, Mapping[str, NodeReading]]
    failed: Mapping[ResourceName, str]
    unknown_node: str = ""
    """The labels of one series, if there are samples but none of a known node."""

    sampled: frozenset[str] = frozenset()
    """The names of all nodes with samples. If a scrape measures nodes of this cluster, only such scrapes count."""

    targets: int = 0
    """Number of scraped targets that have these samples."""

    scrapes: Mapping[ResourceName, Scrapes] = {}
    """The scrape that measured each node, by resource."""


class PodRound(msgspec.Struct, frozen=True, kw_only=True):
    """Mean usage by pod. A resource without a value is unknown; when its query failed, `failed` has the reason."""

    usage: Mapping[PodName, Resources]
    failed: Mapping[ResourceName, str]
    supported: bool = True
    """Whether the source can measure pods."""

    sampled: frozenset[PodName] = frozenset()
    """The names of some pods with samples, of the same scrapes as `NodeRound.sampled`."""

    scrapes: Mapping[ResourceName, Scrapes] = {}
    """The scrape that measured the pods of each node, by resource."""


async def measure_nodes(
    source: MetricSource,
    targets: Mapping[str, MeasurementTarget],
    criteria: WindowCriteria,
    statistics: Sequence[Statistic] = (),
) -> NodeRound:
    """Query every node's usage in one window. A resource that the source does not support is unknown, not failed."""
    step = statistic_step(criteria.length, criteria.intervals.default)
    query = MetricQuery(
        subject="node",
        length=criteria.length,
        at=criteria.at,
        step=step or 0.0,
        jobs=criteria.jobs,
        nodes=criteria.nodes,
    )
    required: list[Aggregate] = ["mean", "count", "newest"]
    unsupported = _unsupported(source, query, required)
    resources = [resource for resource in RESOURCES if resource not in unsupported]
    results, failed = await _run(source, query, resources, [*required, *(statistics if step is not None else ())])
    names = criteria.names
    # Resources without samples of some nodes. The last samples of these nodes are searched for in the longer lookback.
    ended = [
        resource
        for resource, samples in results.items()
        if targets.keys() - {names.of(sample.node) for sample in samples["newest"]}
    ]
    if ended:
        query = msgspec.structs.replace(query, length=criteria.lookback, step=criteria.lookback / LAST_STEPS)
        last, last_failed = await _run(source, query, ended, ["last"])
        failed |= last_failed
        for resource, samples in last.items():
            results[resource] |= samples
    latest = criteria.at + FUTURE_TOLERANCE
    if any(sample.value > latest for samples in results.values() for sample in samples["newest"]):
        with suppress(SourceError):
            criteria = msgspec.structs.replace(criteria, responded_at=await source.time())
    readings: dict[ResourceName, Mapping[str, NodeReading]] = {}
    scrapes: dict[ResourceName, Scrapes] = {}
    for resource, samples in results.items():
        if resource not in failed:
            readings[resource], scrapes[resource] = await in_thread_if_many(
                len(targets), validate_nodes, targets, resource, samples, criteria
            )
    for resource, why in unsupported.items():
        unknown = NodeReading(unknown=UnknownUsage("unsupported", f"{resource}: {why}"))
        readings[resource] = dict.fromkeys(targets, unknown)
    checked = check_plausibility(readings, {node for node, target in targets.items() if target.has_pods})
    live = [
        sample for resource, samples in results.items() for sample in _own(samples["newest"], scrapes.get(resource))
    ]
    sampled = frozenset(names.of(sample.node) for sample in live)
    unknown_node = "" if not live or not targets or sampled & targets.keys() else live[0].series
    return NodeRound(
        readings=checked, failed=failed, unknown_node=unknown_node, sampled=sampled, scrapes=scrapes,
        targets=len({sample.origin.target for sample in live}),
    )  # fmt: skip


async def recent_samples(
    source: MetricSource,
    length: float,
    at: float,
    jobs: tuple[str, ...] = (),
    nodes: NodeMatcher | None = None,
) -> tuple[dict[ResourceName, list[Sample]], dict[ResourceName, str]]:
    """Samples of every node's mean usage over `length` seconds, and the errors of failed resources, both by resource.

    Both are empty if `length` is 0.
    """
    if not length:
        return {}, {}
    query = MetricQuery(subject="node", length=length, at=at, min_samples=MIN_SAMPLES, jobs=jobs, nodes=nodes)
    unsupported = _unsupported(source, query, ["mean"])
    results, failed = await _run(
        source, query, [resource for resource in RESOURCES if resource not in unsupported], ["mean"]
    )
    return {resource: samples["mean"] for resource, samples in results.items()}, failed


async def measure_pods(
    source: MetricSource,
    targets: Mapping[PodName, MeasurementTarget],
    criteria: WindowCriteria,
    *,
    rare: bool = False,
) -> PodRound:
    """Query every pod's mean usage in one window. `rare`: see MetricQuery."""
    counts = {min_samples(criteria, interval) for interval in criteria.intervals.all}
    query = MetricQuery(
        subject="pod", length=criteria.length, at=criteria.at, min_samples=min(counts, default=0.0),
        pod_series=criteria.intervals.pod_series, jobs=criteria.jobs, nodes=criteria.nodes, rare=rare,
    )  # fmt: skip
    unsupported = _unsupported(source, query, ["mean", "count"])
    resources = [resource for resource in RESOURCES if resource not in unsupported]
    # The query requires the lowest number of samples. If series need different numbers, they are also counted.
    results, failed = await _run(source, query, resources, ["mean"] if len(counts) == 1 else ["mean", "count"])
    usage, sampled, scrapes = await in_thread_if_many(len(targets), _pod_usage, targets, results, criteria)
    return PodRound(usage=usage, failed=failed, supported=bool(resources), sampled=sampled, scrapes=scrapes)


def _pod_usage(
    targets: Mapping[PodName, MeasurementTarget], results: Results, criteria: WindowCriteria
) -> tuple[dict[PodName, Resources], frozenset[PodName], dict[ResourceName, Scrapes]]:
    """The usage of each pod, the names of some pods with samples, and the scrapes that measured each resource."""
    means: dict[ResourceName, Mapping[PodName, float]] = {}
    scrapes: dict[ResourceName, Scrapes] = {}
    sampled: frozenset[PodName] = frozenset()
    for resource in RESOURCES:
        # The samples of a resource are released as soon as they are validated: those of both resources together are the
        # peak of this process's memory.
        if (samples := results.pop(resource, None)) is not None:
            means[resource], scrapes[resource] = validate_pods(targets, resource, samples, criteria)
            sampled = sampled or _some_names(samples.get("mean", ()), scrapes[resource])
    cpu, memory = means.get("cpu", {}), means.get("memory", {})
    usage = {name: Resources(cpu=used, memory=memory.get(name)) for name, used in cpu.items()}
    for name, used in memory.items():
        if name not in cpu:
            usage[name] = Resources(memory=used)
    return usage, sampled, scrapes


def _some_names(samples: Iterable[Sample], scrapes: Scrapes) -> frozenset[PodName]:
    return frozenset((sample.namespace, sample.pod) for sample in islice(_own(samples, scrapes), MAX_SAMPLED_PODS))


def _own(samples: Iterable[Sample], scrapes: Scrapes | None) -> Iterator[Sample]:
    """The samples of these scrapes; all samples if there are no scrapes."""
    own = set((scrapes or {}).values())
    return (sample for sample in samples if not own or sample.scrape in own)


def statistic_step(length: float, interval: float | None) -> float | None:
    """Seconds between inner evaluations of a statistic; None when the window is too short for any."""
    if interval is None:
        return None
    step = max(length / STATISTIC_STEPS, SAMPLES_PER_STEP * interval)
    return step if step <= length / SAMPLES_PER_STEP else None


def _variant(query: MetricQuery, resource: ResourceName, aggregate: Aggregate) -> MetricQuery:
    count = query.min_samples if aggregate == "mean" else 0.0
    return msgspec.structs.replace(query, resource=resource, aggregate=aggregate, min_samples=count)


def _unsupported(source: MetricSource, query: MetricQuery, required: Sequence[Aggregate]) -> dict[ResourceName, str]:
    """The resources of which the source does not support a required aggregate, and why."""
    unsupported: dict[ResourceName, str] = {}
    for resource in RESOURCES:
        reasons = (source.unsupported(_variant(query, resource, aggregate)) for aggregate in required)
        if why := next(filter(None, reasons), ""):
            unsupported[resource] = why
    return unsupported


async def _run(
    source: MetricSource, query: MetricQuery, resources: Sequence[ResourceName], aggregates: Sequence[Aggregate]
) -> tuple[Results, dict[ResourceName, str]]:
    """Results of this query by resource and aggregate, and the errors of failed resources, which have no results."""
    results: Results = {resource: {} for resource in resources}
    failed: dict[ResourceName, str] = {}

    async def run(query: MetricQuery) -> None:
        try:
            results[query.resource][query.aggregate] = await source.query(query)
        except SourceError as error:
            failed.setdefault(query.resource, str(error))

    async with asyncio.TaskGroup() as tasks:
        for resource in resources:
            for aggregate in aggregates:
                variant = _variant(query, resource, aggregate)
                if not source.unsupported(variant):
                    tasks.create_task(run(variant))
    return {resource: samples for resource, samples in results.items() if resource not in failed}, failed
