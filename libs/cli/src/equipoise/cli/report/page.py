"""A report as one HTML file without scripts, fonts or other files."""

import datetime
from collections.abc import Sequence
from html import escape

from equipoise.cli.report import sentences
from equipoise.cli.report.figures import PlacementReport, RegretSum
from equipoise.cli.terminal import duration

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6877; --line: #dde3ea; --paper: #ffffff; --card: #f5f7fa;
  --regret: #c98a1b; --hot: #c0392b; --none: #2f7fb8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #97a3b3; --line: #303947; --paper: #12171e;
  --card: #1b222c; --regret: #e0a43a; --hot: #e2604f; --none: #5aa9dd; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 60rem; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .6rem; }
.soft, footer { color: var(--soft); font-size: .9rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 1.6rem 0; }
.card { background: var(--card); border-radius: .6rem; padding: .9rem 1.1rem; }
.card b { display: block; font-size: 1.7rem; font-weight: 600; line-height: 1.2; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: .85rem; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; } td.bar { width: 35%; padding-right: 0; }
svg { display: block; width: 100%; } svg text { fill: var(--soft); font-size: 12px; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
"""


def page(report: PlacementReport) -> str:
    """The HTML text."""
    cards = (
        (f"{report.placements}", "pods placed"),
        (f"{report.elsewhere}", "would have been placed elsewhere"),
        (_points(report.regret_median), "median regret, points"),
        (_points(report.regret_p90), "90th percentile of regret, points"),
        (f"{len(report.above_threshold)}", "nodes were above their threshold"),
        (f"{report.avoidable.cpu:g} / {report.avoidable.memory:g}", "avoidable points of cpu / memory"),
    )
    body = [
        "<h1>Placement report</h1>",
        f'<div class="soft">{_time(report.since)} to {_time(report.until)}, '
        f"by {escape(', '.join(report.policies) or 'no policy')}</div>",
        f'<div class="cards">{"".join(_card(*each) for each in cards)}</div>',
        *(
            f"<p>{escape(text)}</p>"
            for text in (sentences.placements(report), sentences.avoidable(report), sentences.spread(report))
        ),
    ]
    if report.rated:
        body += ["<h2>Placements by regret</h2>", _histogram(report.regret_histogram)]
    if report.workloads:
        body += ["<h2>Workloads with the most regret</h2>", _regret_table("Workload", report.workloads)]
        body += ["<h2>Nodes with the most regret</h2>", _regret_table("Node", report.nodes)]
    if report.above_threshold:
        thresholds = escape(sentences.thresholds(report.high))
        body += [f"<h2>Nodes above their high threshold ({thresholds})</h2>", _node_table(report)]
    body += [f"<footer>{''.join(f'<p>{escape(note)}</p>' for note in sentences.NOTES)}</footer>"]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Equipoise report</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _regret_table(kind: str, rows: Sequence[RegretSum]) -> str:
    most = rows[0].regret
    return _table(
        (kind, "Placed", "Elsewhere", "Regret", ""),
        [
            (
                escape(each.name),
                str(each.placements),
                str(each.elsewhere),
                f"{each.regret:.0f}",
                _bar(each.regret / most, "regret"),
            )
            for each in rows
        ],
    )


def _node_table(report: PlacementReport) -> str:
    return _table(
        ("Node", "For", "Of the time", ""),
        [
            (escape(each.node), duration(each.seconds), f"{each.share:.1%}", _bar(each.share, "hot"))
            for each in report.above_threshold
        ],
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is a name, the last one a bar, those between are numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        classes = ["", *[' class="number"'] * (len(cells) - 2), ' class="bar"']
        return "".join(f"<{tag}{name}>{cell}</{tag}>" for cell, name in zip(cells, classes, strict=True))

    body = "".join(f"<tr>{line(row, 'td')}</tr>\n" for row in rows)
    return f"<table><thead><tr>{line(heads, 'th')}</tr></thead>\n<tbody>{body}</tbody></table>"


def _bar(share: float, color: str) -> str:
    width = max(0.5, 100.0 * min(1.0, share))
    return (
        '<svg viewBox="0 0 100 6" height="12" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="6" rx="1" fill="var(--{color})"/></svg>'
    )


def _histogram(counts: Sequence[int]) -> str:
    """A column per ten points."""
    most, bars = max(counts), []
    for index, count in enumerate(counts):
        height, left = 110.0 * count / most, 60 * index
        color = "none" if index == 0 else "regret"
        bars.append(
            f'<rect x="{left + 4}" y="{130 - height:.1f}" width="52" height="{height:.1f}" rx="3" '
            f'fill="var(--{color})"><title>{count} pods</title></rect>'
            f'<text x="{left + 30}" y="{124 - height:.1f}" text-anchor="middle">{count or ""}</text>'
            f'<text x="{left + 30}" y="148" text-anchor="middle">{10 * index}–{10 * index + 10}</text>'
        )
    return f'<svg viewBox="0 0 600 155" role="img" aria-label="Placements by points of regret">{"".join(bars)}</svg>'


def _card(number: str, text: str) -> str:
    return f'<div class="card"><b>{escape(number)}</b><span class="soft">{escape(text)}</span></div>'


def _points(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"


def _time(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M} UTC"
