"""Tasks that run beside a part of a fault."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background(*coroutines: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run while entered and are then cancelled; the failure of one is raised at the end."""
    running = [asyncio.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
    for each in ended:
        if isinstance(each, Exception):
            raise each
