"""A report on a terminal."""

from rich.console import Console
from rich.text import Text

from equipoise.cli.report import sentences
from equipoise.cli.report.figures import MAX_ROWS, PlacementReport
from equipoise.cli.terminal import print_section, table

_MAX_BAR = 24


def show(report: PlacementReport, to: Console) -> None:
    """Sentences, workloads and nodes with the most regret, nodes above their thresholds, and notes."""
    for sentence in (sentences.placements, sentences.regret, sentences.avoidable, sentences.spread):
        to.print(Text(sentence(report)))
    for title, color, (name, *numbers), rows in sentences.tables(report):
        made = table(name, *(f"{number}>" for number in numbers), "")
        for cells, share in rows[:MAX_ROWS]:
            made.add_row(*cells, Text("█" * max(1, round(_MAX_BAR * share)), color))
        more = len(rows) - MAX_ROWS
        print_section(to, title + (f", and {more} more" if more > 0 else ""), made)
    for note in sentences.NOTES:
        to.print()
        to.print(Text(note, style="dim"))
