"""The report of a comparison: a table, charts, and a page with both."""

from collections.abc import Sequence
from pathlib import Path

from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.report.comparison import compared
from equipoise.lab.report.table import encoded
from equipoise.lab.results import Run


def write_report(
    runs: Sequence[Run],
    notes: Sequence[str],
    *,
    title: str,
    command: str,
    folder: Path,
    width: int | None = None,
    capacity: CapacityAnswers | None = None,
) -> Path:
    """Write index.html, the PNGs and figures.json; returns the path of the page. Raises OSError.

    `notes`: those of the trace. `command`: the command that reproduces the report. `width`: the width of a chart in
    pixels. `capacity`: answers about batch work, fewer nodes, requests and hindsight.
    """
    # Importing matplotlib takes half a second, which a table does not need.
    from equipoise.lab.report.capacity_charts import capacity_charts
    from equipoise.lab.report.charts import charts
    from equipoise.lab.report.drawing import WIDTH
    from equipoise.lab.report.page import page

    folder.mkdir(parents=True, exist_ok=True)
    answers = capacity or CapacityAnswers()
    figures = [run.figures for run in runs]
    drawn = {comparison.scenario: charts(comparison, runs, width or WIDTH) for comparison in compared(figures)}
    more = capacity_charts(answers, width or WIDTH)
    for chart in (*(chart for charts_of in drawn.values() for chart in charts_of), *more):
        (folder / f"{chart.name}.png").write_bytes(chart.light)
    (folder / "figures.json").write_text(encoded(figures, capacity), encoding="utf-8")
    path = folder / "index.html"
    path.write_text(
        page(figures, drawn, notes, title=title, command=command, answers=answers, more=more), encoding="utf-8"
    )
    return path
