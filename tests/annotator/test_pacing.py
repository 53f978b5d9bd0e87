"""When requests may begin."""

import asyncio
from collections.abc import Callable

import pytest

from equipoise.annotator.shell.rate_limiter import Pacing
from equipoise.testbed.memory.clock import ManualClock


class Line:
    """Some who wait for their turns, one second apart unless it is said otherwise."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pause = 1.0
        self.pacing = Pacing(self.clock, lambda: self.pause)
        self.begun: list[tuple[float, str]] = []

    async def wait(self, name: str, wanted: Callable[[], str | None] | None = None) -> None:
        found = await self.pacing.turn(wanted or (lambda: name))
        if found is not None:
            self.begun.append((self.clock.monotonic(), found))


@pytest.fixture
def line() -> Line:
    return Line()


async def test_one_after_the_other_in_the_order_of_coming(line: Line) -> None:
    """The first at once; and idleness is no reserve for later."""
    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(line.wait(name))
        await line.clock.advance(10)
        for name in "de":
            tasks.create_task(line.wait(name))
        await line.clock.advance(10)
    assert line.begun == [(0, "a"), (1, "b"), (2, "c"), (10, "d"), (11, "e")]


async def test_a_turn_that_is_not_wanted_any_more_is_the_next_one_s(line: Line) -> None:
    """What is wanted is asked when it has come."""
    wanted: str | None = "b"
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(line.wait("a"))
        tasks.create_task(line.wait("b", lambda: wanted))
        tasks.create_task(line.wait("c"))
        await line.clock.advance(0.5)
        wanted = None
        await line.clock.advance(10)
    assert line.begun == [(0, "a"), (1, "c")]


async def test_the_pause_is_the_one_of_the_moment(line: Line) -> None:
    """Members come while others wait."""
    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(line.wait(name))
        await line.clock.advance(0.5)
        line.pause = 2.0
        await line.clock.advance(10)
    assert line.begun == [(0, "a"), (1, "b"), (3, "c")]


async def test_a_rest_holds_for_who_waits_already(line: Line) -> None:
    """And a shorter one does not end it."""
    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(line.wait(name))
        await line.clock.advance(0.5)
        line.pacing.rest(5)
        line.pacing.rest(1)
        await line.clock.advance(10)
    assert line.begun == [(0, "a"), (5.5, "b"), (6.5, "c")]


async def test_who_gives_up_holds_up_nobody(line: Line) -> None:
    """Whoever stands first in the line."""
    await line.wait("a")
    async with asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(line.wait(name)) for name in "bc")
        await line.clock.advance(0.5)
        first.cancel()
        await line.clock.advance(10)
    assert second.done()
    assert line.begun == [(0, "a"), (1, "c")]
