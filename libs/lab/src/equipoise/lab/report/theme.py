"""How the pictures look on light and on dark paper: the colours of the page around them."""

from typing import Any

import msgspec


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Colours. Every one has a contrast of at least 3 to the paper; neighbours differ to colour-blind eyes too."""

    paper: str
    ink: str
    soft: str
    line: str
    stock: str
    best: str
    others: tuple[str, ...]
    """Each comes in three dashes: hardly anyone tells nine colours apart."""


LIGHT = Look(
    paper="#ffffff",
    ink="#1c2430",
    soft="#5d6877",
    line="#dde3ea",
    stock="#7a8594",
    best="#0b67b2",
    others=("#d5520a", "#009973", "#7a1f6b"),
)
DARK = Look(
    paper="#12171e",
    ink="#e6eaf0",
    soft="#97a3b3",
    line="#303947",
    stock="#8f9bab",
    best="#5ab4f0",
    others=("#f0803c", "#1fae7e", "#f3c6ea"),
)
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))


def settings(look: Look) -> dict[Any, Any]:
    """For matplotlib."""
    return {
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
        "font.size": 12,
        "text.parse_math": False,  # names are text, whatever they hold
        "text.color": look.ink,
        "axes.labelcolor": look.soft,
        "axes.edgecolor": look.line,
        "axes.facecolor": look.paper,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": look.line,
        "xtick.color": look.line,
        "ytick.color": look.line,
        "xtick.labelcolor": look.soft,
        "ytick.labelcolor": look.soft,
        "figure.facecolor": look.paper,
    }
