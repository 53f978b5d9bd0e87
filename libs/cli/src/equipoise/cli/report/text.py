"""A report on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.report import sentences
from equipoise.cli.report.figures import MAX_ROWS, NodeAboveThreshold, PlacementReport, RegretSum
from equipoise.cli.terminal import duration, print_section, table

_BLOCK = "█"
_MAX_BAR = 24


def show(report: PlacementReport, to: Console) -> None:
    """Sentences, workloads and nodes with the most regret, nodes above their thresholds, and notes."""
    for sentence in (sentences.placements, sentences.regret, sentences.avoidable, sentences.spread):
        to.print(Text(sentence(report)))
    if report.workloads:
        print_section(to, "Workloads with the most regret", _regret_table("workload", report.workloads))
        print_section(to, "Nodes with the most regret", _regret_table("node", report.nodes))
    if report.above_threshold:
        more = len(report.above_threshold) - MAX_ROWS
        title = f"Nodes above their high threshold ({sentences.thresholds(report.high)})"
        rows = _node_table(report.above_threshold[:MAX_ROWS])
        print_section(to, title + (f", and {more} more" if more > 0 else ""), rows)
    for note in sentences.NOTES:
        to.print()
        to.print(Text(note, style="dim"))


def _regret_table(kind: str, rows: Sequence[RegretSum]) -> Table:
    made = table(kind, "placed>", "elsewhere>", "regret>", "")
    for each in rows:
        bar = Text(_bar(each.regret, rows[0].regret), "yellow")
        made.add_row(each.name, str(each.placements), str(each.elsewhere), f"{each.regret:.0f}", bar)
    return made


def _node_table(rows: Sequence[NodeAboveThreshold]) -> Table:
    made = table("node", "for>", "of the time>", "")
    for each in rows:
        made.add_row(each.node, duration(each.seconds), f"{each.share:.1%}", Text(_bar(each.share, 1.0), "red"))
    return made


def _bar(value: float, whole: float) -> str:
    return _BLOCK * max(1, round(_MAX_BAR * value / whole))
