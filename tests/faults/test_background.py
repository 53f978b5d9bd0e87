"""Tasks beside a part of a fault."""

import asyncio

import pytest

from faults.background import background


async def _wait(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("waiting")


async def _fail() -> None:
    raise OSError("broken")


async def test_tasks_end_with_their_part() -> None:
    """Also if it fails."""
    ended: list[str] = []
    async with background(_wait(ended), _wait(ended)):
        await asyncio.sleep(0)
    assert ended == ["waiting", "waiting"]

    async def failing_part() -> None:
        async with background(_wait(ended), _fail()):
            await asyncio.sleep(0)
            raise ValueError("the part itself")

    with pytest.raises(ValueError, match="the part itself"):
        await failing_part()
    assert len(ended) == 3


async def test_the_failure_of_a_task_is_raised_at_the_end() -> None:
    """The part goes on until then."""
    reached = asyncio.Event()

    async def part() -> None:
        async with background(_wait([]), _fail()):
            await asyncio.sleep(0.01)
            reached.set()

    with pytest.raises(OSError, match="broken"):
        await part()
    assert reached.is_set()
