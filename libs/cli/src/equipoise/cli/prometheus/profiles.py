"""Finds the profile of queries that fits a Prometheus, by the metrics that it has of nodes of this cluster."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, get_args

import msgspec

from equipoise.cli.effective.text import setting_at
from equipoise.cli.progress import Activity
from equipoise.cli.prometheus.counted_source import CountedSource
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.collector.decisions.interval_pods import interval_pods
from equipoise.collector.decisions.node_names import NodeNames, node_names, texts_of
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries
from equipoise.collector.decisions.profiles.query_profile import MemoryKind, QueryProfile
from equipoise.collector.decisions.query import MetricQuery, SourceError, Subject
from equipoise.collector.decisions.validation.nodes import NodeReading, Readings
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.usage import Reason
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria, is_short, min_samples
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.intervals import find_intervals, find_pod_intervals
from equipoise.collector.shell.measurement import criteria_of, node_target
from equipoise.collector.shell.rounds import measure_nodes, measure_pods
from equipoise.collector.sources import MetricSource
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.placement import PodName
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.configuration.env_overrides import overridden
from equipoise.runtime.configuration.loading import all_sections
from equipoise.runtime.process.clock import Clock

SCRAPE_FIX = (
    "let it scrape /metrics/resource of the kubelets with a label that has the node's name, or node-exporter and "
    "cAdvisor as kube-prometheus-stack does (docs/metrics.md)"
)
LABEL_FIX = (
    "add the label that has the node's name to collector.prometheus.nodeLabels, or to the scrape job; check "
    "that this Prometheus has this cluster (collector.prometheus.matchers)"
)


class ProfileMatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile measures now, in the shortest window and as the collector measures it."""

    nodes: Mapping[str, int] = {}
    """The number of nodes whose usage is known, by resource that the profile measures."""

    sampled: Mapping[str, int] = {}
    """The number of nodes with series, by resource that the profile measures."""

    one_target_each: bool = True
    """Whether there are as many targets as nodes.

    Fewer mean a proxy, or somebody who writes series with names of nodes.
    """

    unknown: str = ""
    """Why the usage of one of these nodes is not known."""

    foreign_series: str = ""
    """The labels of one series of an unknown node, if no series belongs to a node of the cluster."""

    pods: int = 0
    """The number of pods whose usage is known."""

    sampled_pods: int = 0
    """The number of pods with series; 0 if CPU or memory of pods is not measured."""

    unknown_pods: str = ""
    """Why the usage of most pods with series is unknown; empty if the usage of at least half of them is known."""

    unsupported: tuple[str, ...] = ()
    """Why queries were skipped that this profile does not support."""

    problem: str = ""
    """Why the profile could not be matched; empty if it was."""

    @property
    def matches(self) -> bool:
        """Whether the source has the series of the profile.

        The usage may not be known until some time after its start.
        """
        return not self.problem and not self.foreign_series and bool(self.sampled) and all(self.sampled.values())


async def match_profile(
    source: MetricSource, nodes: Sequence[Node] | None, load: LoadSettings, interval: float | None = None
) -> ProfileMatch:
    """The match of one profile. `nodes`: those of the cluster; None: unknown, so that any node counts. `interval`: the
    configured scrape interval in seconds; None: it is measured."""
    unsupported: list[str] = []
    try:
        at = await source.time()
        if nodes is None:
            names, targets = NodeNames(), await _sampled_nodes(source, at)
        else:
            names = node_names({node.metadata.name: texts_of(node) for node in nodes})
            targets = {node.metadata.name: node_target(node, at) for node in nodes}
        shortest = load.shortest
        intervals = ScrapeIntervals(default=interval)
        if interval is None:
            intervals = await find_intervals(source, shortest.length, at, names)
        results = await measure_nodes(source, targets, criteria_of(load, shortest, at, intervals, names))
        if results.failed:
            return ProfileMatch(problem=next(iter(results.failed.values())))
        pod_intervals = await find_pod_intervals(source, shortest.length, at, names, {})
        query = MetricQuery(subject="pod", length=shortest.length, at=at, pod_series=pod_intervals.pod_series)
        pod_targets = await _sampled_pods(source, query, names, unsupported)
        if interval is None:
            pods_by_node = _interval_pods(pod_targets)
            pod_intervals = await find_pod_intervals(source, shortest.length, at, names, pods_by_node)
        criteria = criteria_of(load, shortest, at, pod_intervals.or_those_of(intervals), names)
        measured = (await measure_pods(source, pod_targets, criteria)).usage if pod_targets else {}
    except SourceError as error:
        return ProfileMatch(problem=str(error))
    by_resource = {
        resource: list(readings.values())
        for resource, readings in results.readings.items()
        if not any(_reason(reading) == "unsupported" for reading in readings.values())
    }
    every = [reading for readings in by_resource.values() for reading in readings]
    pods = sum(None not in (used.cpu, used.memory) for used in measured.values())
    return ProfileMatch(
        nodes={name: sum(reading.mean is not None for reading in readings) for name, readings in by_resource.items()},
        sampled={name: sum(map(_is_sampled, readings)) for name, readings in by_resource.items()},
        unknown=next((reading.why for reading in every if reading.why and _is_sampled(reading)), ""),
        one_target_each=results.targets >= len(results.sampled & targets.keys()),
        foreign_series=results.unknown_node,
        pods=pods,
        sampled_pods=len(pod_targets),
        unknown_pods=_why_unknown(criteria, measured.values(), pods) if 2 * pods < len(pod_targets) else "",
        unsupported=tuple(dict.fromkeys((*_unsupported_nodes(results.readings), *unsupported))),
    )


async def match_current(source: MetricSource, nodes: Sequence[Node] | None) -> ProfileMatch:
    """The match of a source that has only current values: its nodes and pods with a value."""
    names = None if nodes is None else {node.metadata.name for node in nodes}
    counts: dict[str, int] = {}
    foreign_series = ""
    pods_by_resource: list[set[PodName]] = []
    unsupported: list[str] = []
    try:
        at = await source.time()
        for subject, resource in product(get_args(Subject), RESOURCES):
            query = MetricQuery(subject=subject, resource=resource, aggregate="newest", length=0.0, at=at)
            if reason := source.unsupported(query):
                unsupported.append(reason)
                continue
            samples = await source.query(query)
            if subject == "pod":
                pods_by_resource.append({(sample.namespace, sample.pod) for sample in samples})
                continue
            counts[resource] = len({sample.node for sample in samples if names is None or sample.node in names})
            if samples and not counts[resource]:
                foreign_series = foreign_series or samples[0].series
    except SourceError as error:
        return ProfileMatch(problem=str(error))
    complete = len(pods_by_resource) == len(RESOURCES)
    number = len(set.intersection(*pods_by_resource)) if complete else 0
    return ProfileMatch(
        nodes=counts, sampled=counts, foreign_series=foreign_series, pods=number, sampled_pods=number,
        unsupported=tuple(dict.fromkeys(unsupported)),
    )  # fmt: skip


async def _sampled_nodes(source: MetricSource, at: float) -> dict[str, MeasurementTarget]:
    query = MetricQuery(subject="node", aggregate="newest", length=0.0, at=at)
    samples = [] if source.unsupported(query) else await source.query(query)
    return {sample.node: MeasurementTarget(since=0.0, capacity=Resources()) for sample in samples}


async def _sampled_pods(
    source: MetricSource, query: MetricQuery, names: NodeNames, unsupported: list[str]
) -> dict[PodName, MeasurementTarget]:
    """All pods with series. If a resource is not supported, the result is empty and `unsupported` gets the reasons."""
    for resource in RESOURCES:
        if reason := source.unsupported(msgspec.structs.replace(query, resource=resource)):
            unsupported.append(reason)
    if unsupported:
        return {}
    return {
        (sample.namespace, sample.pod): MeasurementTarget(since=0.0, capacity=Resources(), node=names.of(sample.node))
        for sample in await source.query(query)
    }


def _interval_pods(pods: Mapping[PodName, MeasurementTarget]) -> dict[str, tuple[PodName, ...]]:
    """The pods whose usage is read to determine scrape intervals, by node."""
    since: defaultdict[str, dict[PodName, float]] = defaultdict(dict)
    for name, pod in pods.items():
        since[pod.node][name] = pod.since
    return {node: interval_pods(pods_since) for node, pods_since in since.items()}


def _why_unknown(criteria: WindowCriteria, measured: Collection[Resources], pods: int) -> str:
    """Why the usage of pods is unknown. `pods`: the number of pods whose usage is known.

    The resource is named only if the other one is known for more pods.
    """
    interval, window = criteria.intervals.default, f"a window of {criteria.length:g} s"
    if interval is None:
        return "none has two samples yet"
    if is_short(criteria.length, interval):
        return f"{window} at one sample per {interval:g} s holds no two"
    known = {name: sum(getattr(used, name) is not None for used in measured) for name in RESOURCES}
    least = min(known, key=lambda name: known[name])
    resource = f"{least}: " if known[least] < max(known.values()) else ""
    have = "the others do not have" if pods else "none has"
    return f"{resource}{have} {min_samples(criteria, interval)} samples in {window}, at one per {interval:g} s"


def _reason(reading: NodeReading) -> Reason | None:
    return reading.unknown.reason if reading.unknown else None


def _is_sampled(reading: NodeReading) -> bool:
    return _reason(reading) not in ("no sample", "shared address", "unsupported")


def _unsupported_nodes(readings: Readings) -> Iterator[str]:
    for by_node in readings.values():
        yield from (reading.why for reading in by_node.values() if _reason(reading) == "unsupported")


async def match_profiles(
    settings: CollectorSettings,
    nodes: Sequence[Node] | None,
    *,
    load: LoadSettings,
    clock: Clock,
    without: Collection[str] = (),
    activity: Activity | None = None,
) -> dict[str, ProfileMatch]:
    """The match of every profile that measures `load.memory`, except `custom`, whose queries are not known, and those
    of `without`. `activity`: counts the queries.

    Stops after a profile that measures pods and all nodes, each node by a target of its own: no other can be better.
    Raises SourceError if Prometheus does not respond.
    """
    matches: dict[str, ProfileMatch] = {}
    for name in PROFILES:
        if name == "custom" or name in without or load.memory not in _profile(name).memory:
            continue
        changed = msgspec.structs.replace(settings.prometheus, profile=name, custom=CustomQueries())
        opened = PrometheusSource(changed, memory=load.memory, clock=clock)
        source = opened if activity is None else CountedSource(opened, activity)
        try:
            await source.time()
            matches[name] = match = await match_profile(source, nodes, load, settings.scrape_interval)
        finally:
            source.close()
        complete = match.matches and nodes is not None and min(match.nodes.values()) == len(nodes)
        if complete and match.pods and match.one_target_each:
            break
    return matches


def best_profile(matches: Mapping[str, ProfileMatch]) -> str | None:
    """The best of the matching profiles; None: no profile matches.

    A profile that measures pods is better than one that does not. If both do, one with a target on each node is better,
    then one that measures more nodes, then one with series of pods, then one with more series of nodes, then the first.
    """
    fitting = {name: match for name, match in matches.items() if match.matches}

    def order(name: str) -> tuple[bool, bool, int, bool, int]:
        match = fitting[name]
        measured, sampled = (min(counts.values(), default=0) for counts in (match.nodes, match.sampled))
        return match.pods > 0, match.one_target_each, measured, match.sampled_pods > 0, sampled

    return max(fitting, key=order, default=None)  # max() returns the first of several equal profiles


def no_profile_problem(matches: Mapping[str, ProfileMatch], memory: MemoryKind) -> tuple[str, str]:
    """Why no profile fits, in one sentence, and what to do."""
    foreign = next(((name, match.foreign_series) for name, match in matches.items() if match.foreign_series), None)
    if foreign is not None:
        return f"profile {foreign[0]}: no series has a node of this cluster; one has {foreign[1]}", LABEL_FIX
    problems = [
        f"profile {name} cannot be queried: {match.problem}" for name, match in matches.items() if match.problem
    ]
    if problems:
        return "; ".join(problems), "check the limits and the log of Prometheus"
    missing = (f"{' and '.join(_missing(name, match, memory))} ({name})" for name, match in matches.items())
    return f"no profile fits, because these series are missing: {', '.join(missing)}", SCRAPE_FIX


def _missing(name: str, match: ProfileMatch, memory: MemoryKind) -> list[str]:
    """The series of nodes that a profile needs and that Prometheus does not have."""
    profile = _profile(name)
    node_queries = {"cpu": profile.cpu["node"], "memory": profile.memory[memory]["node"]}
    return [node_queries[resource].metric for resource in RESOURCES if not match.sampled.get(resource)]


def _profile(name: str) -> QueryProfile:
    return PROFILES[name](CustomQueries())


def configured_profile(document: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """The profile that the configuration or a variable names; None: only the default applies.

    Raises ConfigurationError.
    """
    section = overridden(document, environment, all_sections(SERVICE_SETTINGS), ())
    profile = setting_at(section, "collector", "prometheus", "profile")
    return profile if isinstance(profile, str) else None
