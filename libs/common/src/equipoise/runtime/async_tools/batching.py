"""Long work, done so that everything else runs meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_batches(items: Iterable[T], size: int) -> AsyncIterator[list[T]]:
    """The items of this moment in parts; between two of them others have their turn."""
    every = list(items)
    for first in range(0, len(every), size):
        if first:
            await asyncio.sleep(0)
        yield every[first : first + size]
