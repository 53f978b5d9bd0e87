"""Which nodes have no known load, and why: asked as the collector asks, of every window."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.cli.doctor.finding import Finding
from equipoise.cli.doctor.surroundings import Surroundings
from equipoise.collector.expected import not_yet_expected, unmeasurable
from equipoise.collector.measuring import criteria_of, known_node
from equipoise.collector.questions import SourceError
from equipoise.collector.readings import Intervals, Reading, Reason
from equipoise.collector.rounds import find_intervals, measure_nodes
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import MetricSource
from equipoise.contracts.objects import Node
from equipoise.contracts.settings import LoadSettings
from equipoise.runtime.kube import KubeError
from equipoise.runtime.settings import ConfigurationError

TO_DO: Mapping[Reason, str] = {
    "no sample": "is this node scraped (`up` in Prometheus), and does a label hold its name (prometheus.nodeLabels)?",
    "duplicate": "two series say they are this node: drop one scrape job, or choose one with prometheus.matchers",
    "future": "synchronise the clocks of this node, its exporter and Prometheus",
    "stale": "the scrapes of this node fail, or its exporter repeats an old value: look at `up` and its page",
    "gap": "scrapes of this node fail now and then, or have just begun: wait for a window, then look at `up`",
    "young": "wait: the node has not been here for long enough",
    "namesake": "wait: the samples are those of a node that had this name before",
    "invalid": "the exporter of this node shows what is no number: look at its page",
    "excess": "more than the machine has: the unit is another, or the series is the sum of several",
    "zeros": "too many nodes read exactly 0, which none of them can be: look at one exporter's page",
    "no interval": "wait for two samples, or set collector.scrapeInterval",
    "not answered": "Prometheus did not answer that question: see above",
}


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """A node without a known load."""

    node: str
    reason: Reason
    why: str
    excuse: str = ""
    """Why that is no fault; empty when it is one."""


async def nodes(around: Surroundings) -> list[Finding]:
    settings, load = around.configured.collector, around.configured.shared.load
    try:
        every = await around.nodes()
        source = around.source(settings, load, around.clock)
    except (KubeError, ConfigurationError) as error:
        return [Finding(state="unknown", where="nodes", what=f"not looked at: {error}")]
    mine, others = selected(every, settings)
    try:
        at = await source.time()
        readings = await _read(source, mine, settings, load, at)
    except SourceError as error:
        return [Finding(state="unknown", where="nodes", what=f"not looked at: {error}")]
    finally:
        source.close()
    shortest = load.shortest.name
    unknown = find_unknown(mine, readings[shortest], at, load.coverage.node_settling)
    return [
        *(told(each) for each in unknown),
        *coverage(len(mine), unknown, load),
        *(longer(name, found) for name, found in readings.items() if name != shortest),
        *filtered(others, settings),
    ]


def selected(every: Sequence[Node], settings: CollectorSettings) -> tuple[list[Node], list[Node]]:
    """The collector's nodes, and those that are not its."""
    wanted = settings.node_selector.items()
    mine = [node for node in every if wanted <= node.metadata.labels.items()]
    return mine, [node for node in every if not wanted <= node.metadata.labels.items()]


async def _read(
    source: MetricSource, mine: Sequence[Node], settings: CollectorSettings, load: LoadSettings, at: float
) -> dict[str, dict[str, Reading]]:
    """By window and node; of its resources the one that is not known, if any is not. Raises SourceError."""
    known = {node.metadata.name: known_node(node) for node in mine}
    intervals = Intervals(usual=settings.scrape_interval)
    if settings.scrape_interval is None:
        intervals = await find_intervals(source, load.shortest.length, at)
    found: dict[str, dict[str, Reading]] = {}
    for window in load.windows:
        round_ = await measure_nodes(source, known, criteria_of(load, window, at), intervals)
        failed = [Reading(why=f"{resource}: {why}", reason="not answered") for resource, why in round_.failed.items()]
        found[window.name] = {
            name: next(
                (reading for reading in (*failed, *(by[name] for by in round_.readings.values())) if reading.why),
                Reading(mean=0.0),
            )
            for name in known
        }
    return found


def find_unknown(mine: Sequence[Node], readings: Mapping[str, Reading], at: float, settling: float) -> list[Unknown]:
    """The nodes that have no known load in the shortest window."""
    return [
        Unknown(
            node=node.metadata.name,
            reason=reading.reason or "no sample",
            why=reading.why,
            excuse=unmeasurable(node) or not_yet_expected(node, at, settling),
        )
        for node in mine
        if (reading := readings[node.metadata.name]).why
    ]


def told(unknown: Unknown) -> Finding:
    where = f"node {unknown.node}"
    if unknown.excuse:
        return Finding(state="ok", where=where, what=f"{unknown.why}; none is expected: {unknown.excuse}")
    return Finding(state="warning", where=where, what=unknown.why, to_do=TO_DO[unknown.reason])


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


def longer(window: str, readings: Mapping[str, Reading]) -> Finding:
    """Of a longer window: how many nodes have it. A young Prometheus has none, which policies make do with."""
    missing = [reading for reading in readings.values() if reading.why]
    where = f"window {window}"
    what = f"known of {len(readings) - len(missing)} of {len(readings)} nodes"
    if not missing:
        return Finding(state="ok", where=where, what=what)
    return Finding(
        state="ok" if len(missing) < len(readings) else "warning",
        where=where,
        what=f"{what}; one says: {missing[0].why}",
        to_do=""
        if len(missing) < len(readings)
        else "wait until Prometheus has run for as long; is its retention longer?",
    )


def filtered(others: Sequence[Node], settings: CollectorSettings) -> list[Finding]:
    if not others:
        return []
    selector = ", ".join(f"{label}={value}" for label, value in settings.node_selector.items())
    what = f"{len(others)} nodes are not looked at: collector.nodeSelector is {selector}"
    return [Finding(state="ok", where="nodes", what=what)]
