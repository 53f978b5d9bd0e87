"""A report as one HTML file without scripts, fonts or network access."""

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape

from equipoise.lab.report.charts import Chart
from equipoise.lab.report.comparison import BEST, MEDIAN_RUN, REFERENCES, SCENARIOS, Case, Comparison, compared
from equipoise.lab.report.table import COLUMNS
from equipoise.lab.results import RunFigures, Scenario

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6877; --line: #dde3ea; --paper: #ffffff; --card: #f5f7fa;
  --best: #0b67b2; --broken: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #97a3b3; --line: #303947; --paper: #12171e;
  --card: #1b222c; --best: #5ab4f0; --broken: #ee7a6a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 72rem; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; } h2 { font-size: 1.2rem; margin: 3rem 0 .2rem; }
.soft, footer { color: var(--soft); font-size: .9rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .8rem; margin: 1.6rem 0; }
.card { background: var(--card); border-radius: .6rem; padding: .9rem 1.1rem; }
.card b { display: block; font-size: 1.7rem; font-weight: 600; line-height: 1.3; }
img { display: block; width: 100%; height: auto; margin: 1.5rem 0; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: .85rem; vertical-align: bottom; }
th, td { padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); }
tr > :last-child { padding-right: 0; }
tbody + tbody tr:first-child td { padding-top: 1.4rem; }
.number { text-align: right; } td.number { white-space: nowrap; }
.stock td, .reference td { color: var(--soft); } .best td { color: var(--best); font-weight: 600; }
.broken td { color: var(--broken); }
pre { background: var(--card); border-radius: .6rem; padding: .9rem 1.1rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
"""

_SAMPLES = {
    "in": "In sample: the profiles were learned from the measured days.",
    "out": "Out of sample: the profiles were learned from days before the measured ones.",
}

_MORE: tuple[tuple[str, Callable[[RunFigures], str]], ...] = (
    ("worst spread", lambda run: f"{run.worst_spread:.1f}"),
    ("median std", lambda run: f"{run.median_std:.1f}"),
    ("p5–p95 at the peak", lambda run: f"{run.peak_p5:.0f}–{run.peak_p95:.0f} %"),
    ("memory spread, peak", lambda run: f"{run.memory_peak_spread:.1f}"),
    ("memory spread, median", lambda run: f"{run.memory_median_spread:.1f}"),
    ("memory std, peak", lambda run: f"{run.memory_peak_std:.1f}"),
    ("work lost", lambda run: f"{run.work_lost:.2%}"),
    ("moved", lambda run: f"{run.moved:,}"),
    ("executable moves", lambda run: f"{run.moves_executable:.0%}"),
    ("refused", lambda run: ", ".join(f"{why} {count:,}" for why, count in run.refused.items()) or "none"),
    ("replayed in", lambda run: f"{run.seconds:.1f} s"),
)


def page(
    figures: Sequence[RunFigures],
    charts: Mapping[Scenario, Sequence[Chart]],
    notes: Sequence[str],
    *,
    title: str,
    command: str,
) -> str:
    """The whole file. `charts`: by scenario."""
    comparisons = compared(figures)
    body = [
        f"<h1>{escape(_headline(comparisons))}</h1>",
        f'<div class="soft">{escape(title + _size(figures))}</div>',
    ]
    if len(comparisons) > 1:
        body += [f'<div class="cards">{"".join(map(_card, comparisons))}</div>']
    for comparison in comparisons:
        body += [
            f"<h2>{escape(comparison.scenario)}: {escape(SCENARIOS[comparison.scenario])}</h2>",
            f"<p>{escape(comparison.finding)}</p>",
            *(_image(chart, comparison) for chart in charts[comparison.scenario]),
        ]
    if comparisons:
        body += ["<h2>All cases</h2>", _figures(comparisons), _more(comparisons)]
    body += [f"<h2>Command</h2><pre><code>{escape(command)}</code></pre>"]
    body += [f"<footer>{''.join(f'<p>{escape(note)}</p>' for note in (*notes, *_notes(figures)))}</footer>"]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


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


def _card(comparison: Comparison) -> str:
    by = comparison.headline_case.label
    peak = comparison.change(lambda run: run.peak_spread)
    return (
        f'<div class="card"><b>{escape(comparison.change(lambda run: run.median_spread))}</b>'
        f'<span class="soft">{escape(comparison.scenario)}: median spread in points, with {escape(by)} '
        f"(peak hour {escape(peak)})</span></div>"
    )


def _size(figures: Sequence[RunFigures]) -> str:
    """Runs of one report start from the same trace."""
    return f": {figures[0].nodes:,} nodes, {figures[0].pods:,} pods" if figures else ""


def _image(chart: Chart, comparison: Comparison) -> str:
    light, dark = (f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in (chart.light, chart.dark))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(f"{comparison.scenario}: {chart.title}")}"></picture>'
    )


def _figures(comparisons: Sequence[Comparison]) -> str:
    heads = [f'<span title="{escape(column.about)}">{escape(column.name)}</span>' for column in COLUMNS]
    return _table(comparisons, heads, lambda case: [column.cell(case) for column in COLUMNS])


def _more(comparisons: Sequence[Comparison]) -> str:
    heads = [escape(name) for name, _ in _MORE]
    table = _table(comparisons, heads, lambda case: [text(case.median) for _, text in _MORE])
    return f"<details><summary>More figures of the same runs</summary>{table}</details>"


def _table(comparisons: Sequence[Comparison], heads: Sequence[str], cells: Callable[[Case], Sequence[str]]) -> str:
    """`heads` are HTML, cells are text."""
    names = "".join(f"<th>{name}</th>" for name in ("", "Scenario", "Policy", "Descheduler"))
    numbers = "".join(f'<th class="number">{head}</th>' for head in heads)
    bodies = []
    for comparison in comparisons:
        rows = []
        for case in comparison.cases:
            best = "best" if case is comparison.best else ""
            with_descheduler = "yes" if case.median.descheduler else "no"
            row = "".join(
                f"<td>{escape(name)}</td>" for name in (best, comparison.scenario, case.policy, with_descheduler)
            )
            row += "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells(case))
            rows.append(f'<tr class="{_css_class(case, comparison)}">{row}</tr>\n')
        bodies.append(f"<tbody>{''.join(rows)}</tbody>")
    return f'<div class="wide"><table><thead><tr>{names}{numbers}</tr></thead>\n{"".join(bodies)}</table></div>'


def _css_class(case: Case, comparison: Comparison) -> str:
    if any(run.violations for run in case.runs):
        return "broken"
    if case is comparison.best:
        return "best"
    return "stock" if case.stock else "reference" if case.reference else ""


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
