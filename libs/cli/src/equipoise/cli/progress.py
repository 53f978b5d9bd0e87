"""Progress of a long command on stderr: a bar on a terminal, a line every 15 seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from equipoise.cli.terminal import VisibleConsole

_LINE_SECONDS = 15.0

Report = Callable[[str], None]
"""A function that must be called for each finished item, with the name of the item."""


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
