"""An HTML report in one file, without scripts, fonts or network access."""

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6877; --line: #dde3ea; --paper: #ffffff; --card: #f5f7fa;
  --best: #0b67b2; --red: #c0392b; --yellow: #c98a1b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #97a3b3; --line: #303947; --paper: #12171e;
  --card: #1b222c; --best: #5ab4f0; --red: #ee7a6a; --yellow: #e0a43a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 72rem; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; } h2 { font-size: 1.2rem; margin: 3rem 0 .2rem; }
.soft, footer { color: var(--soft); font-size: .9rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .8rem; margin: 1.6rem 0; }
.card { background: var(--card); border-radius: .6rem; padding: .9rem 1.1rem; }
.card b { display: block; font-size: 1.7rem; font-weight: 600; line-height: 1.3; }
img { display: block; width: 100%; height: auto; margin: 1.5rem 0; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: .85rem; vertical-align: bottom; }
th, td { padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); }
tr > :last-child { padding-right: 0; } td:has(svg) { width: 35%; }
tbody + tbody tr:first-child td { padding-top: 1.4rem; }
.number { text-align: right; } td.number { white-space: nowrap; }
.stock td, .reference td { color: var(--soft); } .best td { color: var(--best); font-weight: 600; }
.broken td { color: var(--red); }
svg { display: block; width: 100%; } svg text { fill: var(--soft); font-size: 12px; }
pre { background: var(--card); border-radius: .6rem; padding: .9rem 1.1rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
"""

Row = tuple[str, Sequence[str]]
"""The CSS class of a row, and its cells as HTML."""


def html_page(title: str, body: Iterable[str], notes: Iterable[str]) -> str:
    """The text of the file. `body` is HTML; `notes` is the plain text of the footer."""
    footer = f"<footer>{''.join(f'<p>{escape(note)}</p>' for note in notes)}</footer>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join([*body, footer]) + "\n</body></html>\n"
    )


def cards(figures: Iterable[tuple[str, str]]) -> str:
    """A card for each pair of a figure and its description, both of which are plain text."""
    shown = (
        f'<div class="card"><b>{escape(figure)}</b><span class="soft">{escape(label)}</span></div>'
        for figure, label in figures
    )
    return f'<div class="cards">{"".join(shown)}</div>'


def table(heads: Sequence[str], *bodies: Sequence[Row], names: int = 1) -> str:
    """A table with one or more bodies. `heads` is HTML. The first `names` columns are names, the others numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        classes = [*[""] * names, *[' class="number"'] * (len(cells) - names)]
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, classes, strict=True))

    rows = ("".join(f'<tr class="{kind}">{line(cells, "td")}</tr>\n' for kind, cells in body) for body in bodies)
    table_bodies = "".join(f"<tbody>{body}</tbody>" for body in rows)
    return f'<div class="wide"><table><thead><tr>{line(heads, "th")}</tr></thead>\n{table_bodies}</table></div>'
