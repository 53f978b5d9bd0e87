"""What all charts of a report share: size, colors, title, and the two backgrounds."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib
import msgspec
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

_SIZE = (9.6, 5.4)
"""Inches."""

WIDTH = 1600
"""Pixels; the height is nine sixteenths of it."""

_LINE_LENGTH = 96
"""Characters that fit on a line."""


class Theme(msgspec.Struct, frozen=True, kw_only=True):
    """Colors with a contrast of at least 3 to the background. Neighbors are distinguishable with color blindness."""

    paper: str
    ink: str
    soft: str
    line: str
    stock: str
    best: str
    others: tuple[str, ...]
    """The colors of all other lines, each with three dash patterns, because nine colors are hard to distinguish."""

    def settings(self) -> dict[Any, Any]:
        """Settings of matplotlib."""
        return {
            "font.family": "DejaVu Sans",  # included in matplotlib
            "font.size": 12,
            "text.parse_math": False,  # names are plain text
            "text.color": self.ink,
            **dict.fromkeys(("axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), self.soft),
            **dict.fromkeys(("axes.edgecolor", "grid.color", "xtick.color", "ytick.color"), self.line),
            **dict.fromkeys(("axes.facecolor", "figure.facecolor"), self.paper),
            "axes.axisbelow": True,
            **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
        }


_LIGHT = Theme(
    paper="#ffffff",
    ink="#1c2430",
    soft="#5d6877",
    line="#dde3ea",
    stock="#7a8594",
    best="#0b67b2",
    others=("#d5520a", "#009973", "#7a1f6b"),
)
_DARK = Theme(
    paper="#12171e",
    ink="#e6eaf0",
    soft="#97a3b3",
    line="#303947",
    stock="#8f9bab",
    best="#5ab4f0",
    others=("#f0803c", "#1fae7e", "#f3c6ea"),
)


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart as PNG."""

    name: str
    title: str
    light: bytes
    dark: bytes


Draw = Callable[[Theme], tuple[Figure, str]]
"""Draws a figure; returns it with its title."""


def chart(name: str, draw: Draw, width: int = WIDTH) -> Chart:
    """The chart on both backgrounds."""
    (light, title), (dark, _) = _drawn(draw, _LIGHT, width), _drawn(draw, _DARK, width)
    return Chart(name=name, title=title, light=light, dark=dark)


def _drawn(draw: Draw, theme: Theme, width: int) -> tuple[bytes, str]:
    with matplotlib.rc_context(theme.settings()):
        figure, title = draw(theme)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=width / _SIZE[0])
    return file.getvalue(), title


def figure(title: str, about: str, theme: Theme) -> Figure:
    """A figure with a title and a description."""
    drawn = Figure(figsize=_SIZE, layout=ConstrainedLayoutEngine(rect=(0.01, 0.01, 0.98, 0.82), w_pad=0.1))
    drawn.text(0.025, 0.915, title, fontsize=20, fontweight="bold")
    drawn.text(0.025, 0.862, about, fontsize=min(12.0, 12.0 * _LINE_LENGTH / len(about)), color=theme.soft)
    return drawn
