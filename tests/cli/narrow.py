"""Output on terminals of several widths."""

import io
from collections.abc import Callable

from rich.console import Console

from equipoise.cli.terminal import VisibleConsole

WIDTHS = (40, 60, 80)
UNFOLDED = 1_000_000
LONGEST = 20
"""Characters of a word that fits beside a label, also at 40 columns."""


def printed(show: Callable[[Console], object], width: int) -> str:
    text = io.StringIO()
    show(VisibleConsole(file=text, width=width))
    return "\n".join(text.getvalue().splitlines())


def assert_never_cut(show: Callable[[Console], object]) -> None:
    """Every word of the unfolded output is there at every width, and no line is longer than the terminal."""
    words = printed(show, UNFOLDED).split()
    assert words
    for width in WIDTHS:
        narrow = printed(show, width)
        found, joined = set(narrow.split()), "".join(narrow.split())
        long = [line for line in narrow.splitlines() if len(line) > width]
        lost = [word for word in words if word not in joined or (len(word) <= LONGEST and word not in found)]
        assert not long, f"at {width} columns: too long {long}"
        assert not lost, f"at {width} columns: lost {lost}"
