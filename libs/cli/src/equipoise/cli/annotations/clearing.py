"""Clears many objects of the API server one after the other."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import click
import msgspec

from equipoise.cli.progress import progress
from equipoise.runtime.kubernetes.client import Conflict, KubeError, NotFound
from equipoise.runtime.process.clock import Clock

T = TypeVar("T")


class Uncleared(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that could not be cleared."""

    deleted: int
    """Number of objects that were deleted in the meantime."""

    failed: dict[str, str]
    """Error by object."""


async def clear_each(
    objects: Sequence[T], remove: Callable[[T], Awaitable[None]], clock: Clock, *, rate: float, noun: str
) -> Uncleared:
    """Clears `rate` objects per second, and shows the progress. If interrupted, it prints how many are cleared.

    It continues after an object that cannot be written. Raises KubeError when the API server does not respond.
    """
    done = deleted = 0
    failed: dict[str, str] = {}
    try:
        with progress(len(objects), "clearing", noun) as report:
            for item in objects:
                begun = clock.monotonic()
                try:
                    await remove(item)
                except (NotFound, Conflict):
                    deleted += 1
                except KubeError as error:
                    if error.status == 0:
                        raise
                    failed[str(item)] = str(error)
                done += 1
                report(str(item))
                await clock.sleep(1 / rate - (clock.monotonic() - begun))
    except BaseException:
        text = f"interrupted after {done} of {len(objects)} {noun}; run the same command again to clear the others"
        click.echo(text, err=True)
        raise
    return Uncleared(deleted=deleted, failed=failed)
