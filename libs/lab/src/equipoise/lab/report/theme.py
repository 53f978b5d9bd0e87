"""Colors of the charts on a light and on a dark background."""

from typing import Any

import msgspec


class Theme(msgspec.Struct, frozen=True, kw_only=True):
    """Colors with a contrast of at least 3 to the background. Neighbors are distinguishable with color blindness."""

    paper: str
    ink: str
    soft: str
    line: str
    stock: str
    best: str
    others: tuple[str, ...]
    """Each is used with three dash patterns: nine colors are hard to distinguish."""


LIGHT = Theme(
    paper="#ffffff",
    ink="#1c2430",
    soft="#5d6877",
    line="#dde3ea",
    stock="#7a8594",
    best="#0b67b2",
    others=("#d5520a", "#009973", "#7a1f6b"),
)
DARK = Theme(
    paper="#12171e",
    ink="#e6eaf0",
    soft="#97a3b3",
    line="#303947",
    stock="#8f9bab",
    best="#5ab4f0",
    others=("#f0803c", "#1fae7e", "#f3c6ea"),
)
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))


def settings(theme: Theme) -> dict[Any, Any]:
    """Settings of matplotlib."""
    return {
        "font.family": "DejaVu Sans",  # included in matplotlib
        "font.size": 12,
        "text.parse_math": False,  # names are plain text
        "text.color": theme.ink,
        "axes.labelcolor": theme.soft,
        "axes.edgecolor": theme.line,
        "axes.facecolor": theme.paper,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": theme.line,
        "xtick.color": theme.line,
        "ytick.color": theme.line,
        "xtick.labelcolor": theme.soft,
        "ytick.labelcolor": theme.soft,
        "figure.facecolor": theme.paper,
    }
