"""Clears many objects of the API server one after the other."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import click
import msgspec

from equipoise.cli.progress import progress
from equipoise.runtime.kubernetes.client import Conflict, Kube, KubeError, NotFound, Resource, find, metadata_of
from equipoise.runtime.process.clock import Clock


class Clearable(Protocol):
    """An object of the API server."""

    @property
    def resource(self) -> Resource[Any]: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


T = TypeVar("T", bound=Clearable)


class Uncleared(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that could not be cleared."""

    deleted: int
    """Number of objects that were deleted in the meantime."""

    failed: dict[str, str]
    """Error by object."""


async def clear_each(
    kube: Kube, objects: Sequence[T], remove: Callable[[T], Awaitable[None]], clock: Clock, *, rate: float, noun: str
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
                except KubeError as error:
                    if error.status == 0:
                        raise
                    if await _is_gone(kube, item, error):
                        deleted += 1
                    else:
                        failed[str(item)] = str(error)
                done += 1
                report(str(item))
                await clock.sleep(1 / rate - (clock.monotonic() - begun))
    except BaseException:
        text = f"interrupted after {done} of {len(objects)} {noun}; run the same command again to clear the others"
        click.echo(text, err=True)
        raise
    return Uncleared(deleted=deleted, failed=failed)


async def _is_gone(kube: Kube, item: Clearable, error: KubeError) -> bool:
    """Whether the object was deleted in the meantime, perhaps with another one of its name now. A conflict may also
    mean that another program has changed it. Raises KubeError when the API server does not respond."""
    if isinstance(error, NotFound):
        return True
    if not isinstance(error, Conflict):
        return False
    try:
        now = await find(kube, metadata_of(item.resource), item.name, item.namespace)
    except KubeError as unknown:
        if unknown.status == 0:
            raise
        return False
    return now is None or now.metadata.uid != item.uid
