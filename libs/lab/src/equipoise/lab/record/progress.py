"""What a recording shows meanwhile: a bar on a terminal, a plain line now and then elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 15.0


class Shown:
    """Where the work stands."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self._console = console
        self._bar = bar
        self._task = bar.add_task("", total=None) if bar else None
        self._doing = ""
        self._done = 0
        self._total: int | None = None

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def doing(self, text: str) -> None:
        """What is being read."""
        self._doing = text
        self._update()

    def parts(self, done: int, total: int) -> None:
        """How many parts there are of those that will be."""
        self._done, self._total = done, total
        self._update()

    def advance(self) -> None:
        """One part more."""
        self._done += 1
        self._update()

    def line(self) -> str:
        return self._doing if self._total is None else f"{self._done} of {self._total}: {self._doing}"

    def _update(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=self._doing, completed=self._done, total=self._total)


@asynccontextmanager
async def shown(console: Console, every: float = PLAIN_SECONDS) -> AsyncIterator[Shown]:
    """Shows until it is left. `every`: seconds between plain lines."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            yield Shown(console, bar)
        return
    plain = Shown(console, None)
    # Not in a TaskGroup: it would wrap what goes wrong in the work into a group of errors.
    task = asyncio.get_running_loop().create_task(_lines(plain, every))
    try:
        yield plain
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _lines(plain: Shown, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        plain.note(plain.line())
