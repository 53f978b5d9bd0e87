"""Work with a guard, and the cancellation of both."""

import asyncio
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
