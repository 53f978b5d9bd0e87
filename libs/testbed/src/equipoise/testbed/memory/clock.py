"""A clock that changes only when a test advances it."""

import asyncio
import heapq
from collections.abc import Sized
from itertools import count

_MAX_TURNS = 100
"""Turns of the event loop after which `settle` returns although tasks are still ready."""

_IDLE_TURNS = 3
"""`settle` returns after this many turns in a row without a ready task. Each turn also receives data from sockets."""


async def settle() -> None:
    """Let every task run until it waits for something that has not happened yet (time, a message, real I/O)."""
    ready: Sized = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # no public method shows it
    idle = 0
    for _ in range(_MAX_TURNS):
        await asyncio.sleep(0)
        idle = 0 if ready else idle + 1
        if idle == _IDLE_TURNS:
            return


class ManualClock:
    """A `Clock` that a test moves. Work in threads and on sockets does not follow it: await an event of that work."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._start = now
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Unix seconds."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved the clock this far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waker = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), waker))
        await waker

    @property
    def sleepers(self) -> int:
        """How many tasks wait for time to pass."""
        return sum(not waker.done() for _, _, waker in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move on by this many seconds, waking every sleeper at its own time and letting all tasks run in between.

        A loop that sleeps 10 s runs six times in `advance(60)`, each time at its right time.
        """
        await settle()
        target = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due = self._sleepers[0][0]
            self._elapsed = max(self._elapsed, due)
            while self._sleepers and self._sleepers[0][0] <= due:
                waker = heapq.heappop(self._sleepers)[2]
                if not waker.done():
                    waker.set_result(None)
            await settle()
        self._elapsed = target
        await settle()

    async def jump(self, seconds: float) -> None:
        """Move on at once, as after the suspension of a machine. Every sleeper that is due wakes once, and late."""
        await settle()
        self._elapsed += seconds
        await self.advance(0)

    def step(self, seconds: float) -> None:
        """The wall clock is set forward, or back if negative. No time passes."""
        self._start += seconds
