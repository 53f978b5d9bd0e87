"""Runs work together with a guard that may end it. At most one error is raised, and no task remains."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, NoReturn, TypeVar

from equipoise.runtime.process.clock import Clock

T = TypeVar("T")


async def run_with_guard(work: Awaitable[T], guard: Coroutine[Any, Any, NoReturn]) -> T:
    """The result of `work`. If `guard` raises an error first, `work` is cancelled; once it has ended, the error is
    raised.

    If the caller is cancelled, CancelledError is raised even if there is an error. A TaskGroup of Python 3.11 forgets a
    cancellation while it waits for its tasks because of an error.
    """
    caller = asyncio.current_task()
    assert caller is not None
    cancellations = caller.cancelling()
    raised: tuple[BaseException, ...] = ()
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(guard)
            result = await work
            watcher.cancel()
        return result
    except BaseExceptionGroup as errors:
        raised = errors.exceptions
        errors.__traceback__ = None  # its frames refer to it
    # The error is raised here because the group, which contains it, would be its context above. With its traceback, it
    # refers to this frame. Each of these cycles would keep all that the work has read until a garbage collection.
    del group, watcher
    first, *others = raised
    try:
        if caller.cancelling() > cancellations:
            raise asyncio.CancelledError from first
        raise first from (others[0] if others else None)
    finally:
        del raised, first, others


async def timeout_after(clock: Clock, seconds: float) -> NoReturn:
    """A guard that raises TimeoutError after this many seconds."""
    await clock.sleep(seconds)
    raise TimeoutError(f"no response within {seconds:.1f} s")
