"""Output on terminals of several widths."""

import io
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from cli.long_names import with_long_names
from rich.console import Console

from equipoise.cli.terminal import VisibleConsole

WIDTHS = (40, 60, 80, 100, 120)
UNFOLDED = 1_000_000
LABEL = 20
"""Columns that a label beside a word may take."""

V = TypeVar("V")


def printed(show: Callable[[Console], object], width: int) -> str:
    text = io.StringIO()
    show(VisibleConsole(file=text, width=width))
    return "\n".join(text.getvalue().splitlines())


def assert_never_cut(show: Callable[[V, Console], object], value: V) -> None:
    """Every word of the unfolded output is there at every width, and no line is longer than the terminal.

    No word is broken in two that fits beside a label. Also with the longest names of objects.
    """
    for shown in (value, with_long_names(value)):
        words = printed(partial(show, shown), UNFOLDED).split()
        assert words
        for width in WIDTHS:
            narrow = printed(partial(show, shown), width)
            whole, joined = set(narrow.split()), "".join(narrow.split())
            long = [line for line in narrow.splitlines() if len(line) > width]
            lost = [word for word in words if word not in joined or (len(word) <= width - LABEL and word not in whole)]
            assert not long, f"at {width} columns: too long {long}"
            assert not lost, f"at {width} columns: lost {lost} in\n{narrow}"
