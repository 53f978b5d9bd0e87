"""Long work lets everything else run."""

import asyncio

from equipoise.runtime.async_tools.batching import in_batches


async def test_others_run_between_two_parts() -> None:
    """And only there: the parts are those of the moment at which it began."""
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
