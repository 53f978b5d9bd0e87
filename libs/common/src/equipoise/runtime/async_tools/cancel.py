"""Runs work until it or a guard ends: one TaskGroup, one error, and no task remains."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, NoReturn, TypeVar

from equipoise.runtime.process.clock import Clock

T = TypeVar("T")


async def run_with_guard(work: Awaitable[T], guard: Coroutine[Any, Any, NoReturn]) -> T:
    """The result of `work`, unless `guard` raises first: then work is cancelled and, once it has ended, that raised.

    A cancellation of the caller is raised, even if an error was about to be: in Python 3.11, a TaskGroup that waits for
    its tasks because of an error forgets it.
    """
    caller = asyncio.current_task()
    assert caller is not None
    before = caller.cancelling()
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(guard)
            result = await work
            watcher.cancel()
    except BaseExceptionGroup as errors:
        first, *others = errors.exceptions
        if caller.cancelling() > before:
            raise asyncio.CancelledError from first
        raise first from (others[0] if others else None)
    return result


async def timeout_after(clock: Clock, seconds: float) -> NoReturn:
    """A guard that raises TimeoutError after this many seconds."""
    await clock.sleep(seconds)
    raise TimeoutError(f"no response within {seconds:.1f} s")
