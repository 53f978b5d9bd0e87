"""Long work lets everything else run."""

import asyncio
import threading

from equipoise.runtime.async_tools.batching import THREAD_THRESHOLD, drain, in_batches, in_thread_if_many


async def test_others_run_between_two_parts() -> None:
    """And only there: later changes of the collection have no effect."""
    items, seen = [1, 2, 3, 4, 5], list[object]()

    async def other() -> None:
        for _ in range(2):
            seen.append("other")
            items.append(6)
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    async for part in in_batches(items, 2):
        seen.append(part)
    await running

    assert seen == [[1, 2], "other", [3, 4], "other", [5]]


async def test_many_items_are_processed_in_a_thread() -> None:
    """Few items are processed at once."""
    here = threading.get_ident()

    assert await in_thread_if_many(THREAD_THRESHOLD, threading.get_ident) == here
    assert await in_thread_if_many(THREAD_THRESHOLD + 1, threading.get_ident) != here


def test_drained_mappings_are_empty() -> None:
    """All of them."""
    first, last = {1: "one"}, {2: "two", 3: "three"}

    drain(first, {}, last)

    assert ({}, {}) == (first, last)
