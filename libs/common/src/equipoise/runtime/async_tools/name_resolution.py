"""The resolution of names, limited in time: without a limit, a DNS that does not respond looks like a slow server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from equipoise.runtime.process.failure_reason import NameNotResolved

T = TypeVar("T")

Resolve = Callable[[str, int], Awaitable[T]]


class NameResolution(Generic[T]):
    """Resolves names. Each name is requested once at a time, because a resolution that takes too long still occupies a
    thread: the next call waits for the same one."""

    def __init__(self, resolve: Resolve[T], seconds: float) -> None:
        """`resolve`: returns the addresses of a host and a port. `seconds`: the time in which it must."""
        self._resolve = resolve
        self._seconds = seconds
        self._pending: dict[tuple[str, int], asyncio.Future[T]] = {}

    async def addresses(self, host: str, port: int) -> T:
        """The addresses of the host. Raises NameNotResolved after `seconds`, and what `resolve` raises."""
        name = host, port
        pending = self._pending.get(name)
        if pending is None:
            pending = self._pending[name] = asyncio.ensure_future(self._resolve(host, port))
        done, _ = await asyncio.wait([pending], timeout=self._seconds)
        if not done:
            raise NameNotResolved(host, self._seconds)
        self._pending.pop(name, None)
        return pending.result()
