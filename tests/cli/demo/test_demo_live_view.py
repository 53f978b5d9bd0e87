"""The heat map of the demo can be read: in the terminal, and in the picture of the README."""

import re
from pathlib import Path

import pytest
from rich.style import Style

from equipoise.cli.demo.live_view import LiveView, cell_style

PICTURE = (Path(__file__).parents[3] / "docs" / "demo.svg").read_text()
LEAST = 4.5
"""WCAG 2.2, 1.4.3."""


def luminance(color: str) -> float:
    parts = [int(color[begin : begin + 2], 16) / 255 for begin in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("load", range(0, 121, 5))
def test_the_digits_of_a_cell_stand_out(load: int) -> None:
    style = Style.parse(cell_style(load))
    assert style.color is not None
    assert style.bgcolor is not None
    assert contrast(style.color.get_truecolor().hex, style.bgcolor.get_truecolor().hex) >= LEAST


def test_progress_is_a_sentence() -> None:
    """Outcomes are in words, and none is not nothing."""
    view = LiveView("demo", 384.0)
    view.phase, view.hour, view.now = "leveling", 13.5, {"node-a": 90.0, "node-b": 30.0}
    begin = "leveling, 13:30 in the trace: hottest node 90 %, spread of the CPU load 60 points; proposed evictions: "
    assert f"{begin}none yet" == view.line()
    view.counts = {"evicted": 6, "rejected_limit": 2, "already_gone": 1}
    assert f"{begin}1 already gone, 6 evicted, 2 rejected (limit)" == view.line()


def test_all_text_of_the_picture_stands_out() -> None:
    """A text lies in the cell that begins at the same place, or on the background of the terminal."""
    colors = dict(re.findall(r"-(r\d+) \{ fill: (#\w+)", PICTURE))
    cells = {
        (x, round(float(y), 1)): fill for fill, x, y in re.findall(r'<rect fill="(#\w+)" x="(\S+)" y="(\S+)"', PICTURE)
    }
    [background] = re.findall(r'<rect fill="(#\w+)" stroke', PICTURE)
    texts = re.findall(r'<text class="terminal-\d+-(r\d+)" x="(\S+)" y="(\S+)"[^>]*>([^<]*)', PICTURE)
    found = {
        (colors[name], cells.get((x, round(float(y) - 18.5, 1)), background))
        for name, x, y, text in texts
        if re.search(r"\w", text)
    }
    assert len(found) > 5
    assert [pair for pair in found if contrast(*pair) < LEAST] == []
