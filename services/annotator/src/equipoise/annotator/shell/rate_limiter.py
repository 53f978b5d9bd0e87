"""Lets requests begin one after the other, no sooner than a pause lets them."""

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from equipoise.runtime.process.clock import Clock

T = TypeVar("T")


class Pacing:
    """Turns at a pace, first come first served. A turn is taken right before its request, or the pace is not kept."""

    def __init__(self, clock: Clock, pause: Callable[[], float]) -> None:
        """`pause`: seconds from a turn that is taken now to the next."""
        self._clock = clock
        self._pause = pause
        self._line = asyncio.Lock()
        self._next_at = -math.inf
        """When the next turn is (monotonic)."""

    async def turn(self, wanted: Callable[[], T | None]) -> T | None:
        """What is wanted when the turn has come: much may have changed since. None: the turn is the next one's."""
        async with self._line:
            while (left := self._next_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(left)
            found = wanted()
            if found is not None:
                self._next_at = self._clock.monotonic() + self._pause()
            return found

    def rest(self, seconds: float) -> None:
        """No turn for so long, not even for those who wait for one already."""
        self._next_at = max(self._next_at, self._clock.monotonic() + seconds)
