"""Runs searches for a node that takes a replacement. A search over all nodes of a large cluster blocks nothing else."""

import asyncio

from equipoise.binder.decisions.destination_check import DestinationSearch, Obstacle

FIRST_STEPS = 3
"""The steps of 1, 10 and 100 nodes, in which most searches end."""


class DestinationSearches:
    """Runs one long search at a time: with ten in turn, each read for another intent would wait for ten steps."""

    def __init__(self) -> None:
        self._long = asyncio.Lock()

    async def run(self, search: DestinationSearch) -> Obstacle | None:
        """The result of the search. Other tasks run between its steps, if it is long."""
        try:
            for _ in range(FIRST_STEPS):
                next(search)
            async with self._long:
                while True:
                    next(search)
                    await asyncio.sleep(0)
        except StopIteration as end:
            result: Obstacle | None = end.value
            return result
