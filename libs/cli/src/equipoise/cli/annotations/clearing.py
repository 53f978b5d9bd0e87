"""The progress of a command that clears many objects one after the other."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from equipoise.cli.progress import Report, progress


@contextmanager
def clearing(total: int, noun: str) -> Iterator[Report]:
    """Report each object that was handled. Prints how far it got if it is interrupted."""
    done = 0

    def count(name: str) -> None:
        nonlocal done
        done += 1
        report(name)

    try:
        with progress(total, "clearing", noun) as report:
            yield count
    except BaseException:
        text = f"interrupted after {done} of {total} {noun}; run the same command again to clear the others"
        click.echo(text, err=True)
        raise
