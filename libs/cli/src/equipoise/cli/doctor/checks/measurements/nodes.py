"""Checks which nodes have an unknown load, and why. Every window is measured as the collector measures it."""

import math
from collections.abc import Mapping, Sequence, Set

import msgspec

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.collector.decisions.expected_nodes import not_yet_expected, unmeasurable
from equipoise.collector.decisions.node_names import node_names, texts_of
from equipoise.collector.decisions.other_cluster import ADVICE, nodes_of_another_cluster
from equipoise.collector.decisions.pod_times import running_since
from equipoise.collector.decisions.query import MetricQuery, SourceError
from equipoise.collector.decisions.validation.nodes import NodeReading, Readings
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.usage import Reason, UnknownUsage
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.intervals import find_intervals
from equipoise.collector.shell.measurement import criteria_of, node_target
from equipoise.collector.shell.rounds import measure_nodes
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.utilization import UtilizationStore
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import PODS, Kube, KubeError

FIXES: Mapping[Reason, str] = {
    "no sample": "check that the node is scraped (`up` in Prometheus) and a label has its name (prometheus.nodeLabels)",
    "duplicate": "two series have the name of this node: remove a scrape job, or select one with prometheus.matchers",
    "future": "synchronize the clocks of this node, of its exporter and of Prometheus",
    "stale": "scrapes of this node fail, or its exporter repeats an old value: check `up` and the exporter's page",
    "gap": "some scrapes of this node fail, or have just begun: wait for one window, then check `up`",
    "young": "wait: the node is too new",
    "previous object": "wait: the samples are those of an earlier node with this name",
    "invalid": "the exporter of this node reports something that is not a number: check its page",
    "excess": "the value exceeds the capacity of the machine: wrong unit, or a sum of several series",
    "frozen": "the exporter repeats an old page: restart the exporter or the kubelet",
    "zeros": "too many nodes read exactly 0, which is impossible: check the page of an exporter",
    "no interval": "wait for two samples, or set collector.scrapeInterval",
    "other machine": "node-exporter must see what the kubelet sees: mount the /proc of the node's container; after a "
    "change of the machine, restart its kubelet",
    "shared address": "give each node an address of its own, or the series a label with the node's name",
    "short window": "scrape this node more often, or configure a longer window (load.windows)",
    "no capacity": "the kubelet reports no capacity: check the status in `kubectl get node -o yaml`",
    "unsupported": "choose a profile that measures it, or add the query (collector.prometheus.custom)",
    "no result": "Prometheus did not return a result: see above",
}

_POLLED_FIX = "check that {source} has this node: query it, and read its log"
_COLLECTOR_FIX = "see the collector's /readyz and equipoise_collector_nodes_unknown"


class UnknownNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node with a resource that is unknown in the shortest window."""

    node: str
    reason: Reason
    why: str
    expected: str = ""
    """Why no data of this node is expected; empty if data is expected."""


async def nodes(environment: Environment) -> list[Finding]:
    settings, load = environment.settings.collector, environment.settings.shared.load
    settling = load.coverage.node_settling_period
    try:
        matching, others = selected(await environment.nodes(), settings)
        async with environment.open_source() as source:
            at = await source.time()
            if settings.source != "prometheus":
                return [
                    *await _without_history(source, settings, matching, at, load),
                    *_unsupported_windows(source, load, at),
                    *_not_selected(others, settings),
                ]
            sampled: set[str] = set()
            readings = await _measure(source, matching, (*matching, *others), settings, load, at, sampled)
            if _has_zeros(readings):  # which are true of nodes without pods
                running = await _running_since(environment.api(), load, at)
                readings = await _measure(source, matching, (*matching, *others), settings, load, at, sampled, running)
    except (KubeError, ConfigurationError, SourceError) as error:
        return [Finding("unknown", "nodes", f"not checked: {error}")]
    measured = UtilizationStore(load)
    for window in load.windows:
        for resource, by_node in readings[window.name].items():
            measured.record(window, resource, by_node, at)
    fresh = {node.metadata.name for node in matching if measured.why_unknown(node.metadata.name, at) is None}
    unknown = find_unknown(matching, readings[load.shortest.name], at, settings, settling)
    return [
        *_other_cluster(sampled, [node.metadata.name for node in (*matching, *others)]),
        *(node_finding(node) for node in unknown),
        coverage_finding(
            len(matching),
            [node for node in unknown if node.node not in fresh],
            load,
            in_part=sum(node.node in fresh for node in unknown),
        ),
        *(window_finding(window.name, matching, readings[window.name]) for window in load.windows[1:]),
        *_not_selected(others, settings),
    ]


def selected(every: Sequence[Node], settings: CollectorSettings) -> tuple[list[Node], list[Node]]:
    """The nodes that match the collector's selector, and the others."""
    selector = settings.node_selector.items()
    matching = [node for node in every if selector <= node.metadata.labels.items()]
    return matching, [node for node in every if not selector <= node.metadata.labels.items()]


async def _measure(
    source: MetricSource,
    matching: Sequence[Node],
    every: Sequence[Node],
    settings: CollectorSettings,
    load: LoadSettings,
    at: float,
    sampled: set[str],
    pods_since: Mapping[str, float] | None = None,
) -> dict[str, Readings]:
    """The readings by window, resource and node. Raises SourceError if the scrape interval cannot be determined.

    Adds the names of all nodes that have samples to `sampled`. `pods_since`: the time since which each node has
    pods; by default, every node has had pods for long.
    """
    names = node_names({node.metadata.name: texts_of(node) for node in every})
    intervals = ScrapeIntervals(default=settings.scrape_interval)
    if settings.scrape_interval is None:
        intervals = await find_intervals(source, load.shortest.length, at, names)
    found: dict[str, Readings] = {}
    for window in load.windows:
        begin = at - window.length
        targets = {
            node.metadata.name: node_target(
                node,
                at,
                has_pods=pods_since is None or pods_since.get(node.metadata.name, math.inf) <= begin,
            )
            for node in matching
        }
        results = await measure_nodes(source, targets, criteria_of(load, window, at, intervals, names))
        sampled |= results.sampled
        failed = {
            resource: dict.fromkeys(targets, NodeReading(unknown=UnknownUsage("no result", f"{resource}: {why}")))
            for resource, why in results.failed.items()
        }
        found[window.name] = {**results.readings, **failed}
    return found


def _has_zeros(readings: Mapping[str, Readings]) -> bool:
    return any(
        reading.unknown is not None and reading.unknown.reason == "zeros"
        for of_window in readings.values()
        for by_node in of_window.values()
        for reading in by_node.values()
    )


async def _running_since(kube: Kube, load: LoadSettings, at: float) -> dict[str, float]:
    """The time since which each node has pods. Raises KubeError."""
    since: dict[str, float] = {}
    async for page in kube.pages(PODS):
        for pod in page:
            begun = running_since(pod, at, load.pod_start_timeout)
            if begun is not None:
                since[pod.spec.node_name] = min(begun, since.get(pod.spec.node_name, math.inf))
    return since


async def _without_history(
    source: MetricSource, settings: CollectorSettings, matching: Sequence[Node], at: float, load: LoadSettings
) -> list[Finding]:
    """The findings for a source that has only current values. Only the collector has their history."""
    name = settings.source
    newest = await source.query(MetricQuery(subject="node", resource="cpu", aggregate="newest", length=0.0, at=at))
    sampled = {sample.node for sample in newest}
    missing = [node for node in matching if node.metadata.name not in sampled]
    reading = NodeReading(unknown=UnknownUsage("no sample", f"{name} has no sample of it"))
    readings: Readings = {"cpu": {node.metadata.name: reading for node in missing}}
    unknown = find_unknown(missing, readings, at, settings, load.coverage.node_settling_period)
    message = f"{name} has only current values: windows are known to the collector alone"
    return [
        *(node_finding(each, _POLLED_FIX.format(source=name)) for each in unknown),
        coverage_finding(len(matching), unknown, load),
        Finding("unknown", "windows", message, _COLLECTOR_FIX),
    ]


def _other_cluster(sampled: Set[str], known: Sequence[str]) -> list[Finding]:
    why = nodes_of_another_cluster(sampled, frozenset(known))
    return [Finding("error", "nodes", f"Prometheus {why}; nothing is published of it", ADVICE)] if why else []


def _unsupported_windows(source: MetricSource, load: LoadSettings, at: float) -> list[Finding]:
    queries = {
        window.name: MetricQuery(subject="node", resource="cpu", aggregate="mean", length=window.length, at=at)
        for window in load.windows
    }
    return [
        Finding("warning", f"window {name}", reason, "choose load.windows that it supports")
        for name, query in queries.items()
        if (reason := source.unsupported(query))
    ]


def _why_unknown(node: str, readings: Readings) -> UnknownUsage | None:
    """The reason for the first resource that is unknown; None if all are known."""
    found = (by_node[node] for by_node in readings.values())
    return next((reading.unknown for reading in found if reading.unknown), None)


def find_unknown(
    matching: Sequence[Node], readings: Readings, at: float, settings: CollectorSettings, settling: float
) -> list[UnknownNode]:
    """The nodes with a resource that is unknown."""
    return [
        UnknownNode(
            node=node.metadata.name,
            reason=unknown.reason,
            why=unknown.text,
            expected=unmeasurable(node, settings.unmeasured_nodes) or not_yet_expected(node, at, settling),
        )
        for node in matching
        if (unknown := _why_unknown(node.metadata.name, readings)) is not None
    ]


def node_finding(unknown: UnknownNode, fix: str = "") -> Finding:
    subject = f"node {unknown.node}"
    if unknown.expected:
        return Finding("ok", subject, f"{unknown.why}; no data is expected: {unknown.expected}")
    return Finding("warning", subject, unknown.why, fix or FIXES[unknown.reason])


def coverage_finding(count: int, unknown: Sequence[UnknownNode], load: LoadSettings, *, in_part: int = 0) -> Finding:
    """The share of known nodes against the thresholds for scores and evictions.

    `in_part`: nodes of which only one resource or another window is known; the share counts them as collectors do.
    """
    expected = count - sum(bool(each.expected) for each in unknown)
    fresh = count - len(unknown)
    if not expected:
        return Finding("warning", "nodes", "no node is expected to have data")
    share, limits = fresh / expected, load.coverage
    message = f"the load of {fresh - in_part} of {expected} nodes is known"
    message += f", and of {in_part} in part ({share:.0%} together)" if in_part else f" ({share:.0%})"
    if share >= limits.eviction:
        return Finding("ok", "nodes", message)
    if share < limits.score:
        message += f": below {limits.score:.0%} scores are neutral and nothing is evicted"
    else:
        message += f": below {limits.eviction:.0%} nothing is evicted"
    return Finding("error", "nodes", message, "see the nodes above")


def window_finding(window: str, matching: Sequence[Node], readings: Readings) -> Finding:
    """How many nodes have a known load in this longer window.

    It is never an error: policies work without this window, and a new Prometheus does not have it yet.
    """
    unknown = [why for node in matching if (why := _why_unknown(node.metadata.name, readings)) is not None]
    subject = f"window {window}"
    message = f"known for {len(matching) - len(unknown)} of {len(matching)} nodes"
    if not unknown:
        return Finding("ok", subject, message)
    message += f"; unknown for one because {unknown[0].text}"
    if len(unknown) < len(matching):
        return Finding("ok", subject, message)
    fix = "wait until Prometheus has run for this long, and check that its retention is longer"
    return Finding("warning", subject, message, fix)


def _not_selected(others: Sequence[Node], settings: CollectorSettings) -> list[Finding]:
    if not others:
        return []
    selector = ", ".join(f"{label}={value}" for label, value in settings.node_selector.items())
    return [Finding("ok", "nodes", f"{len(others)} nodes are not measured: collector.nodeSelector is {selector}")]
