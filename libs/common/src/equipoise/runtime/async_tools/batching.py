"""Runs long work in parts or in a thread, so that the event loop can run other tasks meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, MutableMapping
from typing import Any, ParamSpec, TypeVar

NODES_PER_BATCH = 100
"""The number of nodes in a batch, with their pods. A batch takes some milliseconds."""

WORKLOADS_PER_BATCH = 500

PROFILES_PER_BATCH = 100
"""The number of annotations of workloads in a batch, which takes ten milliseconds."""

THREAD_THRESHOLD = 1_000
"""The number of series or pods above which work is done in a thread. Work on 150,000 pods takes a second."""

T = TypeVar("T")
P = ParamSpec("P")


async def in_batches(items: Iterable[T], size: int) -> AsyncIterator[list[T]]:
    """Yields the current items in batches. Other tasks run between two batches."""
    current = list(items)
    for first in range(0, len(current), size):
        if first:
            await asyncio.sleep(0)
        yield current[first : first + size]


async def in_thread_if_many(count: int, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The result of a pure function over `count` items, computed in a thread if there are many."""
    if count <= THREAD_THRESHOLD:
        return function(*arguments, **named)
    return await asyncio.to_thread(function, *arguments, **named)


def drain(*mappings: MutableMapping[Any, Any]) -> None:
    """Deletes the items one by one. Freeing them all at once would block every thread."""
    for mapping in mappings:
        while mapping:
            mapping.popitem()
