"""Prints what nodes offer: a summary, a row per node and resource, the totals, and the nodes not in the totals."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.cluster import BusCluster
from equipoise.cli.reclaimed.nodes import NodeBands, ReclaimedSummary, Totals
from equipoise.cli.terminal import RESOURCES, UNIT, amount, amounts, count, duration, listed, table
from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

MAX_NAMES = 5
"""Nodes that a line names."""

_BAR = 16
"""Width of the bar of a node, in characters."""

_MARKS = (
    ("used", "█", "cyan"),
    ("idle for 24 h", "▓", "green"),
    ("for {hours} h", "▒", "yellow"),
    ("now", "░", "magenta"),
)


class ReclaimedList(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, in the order of `--sort`, and their summary."""

    cluster: BusCluster
    at: float
    summary: ReclaimedSummary
    nodes: list[NodeBands]


def show(reclaimed: ReclaimedList, to: Console, *, wide: bool) -> None:
    """Print the list. `wide` adds idle amounts, the terms, when the load was measured, and why a node offers less."""
    summary = reclaimed.summary
    to.print(Text(str(reclaimed.cluster)))
    for line in summary_lines(summary, reclaimed.at):
        to.print(Text(line, "" if summary.state == "on" else "bold yellow"))
    to.print()
    columns = ["node", "", "capacity>", "mid>", "requested>", "batch>", "requested>", "free now>"]
    if wide:
        columns += ["mid idle>", "batch idle>", "margin>", "system>", "reserved>", "high priority>"]
    rows = table(*columns, "written", "age>", "", *(("sample age>", "note") if wide else ()))
    for node in reclaimed.nodes:
        for resource in RESOURCES:
            rows.add_row(*_cells(node, resource, reclaimed.at, wide=wide), style="dim" if node.outdated else "")
    if summary.totals is not None:
        for resource in RESOURCES:
            rows.add_row(*_total_cells(summary.totals, resource), style="bold")
    to.print(rows)
    to.print()
    to.print(Text.assemble(*_legend(reclaimed.nodes)))
    for line in not_counted_lines(summary.not_counted):
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
        total = getattr(totals, band)
        yield (
            f"{band}: {amounts(total.available)} {could} still be requested for {total.hours:g} h; "
            f"{amounts(total.offered)} offered, {amounts(total.requested)} requested"
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
    mid, batch = node.mid, node.batch
    for value in (node.capacity, mid.offered, mid.requested, batch.offered, batch.requested, node.free):
        yield amount(value, resource, digits=1)
    if wide:
        for value in (mid.reclaimed, batch.reclaimed):
            yield amount(value, resource, digits=1)
        terms = node.terms.get(resource)
        for term in ("margin", "system", "reserved", "high_priority"):
            value = Resources() if terms is None else cpu_and_memory({resource: getattr(terms, term)})
            yield amount(value, resource, digits=1)
    yield _written(node) if first else ""
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
    for value in (totals.capacity, mid.offered, mid.requested, batch.offered, batch.requested, totals.free):
        yield amount(value, resource, digits=1)


def _bar(node: NodeBands, resource: str) -> Text:
    """The capacity as a bar of five parts: used, idle for a day, idle for some hours, idle now, and the margin.

    Empty if one of these amounts is unknown.
    """
    terms = node.terms.get(resource)
    idle = [getattr(value, resource) for value in (node.mid.reclaimed, node.batch.reclaimed, node.free)]
    if terms is None or not terms.capacity or None in idle:
        return Text()
    mid, batch, free = (min(value, idle[-1]) for value in idle)
    used = min(terms.capacity, max(terms.system, terms.reserved) + terms.high_priority)
    ends = [used, used + mid, used + max(mid, batch), used + free]
    bar, drawn = Text(), 0
    for (_, mark, color), end in zip(_MARKS, ends, strict=True):
        until = max(drawn, min(_BAR, round(_BAR * end / terms.capacity)))
        bar.append(mark * (until - drawn), color)
        drawn = until
    return bar.append("·" * (_BAR - drawn), "dim")


def _legend(nodes: Sequence[NodeBands]) -> Iterator[str | tuple[str, str]]:
    hours = sorted({node.batch.hours for node in nodes if node.batch.hours})
    text = " or ".join(f"{number:g}" for number in hours) or "some"
    names = [name.format(hours=text) for name, _, _ in _MARKS]
    for name, (_, mark, color) in zip(names, _MARKS, strict=True):
        yield mark, color
        yield f" {name}   "
    yield "· margin"
