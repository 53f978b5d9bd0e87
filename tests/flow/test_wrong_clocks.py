"""The services together while clocks are wrong, and after they are right again."""

import itertools

import pytest
from flow.loop import HOT, INTERVAL, Loop

YEAR = 31_536_000.0
WRONG = 300.0
"""Seconds for which the clocks are wrong."""

AGAIN = 1_200.0 + 10 * INTERVAL
"""Seconds within which the next pod must be evicted: the windows of the halved limits, and the first evaluations."""


class Evictions:
    """When pods were evicted, in seconds that have passed."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.times: list[float] = []

    def count(self) -> int:
        evicted = len(self._loop.evicted())
        self.times += [self._loop.clock.monotonic()] * (evicted - len(self.times))
        return evicted


def set_clocks(loop: Loop, which: str, seconds: float) -> None:
    """`all`: of every machine; `services`: not that of the API server; `API server`: only that one."""
    if which != "API server":
        loop.clock.step(seconds)
    if which != "all":
        loop.kube.skew += seconds if which == "API server" else -seconds


@pytest.mark.parametrize("seconds", [YEAR, -7_200.0])
@pytest.mark.parametrize("which", ["all", "services", "API server"])
async def test_after_clocks_were_wrong_pods_are_evicted_as_before(which: str, seconds: float) -> None:
    """A pod that is placed meanwhile included. The limits hold by the time that passes, whatever clocks show."""
    loop = Loop()
    async with loop.running(colocation=True):
        evictions = Evictions(loop)
        await loop.until(lambda: evictions.count() == 1, limit=10 * INTERVAL)
        set_clocks(loop, which, seconds)
        loop.place("web", "web-late", HOT)
        for _ in range(round(WRONG / 10)):
            await loop.pass_time(10)
            evictions.count()
        set_clocks(loop, which, -seconds)
        known = evictions.count()
        await loop.until(lambda: evictions.count() > known, limit=AGAIN)
        await loop.pass_time(2 * INTERVAL)

    assert all(later - earlier >= 590 for earlier, later in itertools.pairwise(evictions.times))
    assert not any(loop.problems().values())
