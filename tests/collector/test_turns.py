"""Work on a whole fleet lets everything else run."""

import asyncio
import threading

from equipoise.collector.turns import SERIES_AT_ONCE, aside, emptied, in_turns


async def test_others_run_between_two_parts() -> None:
    """And only there: the parts are those of the moment at which it began."""
    items, seen = [1, 2, 3, 4, 5], list[object]()

    async def other() -> None:
        for _ in range(2):
            seen.append("other")
            items.append(6)
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    async for part in in_turns(items, 2):
        seen.append(part)
    await running

    assert seen == [[1, 2], "other", [3, 4], "other", [5]]


async def test_much_is_made_in_a_thread() -> None:
    """Little is not worth one."""
    here = threading.get_ident()

    assert await aside(SERIES_AT_ONCE, threading.get_ident) == here
    assert await aside(SERIES_AT_ONCE + 1, threading.get_ident) != here


def test_what_is_emptied_holds_nothing() -> None:
    """Neither the first nor the last of several."""
    first, last = {1: "one"}, {2: "two", 3: "three"}

    emptied(first, {}, last)

    assert ({}, {}) == (first, last)
