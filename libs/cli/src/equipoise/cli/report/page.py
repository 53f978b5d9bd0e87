"""The HTML page of a placement report."""

import datetime
from collections.abc import Sequence
from html import escape

from equipoise.cli.report import sentences
from equipoise.cli.report.figures import PlacementReport
from equipoise.lab.html_page import cards, html_page, table


def page(report: PlacementReport) -> str:
    """The report as the text of an HTML page."""
    figures = (
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
        cards(figures),
        *(
            f"<p>{escape(text)}</p>"
            for sentence in (
                sentences.placements,
                sentences.hints,
                sentences.avoidable,
                sentences.spread,
                sentences.idle,
                sentences.waiting,
                sentences.next_level,
            )
            if (text := sentence(report))
        ),
    ]
    if report.rated:
        body += ["<h2>Placements by regret</h2>", _histogram(report.regret_histogram)]
    for title, color, columns, lines in sentences.tables(report):
        rows = [("", [*map(escape, cells), _bar(share, color)]) for cells, share in lines]
        body += [f"<h2>{escape(title)}</h2>", table((*(name.capitalize() for name in columns), ""), rows)]
    return html_page("Equipoise report", body, sentences.notes(report))


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
        color = "best" if index == 0 else "yellow"
        bars.append(
            f'<rect x="{left + 4}" y="{130 - height:.1f}" width="52" height="{height:.1f}" rx="3" '
            f'fill="var(--{color})"><title>{count} pods</title></rect>'
            f'<text x="{left + 30}" y="{124 - height:.1f}" text-anchor="middle">{count or ""}</text>'
            f'<text x="{left + 30}" y="148" text-anchor="middle">{10 * index}–{10 * index + 10}</text>'
        )
    return f'<svg viewBox="0 0 600 155" role="img" aria-label="Placements by points of regret">{"".join(bars)}</svg>'


def _points(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"


def _time(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M} UTC"
