"""Output on a terminal: tables, times, durations and amounts."""

import datetime
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.contracts.messages.resources import Resources

S = TypeVar("S", bound=msgspec.Struct)

PIPE_WIDTH = 400
"""Columns where stdout is not a terminal: no line is folded."""

RESOURCES = ("cpu", "memory")
UNIT = {"cpu": "cores", "memory": "GiB"}
GIB = 2.0**30


def print_result(value: S, show: Callable[[S, Console], object], *, as_json: bool) -> None:
    """As JSON on one line, or as `show` prints it. On a terminal with colors, elsewhere unfolded."""
    if as_json:
        print(msgspec.json.encode(value).decode())
    else:
        show(value, Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH))


def table(*columns: str) -> Table:
    """Columns whose names end in `>` are numbers. The last column is folded, the others are not."""
    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        last = number + 1 == len(columns)
        made.add_column(
            column.rstrip(">"),
            justify="right" if column.endswith(">") else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
    return made


def print_section(to: Console, title: str, content: Table) -> None:
    """A table with its title, after an empty line."""
    to.print()
    to.print(Text(title, style="bold"))
    to.print(content)


def day_and_time(seconds: float) -> str:
    """UTC."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def time_of_day(seconds: float) -> str:
    """UTC."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%H:%M:%S}"


def duration(seconds: float) -> str:
    """47 s, 12 min, 3.5 h, 6.9 d."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:.0f} s"


def percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


def percentages(load: Resources) -> str:
    """`cpu 91.0%, memory 56.2%`."""
    return ", ".join(f"{resource} {percent(getattr(load, resource))}" for resource in RESOURCES)


def amount(resources: Resources, resource: str) -> str:
    """Cores or GiB, without the unit."""
    value: float | None = getattr(resources, resource)
    if value is None:
        return "?"
    return f"{value if resource == 'cpu' else value / GIB:.2f}"


def amounts(resources: Resources) -> str:
    """`0.50 cores, 1.00 GiB`."""
    return ", ".join(f"{amount(resources, resource)} {UNIT[resource]}" for resource in RESOURCES)
