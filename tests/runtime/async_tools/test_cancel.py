"""Work with a guard, and the cancellation of both."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import NoReturn

import pytest

from equipoise.runtime.async_tools.cancel import run_with_guard


async def test_a_caller_that_is_cancelled_while_an_error_ends_the_guard_is_cancelled() -> None:
    """It would go on otherwise: a loop that handles the error would never end."""
    guarded = asyncio.Event()
    ending = asyncio.Event()
    released = asyncio.Event()

    async def guard() -> NoReturn:
        guarded.set()
        try:
            while True:
                await asyncio.Event().wait()
        finally:
            ending.set()
            await released.wait()

    async def work() -> None:
        await guarded.wait()
        raise ValueError

    caller = asyncio.create_task(run_with_guard(work(), guard()))
    await ending.wait()
    caller.cancel()
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_an_error_after_a_cancellation_is_raised_as_it_is() -> None:
    """What a cancelled task does at its end may fail, and be handled."""

    async def forever() -> NoReturn:
        while True:
            await asyncio.Event().wait()

    async def failing() -> None:
        raise ValueError

    async def caller() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            try:
                await run_with_guard(failing(), forever())
            except ValueError:
                return "handled"
        return "never"

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "handled"


class Response:
    """Something large that the work has read."""


async def never_ending() -> NoReturn:
    while True:
        await asyncio.Event().wait()


@pytest.mark.parametrize("failing", ["work", "guard", "both"])
async def test_an_error_that_was_handled_keeps_nothing_in_memory(failing: str) -> None:
    """Watches end in this way for months, and the garbage collector of a service runs rarely."""
    read: list[weakref.ref[Response]] = []

    async def work() -> None:
        response = Response()
        read.append(weakref.ref(response))
        if failing != "guard":
            raise ValueError
        await never_ending()

    async def guard() -> NoReturn:
        response = Response()
        read.append(weakref.ref(response))
        if failing == "work":
            await never_ending()
        raise ValueError

    async def handle(run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except ValueError:
            return

    gc.disable()
    try:
        await handle(lambda: run_with_guard(work(), guard()))
        await asyncio.sleep(0)
        assert read
        assert [each() for each in read if each() is not None] == []
    finally:
        gc.enable()
