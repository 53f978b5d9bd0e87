"""When requests may begin."""

import asyncio
from collections.abc import Callable

import pytest

from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.testbed.memory.clock import ManualClock


class Callers:
    """Callers that wait for their requests, one second apart by default."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.interval = 1.0
        self.limiter = RateLimiter(self.clock, lambda: self.interval)
        self.started: list[tuple[float, str]] = []

    async def wait(self, name: str, wanted: Callable[[], str | None] | None = None) -> None:
        found = await self.limiter.acquire(wanted or (lambda: name))
        if found is not None:
            self.started.append((self.clock.monotonic(), found))


@pytest.fixture
def callers() -> Callers:
    return Callers()


async def test_requests_begin_one_interval_apart_in_the_order_of_their_calls(callers: Callers) -> None:
    """The first one at once; unused time is not saved for later."""
    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(callers.wait(name))
        await callers.clock.advance(10)
        for name in "de":
            tasks.create_task(callers.wait(name))
        await callers.clock.advance(10)
    assert callers.started == [(0, "a"), (1, "b"), (2, "c"), (10, "d"), (11, "e")]


async def test_a_slot_that_is_no_longer_wanted_goes_to_the_next_caller(callers: Callers) -> None:
    """What is wanted is evaluated when the slot is there."""
    wanted: str | None = "b"
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(callers.wait("a"))
        tasks.create_task(callers.wait("b", lambda: wanted))
        tasks.create_task(callers.wait("c"))
        await callers.clock.advance(0.5)
        wanted = None
        await callers.clock.advance(10)
    assert callers.started == [(0, "a"), (1, "c")]


async def test_the_current_interval_is_used(callers: Callers) -> None:
    """It may change while callers wait."""
    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(callers.wait(name))
        await callers.clock.advance(0.5)
        callers.interval = 2.0
        await callers.clock.advance(10)
    assert callers.started == [(0, "a"), (1, "b"), (3, "c")]


async def test_a_suspension_holds_for_callers_that_wait_already(callers: Callers) -> None:
    """A shorter suspension does not end it."""
    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(callers.wait(name))
        await callers.clock.advance(0.5)
        callers.limiter.suspend(5)
        callers.limiter.suspend(1)
        await callers.clock.advance(10)
    assert callers.started == [(0, "a"), (5.5, "b"), (6.5, "c")]


async def test_a_canceled_caller_does_not_block_the_next_one(callers: Callers) -> None:
    """Even when it is the first in the queue."""
    await callers.wait("a")
    async with asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(callers.wait(name)) for name in "bc")
        await callers.clock.advance(0.5)
        first.cancel()
        await callers.clock.advance(10)
    assert second.done()
    assert callers.started == [(0, "a"), (1, "c")]
