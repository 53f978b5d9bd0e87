"""How commands tell times, amounts and loads on a terminal."""

import datetime
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.contracts.messages.resources import Resources

ON_PIPES = 400
"""Columns where nobody looks: no line is folded."""

RESOURCES = ("cpu", "memory")
UNIT = {"cpu": "cores", "memory": "GiB"}
GIB = 2.0**30


def console() -> Console:
    """Standard output: with colours on a terminal (NO_COLOR is respected), as wide as needed elsewhere."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else ON_PIPES)


def table(*columns: str) -> Table:
    """Columns that end in `>` are numbers; the last one is folded, the others are not."""
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


def under(title: str, made: Table, to: Console) -> None:
    """A table with its title, after an empty line."""
    to.print()
    to.print(Text(title, style="bold"))
    to.print(made)


def day_and_time(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def time_of_day(seconds: float) -> str:
    """UTC, as everything that is told."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%H:%M:%S}"


def length(seconds: float) -> str:
    """As people say it: 47 s, 12 min, 3.5 h."""
    for unit, size in (("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:.0f} s"


def percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


def amount(resources: Resources, resource: str) -> str:
    """Cores or GiB, without the unit."""
    value: float | None = getattr(resources, resource)
    if value is None:
        return "?"
    return f"{value if resource == 'cpu' else value / GIB:.2f}"


def amounts(resources: Resources) -> str:
    return ", ".join(f"{amount(resources, resource)} {UNIT[resource]}" for resource in RESOURCES)
