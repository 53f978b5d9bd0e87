"""Spaces requests at an interval, first come first served."""

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from equipoise.runtime.process.clock import Clock

T = TypeVar("T")


class RateLimiter:
    """Call `acquire` right before the request, or the rate is not kept."""

    def __init__(self, clock: Clock, interval: Callable[[], float]) -> None:
        """`interval`: the current number of seconds between two requests."""
        self._clock = clock
        self._interval = interval
        self._queue = asyncio.Lock()
        self._next_at = -math.inf
        """The time at which the next request may begin (monotonic)."""

    async def acquire(self, wanted: Callable[[], T | None]) -> T | None:
        """Waits until a request may begin, and returns what is wanted then. None leaves the slot to the next caller."""
        async with self._queue:
            while (left := self._next_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(left)
            found = wanted()
            if found is not None:
                self._next_at = self._clock.monotonic() + self._interval()
            return found

    def suspend(self, seconds: float) -> None:
        """No request for this long, not even of callers that wait already."""
        self._next_at = max(self._next_at, self._clock.monotonic() + seconds)
