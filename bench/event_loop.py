"""How long the event loop was blocked."""

import asyncio
import gc
import time

import msgspec

from bench.output import report

MONITOR_PERIOD = 0.005
LAG_PERIOD = 0.01
"""Seconds between two measurements."""


async def worst_lag(longest: list[float]) -> None:
    """Keeps the longest time for which the event loop was blocked: wall clock, and CPU time of its thread.

    On a busy machine, most of the first is caused by other processes.
    """
    while True:
        started, cpu = time.monotonic(), time.thread_time()
        await asyncio.sleep(LAG_PERIOD)
        longest[0] = max(longest[0], time.monotonic() - started - LAG_PERIOD)
        longest[1] = max(longest[1], time.thread_time() - cpu)


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """The delay of one wakeup, in seconds: by the wall clock, and CPU time of all threads meanwhile."""

    wall: float
    cpu: float


class EventLoopMonitor:
    """Wakes up every few milliseconds, and records the delays and the runs of the garbage collector."""

    def __init__(self) -> None:
        self.delays: list[Delay] = []
        self.collections: list[float] = []
        """CPU seconds of each garbage collection."""

        self._collection_started = 0.0
        gc.callbacks.append(self._on_collection)

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collection_started = time.thread_time()
        else:
            self.collections.append(time.thread_time() - self._collection_started)

    def reset(self) -> None:
        self.delays.clear()
        self.collections.clear()

    async def run(self) -> None:
        """Never returns."""
        while True:
            wall, cpu = time.monotonic(), time.process_time()
            await asyncio.sleep(MONITOR_PERIOD)
            delay = time.monotonic() - wall - MONITOR_PERIOD
            self.delays.append(Delay(wall=delay, cpu=time.process_time() - cpu))

    def report(self, name: str) -> None:
        """`cpu` excludes delays in which this process had no CPU time: other processes caused them."""
        worst = max(self.delays, key=lambda delay: delay.wall)
        own = max(min(delay.wall, delay.cpu) for delay in self.delays)
        report(
            f"{name}_event_loop", 1_000 * worst.wall, "ms, longest block", target=("<=", 100.0),
            cpu=round(1_000 * own, 1), wakeups=len(self.delays),
            above_100_ms=sum(delay.wall > 0.1 for delay in self.delays),
            cpu_above_100_ms=sum(min(delay.wall, delay.cpu) > 0.1 for delay in self.delays),
            garbage_collector=round(1_000 * max(self.collections, default=0.0), 1),
        )  # fmt: skip
