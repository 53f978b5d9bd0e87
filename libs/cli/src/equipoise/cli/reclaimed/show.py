"""What nodes offer, as text: the summary, a row per node and resource, the totals, and the nodes without totals."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.cluster import BusCluster
from equipoise.cli.reclaimed.nodes import NodeBands, ReclaimedSummary, Totals
from equipoise.cli.terminal import RESOURCES, UNIT, amount, amounts, count, duration, listed, table
from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.messages.values.resources import Resources

MAX_NAMES = 5
"""Nodes that a line names."""

_BAR = 16
"""Columns."""

_MARKS = (
    ("used", "█", "cyan"),
    ("idle for 24 h", "▓", "green"),
    ("for {hours} h", "▒", "yellow"),
    ("now", "░", "magenta"),
)


class ReclaimedList(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, in the order of `--sort`, and what they are together."""

    cluster: BusCluster
    at: float
    summary: ReclaimedSummary
    nodes: list[NodeBands]


def show(found: ReclaimedList, to: Console, *, wide: bool) -> None:
    """`wide`: also what the forecast leaves, the terms, when the load was measured, and why a node offers less."""
    to.print(Text(str(found.cluster)))
    for line in summary_lines(found.summary, found.at):
        to.print(Text(line, "" if found.summary.state == "on" else "bold yellow"))
    to.print()
    columns = ["node", "", "capacity>", "mid>", "requested>", "batch>", "requested>", "free now>"]
    if wide:
        columns += ["mid idle>", "batch idle>", "margin>", "system>", "reserved>", "high priority>"]
    made = table(*columns, "written", "age>", "", *(("sample age>", "note") if wide else ()))
    for node in found.nodes:
        for resource in RESOURCES:
            made.add_row(*_cells(node, resource, found.at, wide=wide), style="dim" if node.outdated else "")
    if found.summary.totals is not None:
        for resource in RESOURCES:
            made.add_row(*_total_cells(found.summary.totals, resource), style="bold")
    to.print(made)
    to.print()
    to.print(Text.assemble(*_legend(found.nodes)))
    for line in not_counted_lines(found.summary.not_counted):
        to.print(Text(line, "yellow"))


def summary_lines(summary: ReclaimedSummary, now: float) -> Iterator[str]:
    """Mode, writes and age; then what pods can still request of each band, and for how long."""
    if summary.state == "off":
        yield (
            f"no node was evaluated recently, the last one {duration(now - summary.latest_at)} ago: check "
            "that a reclaimer is running and ready (/readyz)"
        )
    else:
        if summary.mode == "enforce" or summary.written or summary.due:
            writes = f"written to the status of {summary.written} of {count(summary.nodes, 'node')}, {summary.due} due"
        else:
            writes = f"written to no node, {count(summary.nodes, 'node')} evaluated"
        ages = ", ".join(
            f"the {which} {duration(now - at)} ago"
            for which, at in (("latest", summary.latest_at), ("oldest", summary.oldest_at))
        )
        yield f"mode {summary.mode}: {writes}; {ages}"
    totals = summary.totals
    if totals is None:
        return
    could = "can" if summary.mode == "enforce" else "could"
    for band in OFFERED_BANDS:
        each = getattr(totals, band)
        yield (
            f"{band}: {amounts(each.available)} {could} still be requested for {each.hours:g} h; "
            f"{amounts(each.offered)} offered, {amounts(each.requested)} requested"
        )
    yield f"free: {amounts(totals.free)} not used now by pods of high priority. The bands overlap: do not add them"


def not_counted_lines(nodes: Mapping[str, str]) -> Iterator[str]:
    """A line per reason, with the first names."""
    reasons = defaultdict[str, list[str]](list)
    for node, why in nodes.items():
        reasons[why].append(node)
    for why, names in reasons.items():
        yield f"not in the totals: {count(len(names), 'node')} ({listed(sorted(names), MAX_NAMES)}): {why}"


def _cells(node: NodeBands, resource: str, now: float, *, wide: bool) -> Iterator[str | Text]:
    first = resource == RESOURCES[0]
    yield node.node if first else ""
    yield UNIT[resource]
    for each in (node.capacity, node.mid.offered, node.mid.requested, node.batch.offered, node.batch.requested):
        yield amount(each, resource, digits=1)
    yield amount(node.free, resource, digits=1)
    if wide:
        for each in (node.mid.reclaimed, node.batch.reclaimed):
            yield amount(each, resource, digits=1)
        terms = node.terms.get(resource)
        for term in ("margin", "system", "reserved", "high_priority"):
            value = Resources() if terms is None else Resources(**{resource: getattr(terms, term)})
            yield amount(value, resource, digits=1)
    yield "" if not first else _written(node)
    yield duration(now - node.evaluated_at) if first else ""
    yield _bar(node, resource)
    if wide and first:
        yield "never" if node.sampled_at is None else duration(now - node.sampled_at)
        yield node.not_counted or node.reduced


def _written(node: NodeBands) -> str:
    if node.written:
        return "yes"
    return "due" if node.mode == "enforce" else "no"


def _total_cells(totals: Totals, resource: str) -> Iterator[str]:
    first = resource == RESOURCES[0]
    yield f"total of {count(totals.nodes, 'node')}" if first else ""
    yield UNIT[resource]
    mid, batch = totals.mid, totals.batch
    for each in (totals.capacity, mid.offered, mid.requested, batch.offered, batch.requested, totals.free):
        yield amount(each, resource, digits=1)


def _bar(node: NodeBands, resource: str) -> Text:
    """The capacity: used, idle for a day, idle for some hours, idle now, and the margin. Empty if one is unknown."""
    terms = node.terms.get(resource)
    idle = [getattr(each, resource) for each in (node.mid.reclaimed, node.batch.reclaimed, node.free)]
    if terms is None or not terms.capacity or None in idle:
        return Text()
    mid, batch, now = (min(amount, idle[-1]) for amount in idle)
    used = min(terms.capacity, max(terms.system, terms.reserved) + terms.high_priority)
    ends = [used, used + mid, used + max(mid, batch), used + now]
    bar, drawn = Text(), 0
    for (_, mark, color), end in zip(_MARKS, ends, strict=True):
        until = max(drawn, min(_BAR, round(_BAR * end / terms.capacity)))
        bar.append(mark * (until - drawn), color)
        drawn = until
    return bar.append("·" * (_BAR - drawn), "dim")


def _legend(nodes: Sequence[NodeBands]) -> Iterator[str | tuple[str, str]]:
    hours = sorted({node.batch.hours for node in nodes if node.batch.hours})
    names = [name.format(hours=" or ".join(f"{each:g}" for each in hours) or "some") for name, _, _ in _MARKS]
    for name, (_, mark, color) in zip(names, _MARKS, strict=True):
        yield mark, color
        yield f" {name}   "
    yield "· margin"
