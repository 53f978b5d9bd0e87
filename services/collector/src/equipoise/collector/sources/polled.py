"""A source that is asked at its own pace for what it knows of this moment, as it has no memory."""

import asyncio
from typing import Protocol

from equipoise.collector.decisions.query import SourceError
from equipoise.runtime.process.clock import Clock


class Poll(Protocol):
    """Asks once and keeps the answer. Raises SourceError, and nothing else, when there is none."""

    async def __call__(self) -> None: ...


class Polled:
    """Polls for as long as it runs, on standbys too: who takes over the lead has a history at once."""

    def __init__(self, poll: Poll, interval: float, clock: Clock) -> None:
        self._poll = poll
        self._interval = interval
        self._clock = clock
        self._problem = ""
        self._asked = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(self._interval)

    async def look(self) -> None:
        """Poll once."""
        try:
            await self._poll()
            self._problem = ""
        except SourceError as error:
            self._problem = str(error)
        self._asked.set()

    async def ready(self) -> None:
        """Returns when the last poll had an answer; raises its SourceError when not."""
        await self._asked.wait()
        if self._problem:
            raise SourceError(self._problem)
