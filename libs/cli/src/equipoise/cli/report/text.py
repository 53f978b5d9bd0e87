"""A report on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.report import sentences
from equipoise.cli.report.figures import MOST, OverMark, Regretful, Report

_BLOCK = "█"
_WIDEST = 24


def show(report: Report, console: Console) -> None:
    """For people: sentences, then who regrets most and who was too hot, then how it was counted."""
    for line in (
        sentences.placements(report),
        sentences.regret(report),
        sentences.saved(report),
        sentences.level(report),
    ):
        console.print(Text(line))
    if report.workloads:
        _under(console, "Workloads with the most regret", _regretful("workload", report.workloads))
        _under(console, "Nodes with the most regret", _regretful("node", report.nodes))
    if report.over:
        more = len(report.over) - MOST
        title = f"Nodes above their high mark ({sentences.marks(report.high)})"
        _under(console, title + (f", and {more} more" if more > 0 else ""), _over(report.over[:MOST]))
    for note in (sentences.LIMITS, sentences.SAVED):
        console.print()
        console.print(Text(note, style="dim"))


def _under(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def _regretful(kind: str, rows: Sequence[Regretful]) -> Table:
    table = _table(kind, "placed", "elsewhere", "regret")
    for each in rows:
        bar = _bar(each.regret, rows[0].regret)
        table.add_row(each.name, str(each.placements), str(each.elsewhere), f"{each.regret:.0f}", Text(bar, "yellow"))
    return table


def _over(rows: Sequence[OverMark]) -> Table:
    table = _table("node", "for", "of the time")
    for each in rows:
        table.add_row(
            each.node, sentences.length(each.seconds), f"{each.share:.1%}", Text(_bar(each.share, 1.0), "red")
        )
    return table


def _bar(value: float, whole: float) -> str:
    return _BLOCK * max(1, round(_WIDEST * value / whole))


def _table(first: str, *columns: str) -> Table:
    """The last column is a bar."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("")
    return table
