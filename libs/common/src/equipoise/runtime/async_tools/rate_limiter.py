"""Limits the rate of requests, which are served in the order of arrival."""

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from equipoise.runtime.process.clock import Clock

T = TypeVar("T")


class RateLimiter:
    """Limits the rate of requests. Callers must call `acquire` immediately before each request."""

    def __init__(self, clock: Clock, interval: Callable[[], float]) -> None:
        """`interval`: the current number of seconds between two requests."""
        self._clock = clock
        self._interval = interval
        self._queue = asyncio.Lock()
        self._next_at = -math.inf
        """The time at which the next request may begin (monotonic)."""

    async def acquire(self, wanted: Callable[[], T | None]) -> T | None:
        """Waits until a request may begin, and returns the result of `wanted` at that time. If it is None, the next
        caller gets the slot."""
        async with self._queue:
            while (remaining := self._next_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(remaining)
            result = wanted()
            if result is not None:
                self._next_at = self._clock.monotonic() + self._interval()
            return result

    def suspend(self, seconds: float) -> None:
        """Delays all requests by this time, including those of callers that already wait."""
        self._next_at = max(self._next_at, self._clock.monotonic() + seconds)
