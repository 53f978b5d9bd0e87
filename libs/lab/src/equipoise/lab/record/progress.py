"""Progress of a recording: a bar on a terminal, otherwise a plain line every 15 seconds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 15.0


class RecordProgress:
    """The progress of a recording."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._console = console
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self.bar.add_task("", total=None)

    def note(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def set_activity(self, text: str) -> None:
        self.bar.update(self._task, description=text)

    def set_parts(self, done: int, total: int) -> None:
        """Set the number of finished parts, and the number of all parts."""
        self.bar.update(self._task, completed=done, total=total)

    def advance(self) -> None:
        """Count one more finished part."""
        self.bar.advance(self._task)

    def line(self) -> str:
        task = self.bar.tasks[0]
        count = "" if task.total is None else f"{task.completed:.0f} of {task.total:.0f}: "
        return f"{count}{task.description}"


@asynccontextmanager
async def progress_on(console: Console, interval: float = PLAIN_SECONDS) -> AsyncIterator[RecordProgress]:
    """Show progress inside the block. `interval`: seconds between plain lines."""
    progress = RecordProgress(console)

    async def print_lines() -> None:
        while not console.is_terminal:
            await asyncio.sleep(interval)
            progress.note(progress.line())

    # Not a TaskGroup, which would wrap errors of the recording in an ExceptionGroup.
    task = asyncio.get_running_loop().create_task(print_lines())
    try:
        with progress.bar:
            yield progress
    finally:
        task.cancel()
        await asyncio.wait([task])
