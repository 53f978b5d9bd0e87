"""Progress of a recording: a bar on a terminal, otherwise a plain line every 15 seconds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 15.0


class RecordProgress:
    """The progress of a recording."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self._console = console
        self._bar = bar
        self._task = bar.add_task("", total=None) if bar else None
        self._doing = ""
        self._done = 0
        self._total: int | None = None

    def note(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def doing(self, text: str) -> None:
        """Set the current activity."""
        self._doing = text
        self._update()

    def parts(self, done: int, total: int) -> None:
        """Set the number of finished parts, and of all."""
        self._done, self._total = done, total
        self._update()

    def advance(self) -> None:
        """Count one more finished part."""
        self._done += 1
        self._update()

    def line(self) -> str:
        return self._doing if self._total is None else f"{self._done} of {self._total}: {self._doing}"

    def _update(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=self._doing, completed=self._done, total=self._total)


@asynccontextmanager
async def shown(console: Console, every: float = PLAIN_SECONDS) -> AsyncIterator[RecordProgress]:
    """Show progress inside the block. `every`: seconds between plain lines."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            yield RecordProgress(console, bar)
        return
    plain = RecordProgress(console, None)
    # Not a TaskGroup, which would wrap errors of the recording in an ExceptionGroup.
    task = asyncio.get_running_loop().create_task(_lines(plain, every))
    try:
        yield plain
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _lines(plain: RecordProgress, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        plain.note(plain.line())
