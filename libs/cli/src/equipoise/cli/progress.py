"""How far many replays (or other things) are: a bar on a terminal, a line now and then elsewhere; always on stderr."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LINE_SECONDS = 15.0


class Report(Protocol):
    """Is told of every one that ended."""

    def __call__(self, what: str) -> None: ...


@contextmanager
def progress(total: int, doing: str = "replaying", things: str = "replays") -> Iterator[Report]:
    """Of `total` things."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(doing, total=total)
            yield lambda what: bar.update(task, advance=1, description=what)
        return
    last, count = time.monotonic(), 0

    def line(what: str) -> None:
        nonlocal last, count
        count += 1
        if time.monotonic() - last > _LINE_SECONDS or count == total:
            last = time.monotonic()
            console.print(f"{count} of {total} {things}: {what}", highlight=False)

    yield line
