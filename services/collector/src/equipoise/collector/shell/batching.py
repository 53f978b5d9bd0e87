"""Work on a whole fleet, done so that everything else runs meanwhile."""

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any, ParamSpec, TypeVar

NODES_AT_ONCE = 100
"""With their pods; some milliseconds."""

WORKLOADS_AT_ONCE = 500

PROFILES_AT_ONCE = 100
"""As they stand on workloads; ten milliseconds."""

SERIES_AT_ONCE = 1_000
"""What is made of more than these is made in a thread: of 150,000 pods it takes a second."""

T = TypeVar("T")
P = ParamSpec("P")


async def aside(count: int, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What a pure function makes of `count` series: of many in a thread."""
    if count <= SERIES_AT_ONCE:
        return function(*arguments, **named)
    return await asyncio.to_thread(function, *arguments, **named)


def emptied(*mappings: MutableMapping[Any, Any]) -> None:
    """Let go of what only these hold, one by one: all at once would hold up everything, in a thread as well."""
    for mapping in mappings:
        while mapping:
            mapping.popitem()
