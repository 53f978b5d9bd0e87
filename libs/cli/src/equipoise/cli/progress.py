"""Progress of a long command on stderr: a bar or a changing line on a terminal, a line every 15 seconds elsewhere."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from equipoise.cli.terminal import VisibleConsole, duration

_LINE_SECONDS = 15.0

Report = Callable[[str], None]
"""A function that must be called for each finished item, with the name of the item."""

T = TypeVar("T")

_SHOWN: ContextVar[bool] = ContextVar("shown", default=False)
"""Whether the activity of a command is shown already: then its parts show no other one."""


@contextmanager
def progress(total: int, verb: str = "replaying", items: str = "replays") -> Iterator[Report]:
    """Show the progress while the block runs. `total`: the number of items."""
    console = VisibleConsole(stderr=True)
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(verb, total=total)
            yield lambda name: bar.update(task, advance=1, description=name)
        return
    last, count = time.monotonic(), 0

    def line(name: str) -> None:
        nonlocal last, count
        count += 1
        if time.monotonic() - last > _LINE_SECONDS or count == total:
            last = time.monotonic()
            console.print(f"{count} of {total} {items}: {name}", highlight=False)

    yield line


class Activity:
    """What a command waits for, and how many of the queries of this step were answered. The number of all queries is
    not known before they are sent: some depend on the results of others."""

    def __init__(self, step: str, show: Callable[[str], None]) -> None:
        self._show = show
        self._step = step
        self._sent = self._answered = 0
        self.answered_before = 0
        """The number of queries that were answered in earlier steps."""

        show(step)

    def begin(self, step: str) -> None:
        """Show the next step, without queries."""
        self.answered_before += self._answered
        self._step, self._sent, self._answered = step, 0, 0
        self._show(self.text)

    async def count(self, query: Awaitable[T]) -> T:
        """The result of a query, which is counted as a part of the current step."""
        step = self._step
        self._sent += 1
        self._show(self.text)
        ended = True
        try:
            return await query
        except asyncio.CancelledError:
            ended = False
            raise
        finally:
            if ended and self._step == step:
                self._answered += 1
                self._show(self.text)

    @property
    def text(self) -> str:
        """`measuring the last 5m: 3 of 8 queries`."""
        return f"{self._step}: {self._answered} of {self._sent} queries" if self._sent else self._step


@asynccontextmanager
async def shown_activity(
    step: str, console: Console | None = None, line_seconds: float = _LINE_SECONDS
) -> AsyncIterator[Activity]:
    """Shows what a command does while the block runs, and for how long. `console`: None means stderr."""
    if _SHOWN.get():
        yield Activity(step, lambda _: None)
        return
    console = console or VisibleConsole(stderr=True)
    shown = _SHOWN.set(True)
    try:
        showing = _changing_line(step, console) if console.is_terminal else _lines(step, console, line_seconds)
        async with showing as activity:
            yield activity
    finally:
        _SHOWN.reset(shown)


@asynccontextmanager
async def _changing_line(step: str, console: Console) -> AsyncIterator[Activity]:
    text = TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold"))
    with Progress(SpinnerColumn("line"), text, TimeElapsedColumn(), console=console, transient=True) as line:
        task = line.add_task(step, total=None)
        yield Activity(step, lambda current: line.update(task, description=current))


@asynccontextmanager
async def _lines(step: str, console: Console, seconds: float) -> AsyncIterator[Activity]:
    activity = Activity(step, lambda _: None)
    printing = asyncio.create_task(_print_lines(activity, console, seconds))
    try:
        yield activity
    finally:
        printing.cancel()
        await asyncio.wait([printing])


async def _print_lines(activity: Activity, console: Console, seconds: float) -> None:
    begun = time.monotonic()
    while True:
        await asyncio.sleep(seconds)
        console.print(f"{activity.text}, after {duration(time.monotonic() - begun)}", soft_wrap=True)
