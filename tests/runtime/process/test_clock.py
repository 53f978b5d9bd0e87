"""Time that tests move."""

import asyncio
import time

from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock


async def test_a_sleeper_wakes_when_its_time_has_come_and_not_before() -> None:
    """A sleeper wakes when its time has come and not before."""
    clock = ManualClock(now=1_000.0)
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(clock.now())

    tasks = [asyncio.create_task(sleep(seconds)) for seconds in (30, 10, 20)]
    await clock.advance(9.9)
    assert woken == []
    await clock.advance(10.1)
    assert woken == [1_010.0, 1_020.0]
    await clock.advance(10)
    assert woken == [1_010.0, 1_020.0, 1_030.0]
    await asyncio.gather(*tasks)


async def test_a_loop_runs_at_each_of_its_moments_within_one_long_step() -> None:
    """A loop that sleeps 10 s runs six times in a minute, each time at the right time."""
    clock = ManualClock(now=0.0)
    rounds: list[float] = []

    async def loop() -> None:
        while True:
            await clock.sleep(10)
            rounds.append(clock.now())

    task = asyncio.create_task(loop())
    await clock.advance(60)
    assert rounds == [10, 20, 30, 40, 50, 60]
    assert clock.monotonic() == 60
    task.cancel()


async def test_no_time_passes_by_itself() -> None:
    """Only the test moves time, and a sleep of nothing does not wait for it."""
    clock = ManualClock()
    before = clock.now()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.now() == before


async def test_a_cancelled_sleeper_is_no_sleeper_any_more() -> None:
    """A cancelled sleeper is forgotten; the others are woken as if it had never been."""
    clock = ManualClock()
    first, second = asyncio.create_task(clock.sleep(1)), asyncio.create_task(clock.sleep(1))
    await clock.advance(0)
    assert clock.sleepers == 2
    first.cancel()
    await clock.advance(0)
    assert clock.sleepers == 1
    await clock.advance(1)
    assert second.done()
    assert clock.sleepers == 0


async def test_the_system_clock_returns_unix_seconds() -> None:
    """The system clock returns Unix seconds, and really sleeps."""
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 1  # noqa: TID251
    before = clock.monotonic()
    await clock.sleep(0.02)
    assert clock.monotonic() - before >= 0.02
