"""The page of a comparison."""

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape

from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.html_page import cards, html_page, table
from equipoise.lab.report.capacity_tables import capacity_notes, capacity_rows
from equipoise.lab.report.comparison import BEST, MEDIAN_RUN, REFERENCES, SCENARIOS, Case, Comparison, compared
from equipoise.lab.report.drawing import Chart
from equipoise.lab.report.table import shown_columns
from equipoise.lab.results import RunFigures, Scenario

_SAMPLES = {
    "in": "In sample: the profiles were learned from the measured days.",
    "out": "Out of sample: the profiles were learned from days before the measured ones.",
}

_MORE: Mapping[str, Callable[[RunFigures], str]] = {
    "worst spread": lambda run: f"{run.worst_spread:.1f}",
    "median std": lambda run: f"{run.median_std:.1f}",
    "p5–p95 at the peak": lambda run: f"{run.peak_p5:.0f}–{run.peak_p95:.0f} %",
    "memory spread, peak": lambda run: f"{run.memory_peak_spread:.1f}",
    "memory spread, median": lambda run: f"{run.memory_median_spread:.1f}",
    "memory std, peak": lambda run: f"{run.memory_peak_std:.1f}",
    "work lost": lambda run: f"{run.work_lost:.2%}",
    "moved": lambda run: f"{run.moved:,}",
    "executable moves": lambda run: f"{run.moves_executable:.0%}",
    "landed as planned": lambda run: "none" if run.moves_landed is None else f"{run.moves_landed:.0%}",
    "refused": lambda run: ", ".join(f"{why} {count:,}" for why, count in run.refused.items()) or "none",
    "replayed in": lambda run: f"{run.seconds:.1f} s",
}


def page(
    figures: Sequence[RunFigures],
    charts: Mapping[Scenario, Sequence[Chart]],
    notes: Sequence[str],
    *,
    title: str,
    command: str,
    answers: CapacityAnswers,
    more: Sequence[Chart],
) -> str:
    """The whole file. `charts`: the charts of each scenario; `more`: those of the answers about capacity."""
    comparisons = compared(figures)
    # Runs of one report start from the same trace.
    size = f": {figures[0].nodes:,} nodes, {figures[0].pods:,} pods" if figures else ""
    body = [f"<h1>{escape(_headline(comparisons))}</h1>", f'<div class="soft">{escape(title + size)}</div>']
    if len(comparisons) > 1:
        body.append(cards(map(_card, comparisons)))
    for comparison in comparisons:
        body += [
            f"<h2>{escape(comparison.scenario)}: {escape(SCENARIOS[comparison.scenario])}</h2>",
            f"<p>{escape(comparison.finding)}</p>",
            *(_image(chart, f"{comparison.scenario}: ") for chart in charts[comparison.scenario]),
        ]
    body += _capacity(answers, more)
    if comparisons:
        columns = shown_columns(figures)
        heads = [f'<span title="{escape(column.about)}">{escape(column.name)}</span>' for column in columns]
        body += [
            "<h2>All cases</h2>",
            _table(comparisons, heads, lambda case: [column.cell(case) for column in columns]),
        ]
        other = _table(comparisons, list(_MORE), lambda case: [text(case.median) for text in _MORE.values()])
        body.append(f"<details><summary>More figures of the same runs</summary>{other}</details>")
    body.append(f"<h2>Command</h2><pre><code>{escape(command)}</code></pre>")
    return html_page(title, body, (*notes, *_notes(figures), *capacity_notes(answers)))


def _headline(comparisons: Sequence[Comparison]) -> str:
    """The headline, about every scenario."""
    if not comparisons:
        return "No runs: nothing to compare"
    changes = [(comparison.change(lambda run: run.median_spread), comparison.scenario) for comparison in comparisons]
    if len(changes) == 1:
        return f"Spread over all hours: {changes[0][0]} points"
    best = {comparison.best.label if comparison.best is not None else "" for comparison in comparisons}
    if len(best) == 1 and "" not in best:
        return f"{best.pop()} levels best in every scenario"
    return f"Spread over all hours, in points: {', '.join(f'{change} ({scenario})' for change, scenario in changes)}"


def _card(comparison: Comparison) -> tuple[str, str]:
    median, peak = comparison.change(lambda run: run.median_spread), comparison.change(lambda run: run.peak_spread)
    by = comparison.headline_case.label
    return median, f"{comparison.scenario}: median spread in points, with {by} (peak hour {peak})"


def _capacity(answers: CapacityAnswers, more: Sequence[Chart]) -> list[str]:
    """The chart of each answer, then its tables."""
    charts = {chart.name: chart for chart in more}
    body = []
    if answers.batch is not None:
        body += ["<h2>Batch work</h2>", _image(charts["batch"])]
    if answers.nodes_needed:
        body += ["<h2>Fewer nodes</h2>", _image(charts["nodes"])]
    if answers.requests is not None:
        body += ["<h2>Requests</h2>", _image(charts["requests"])]
    for rows in capacity_rows(answers):
        cells = [
            ("best" if number in rows.ours else "", list(map(escape, row))) for number, row in enumerate(rows.rows)
        ]
        # On a page, heads are not broken into lines.
        heads = [escape(head.replace("- · ", "").replace(" · ", ": ")) for head in rows.heads]
        body += [f"<h2>{escape(rows.title)}</h2>", table(heads, cells, names=rows.names)]
    return body


def _image(chart: Chart, of: str = "") -> str:
    light, dark = (f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in (chart.light, chart.dark))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(of + chart.title)}"></picture>'
    )


def _table(comparisons: Sequence[Comparison], heads: Sequence[str], cells: Callable[[Case], Sequence[str]]) -> str:
    """`heads` are HTML, cells are text."""

    bodies = [
        [(each.kind(case), [escape(cell) for cell in (*each.names(case), *cells(case))]) for case in each.cases]
        for each in comparisons
    ]
    return table(("", "Scenario", "Policy", "Descheduler", *heads), *bodies, names=4)


def _notes(figures: Sequence[RunFigures]) -> list[str]:
    """Notes that do not depend on the trace."""
    if not figures:
        return []
    notes = [text for sample, text in _SAMPLES.items() if any(run.sample == sample for run in figures)]
    notes.append("Spread: the highest − the lowest of the nodes' hourly mean CPU loads, in points: 1 is 1 % of a node.")
    notes.append(BEST)
    if any(run.arrival_seed != figures[0].arrival_seed for run in figures):
        notes.append(MEDIAN_RUN)
    if any(run.policy in REFERENCES for run in figures):
        notes.append("A reference knows all usage in advance, which no scheduler can: it is never the best.")
    return notes
