"""Which nodes have no known load, and why: asked as the collector asks, of every window."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.cli.doctor.environment import Surroundings
from equipoise.cli.doctor.finding import Finding
from equipoise.collector.decisions.expected_nodes import not_yet_expected, unmeasurable
from equipoise.collector.decisions.query import MetricQuery, SourceError
from equipoise.collector.decisions.sample_validation import NodeReading, Readings, Reason, ScrapeIntervals, UnknownUsage
from equipoise.collector.decisions.utilization import UtilizationStore
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.measurement import criteria_of, node_target
from equipoise.collector.shell.rounds import find_intervals, measure_nodes
from equipoise.collector.sources import MetricSource
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects import Node
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import KubeError

TO_DO: Mapping[Reason, str] = {
    "no sample": "is this node scraped (`up` in Prometheus), and does a label hold its name (prometheus.nodeLabels)?",
    "duplicate": "two series say they are this node: drop one scrape job, or choose one with prometheus.matchers",
    "future": "synchronise the clocks of this node, its exporter and Prometheus",
    "stale": "the scrapes of this node fail, or its exporter repeats an old value: look at `up` and its page",
    "gap": "scrapes of this node fail now and then, or have just begun: wait for a window, then look at `up`",
    "young": "wait: the node has not been here for long enough",
    "previous object": "wait: the samples are those of a node that had this name before",
    "invalid": "the exporter of this node shows what is no number: look at its page",
    "excess": "more than the machine has: the unit is another, or the series is the sum of several",
    "frozen": "its exporter repeats an old page: restart the exporter, or the kubelet",
    "zeros": "too many nodes read exactly 0, which none of them can be: look at one exporter's page",
    "no interval": "wait for two samples, or set collector.scrapeInterval",
    "no capacity": "the kubelet of this node tells no capacity: look at its status in `kubectl get node -o yaml`",
    "unsupported": "choose a profile that measures it, or give the query (collector.prometheus.custom)",
    "no result": "Prometheus did not answer that question: see above",
}


TO_DO_POLLED = "does {source} tell of this node? Ask it, and look at its log"

_NOW_ONLY = "{source} tells of this moment only: what is known of a window only the collector can tell"
_ASK_COLLECTOR = "look at its /readyz and at equipoise_collector_nodes_unknown"


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """A node of which something is not known in the shortest window."""

    node: str
    reason: Reason
    why: str
    excuse: str = ""
    """Why that is no fault; empty when it is one."""


async def nodes(around: Surroundings) -> list[Finding]:
    settings, load = around.configured.collector, around.configured.shared.load
    try:
        mine, others = selected(await around.nodes(), settings)
        async with around.open_source() as source:
            at = await source.time()
            if settings.source != "prometheus":  # without a memory: what it told before only the collector has
                unknown = await _untold(source, settings.source, mine, at, load.coverage.node_settling_period)
                told_now = _told_now(settings.source, len(mine), unknown, load)
                return [*told_now, *_never(source, load, at), *filtered(others, settings)]
            readings = await _read(source, mine, settings, load, at)
    except (KubeError, ConfigurationError, SourceError) as error:
        return [Finding(state="unknown", where="nodes", what=f"not looked at: {error}")]
    measured = UtilizationStore(load)
    for window in load.windows:
        for resource, found in readings[window.name].items():
            measured.record(window, resource, found, at)
    fresh = {node.metadata.name for node in mine if measured.why_unknown(node.metadata.name, at) is None}
    unknown = find_unknown(mine, readings[load.shortest.name], at, load.coverage.node_settling_period)
    return [
        *(told(each) for each in unknown),
        *coverage(len(mine), [each for each in unknown if each.node not in fresh], load),
        *(longer(window.name, mine, readings[window.name]) for window in load.windows[1:]),
        *filtered(others, settings),
    ]


def selected(every: Sequence[Node], settings: CollectorSettings) -> tuple[list[Node], list[Node]]:
    """The collector's nodes, and those that are not its."""
    wanted = settings.node_selector.items()
    mine = [node for node in every if wanted <= node.metadata.labels.items()]
    return mine, [node for node in every if not wanted <= node.metadata.labels.items()]


async def _read(
    source: MetricSource, mine: Sequence[Node], settings: CollectorSettings, load: LoadSettings, at: float
) -> dict[str, Readings]:
    """By window, resource and node. Raises SourceError when the scrape interval cannot be asked for."""
    known = {node.metadata.name: node_target(node, has_pods=True) for node in mine}
    intervals = ScrapeIntervals(default=settings.scrape_interval)
    if settings.scrape_interval is None:
        intervals = await find_intervals(source, load.shortest.length, at)
    found: dict[str, Readings] = {}
    for window in load.windows:
        answered = await measure_nodes(source, known, criteria_of(load, window, at, intervals))
        failed = {
            resource: dict.fromkeys(known, NodeReading(unknown=UnknownUsage("no result", f"{resource}: {why}")))
            for resource, why in answered.failed.items()
        }
        found[window.name] = {**answered.readings, **failed}
    return found


async def _untold(source: MetricSource, name: str, mine: Sequence[Node], at: float, settling: float) -> list[Unknown]:
    """The nodes of which the source tells nothing at this moment."""
    newest = await source.query(MetricQuery(subject="node", resource="cpu", aggregate="newest", length=0.0, at=at))
    heard = {sample.node for sample in newest}
    left_out = [node for node in mine if node.metadata.name not in heard]
    nothing = NodeReading(unknown=UnknownUsage("no sample", f"{name} does not tell of it"))
    return find_unknown(left_out, {"cpu": {node.metadata.name: nothing for node in left_out}}, at, settling)


def _told_now(source: str, count: int, unknown: Sequence[Unknown], load: LoadSettings) -> list[Finding]:
    """What can be said of a source without a memory."""
    return [
        *(told(each, TO_DO_POLLED.format(source=source)) for each in unknown),
        *coverage(count, unknown, load),
        Finding(state="unknown", where="windows", what=_NOW_ONLY.format(source=source), to_do=_ASK_COLLECTOR),
    ]


def _never(source: MetricSource, load: LoadSettings, at: float) -> list[Finding]:
    """The windows that it can never know."""
    asks = {
        window.name: MetricQuery(subject="node", resource="cpu", aggregate="mean", length=window.length, at=at)
        for window in load.windows
    }
    return [
        Finding(state="warning", where=f"window {name}", what=reason, to_do="give load.windows that it knows")
        for name, ask in asks.items()
        if (reason := source.unsupported(ask))
    ]


def _doubt(node: str, readings: Readings) -> UnknownUsage | None:
    """Why a resource of the node is not known; None when all are."""
    found = (by_node[node] for by_node in readings.values())
    return next((reading.unknown for reading in found if reading.unknown), None)


def find_unknown(mine: Sequence[Node], readings: Readings, at: float, settling: float) -> list[Unknown]:
    """The nodes of which a resource is not known."""
    return [
        Unknown(
            node=node.metadata.name,
            reason=doubt.reason,
            why=doubt.text,
            excuse=unmeasurable(node) or not_yet_expected(node, at, settling),
        )
        for node in mine
        if (doubt := _doubt(node.metadata.name, readings)) is not None
    ]


def told(unknown: Unknown, to_do: str = "") -> Finding:
    where = f"node {unknown.node}"
    if unknown.excuse:
        return Finding(state="ok", where=where, what=f"{unknown.why}; none is expected: {unknown.excuse}")
    return Finding(state="warning", where=where, what=unknown.why, to_do=to_do or TO_DO[unknown.reason])


def coverage(count: int, unknown: Sequence[Unknown], load: LoadSettings) -> list[Finding]:
    """Is enough known for scores and for evictions?"""
    expected = count - sum(bool(each.excuse) for each in unknown)
    fresh = count - len(unknown)
    if not expected:
        return [Finding(state="warning", where="nodes", what="no node is expected to have data")]
    share, limits = fresh / expected, load.coverage
    what = f"the load of {fresh} of {expected} nodes is known ({share:.0%})"
    to_do = "see the nodes above"
    if share < limits.score:
        what += f": below {limits.score:.0%} every score is neutral, and nothing is evicted"
        return [Finding(state="error", where="nodes", what=what, to_do=to_do)]
    if share < limits.eviction:
        what += f": below {limits.eviction:.0%} nothing is evicted"
        return [Finding(state="error", where="nodes", what=what, to_do=to_do)]
    return [Finding(state="ok", where="nodes", what=what)]


def longer(window: str, mine: Sequence[Node], readings: Readings) -> Finding:
    """Of a longer window: how many nodes have it. A young Prometheus has none, which policies make do with."""
    doubts = [doubt for node in mine if (doubt := _doubt(node.metadata.name, readings)) is not None]
    where = f"window {window}"
    what = f"known of {len(mine) - len(doubts)} of {len(mine)} nodes"
    if not doubts:
        return Finding(state="ok", where=where, what=what)
    what += f"; of one: {doubts[0].text}"
    if len(doubts) < len(mine):
        return Finding(state="ok", where=where, what=what)
    to_do = "wait until Prometheus has run for as long; is its retention longer than that?"
    return Finding(state="warning", where=where, what=what, to_do=to_do)


def filtered(others: Sequence[Node], settings: CollectorSettings) -> list[Finding]:
    if not others:
        return []
    selector = ", ".join(f"{label}={value}" for label, value in settings.node_selector.items())
    what = f"{len(others)} nodes are not looked at: collector.nodeSelector is {selector}"
    return [Finding(state="ok", where="nodes", what=what)]
