"""The five services over thirty days, each with other nodes, workloads and pods than the day before."""

import logging
from collections.abc import Iterable

import pytest
import structlog
from flow.state_size import StateSize
from flow.weeks import LONG, SHORT, DaySize, Weeks

DAYS = 30
EARLY, LATE = range(3, 9), range(25, 31)
"""Days whose largest sizes are compared: caches grow and shrink from day to day."""

KEPT_FOR_A_WEEK = "EQUIPOISE_ADVICE"
AFTER_A_WEEK = range(9, 14)
GROWTH = 1.05


@pytest.mark.timeout(600)
async def test_nothing_grows_from_week_to_week() -> None:
    """Neither what a service remembers, in bytes and in entries, nor a stream: all end as after the first days.

    Takes seconds: five services live through thirty days.
    """
    loop = Weeks()
    days: dict[int, DaySize] = {}
    with structlog.testing.capture_logs():  # all lines would be megabytes
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        async with loop.running():
            for day in range(1, DAYS + 1):
                await loop.pass_day(LONG if day % 6 == 2 else SHORT)
                if day in (*EARLY, *AFTER_A_WEEK, *LATE):
                    days[day] = loop.size()
            problems = loop.problems()

    assert len(loop.evicted()) >= 4
    assert not any(problems.values())
    for service in days[3].services:
        early, late = ([days[day].services[service] for day in each] for each in (EARLY, LATE))
        assert largest(each.entries for each in late) <= GROWTH * largest(each.entries for each in early), grown(
            late, early
        )
        assert largest(each.bytes for each in late) <= GROWTH * largest(each.bytes for each in early), grown(
            late, early
        )
    for stream in days[3].streams:
        before = AFTER_A_WEEK if stream == KEPT_FOR_A_WEEK else EARLY
        for part in (0, 1):
            early_size = largest(days[day].streams[stream][part] for day in before)
            assert largest(days[day].streams[stream][part] for day in LATE) <= GROWTH * early_size, stream


def grown(late: list[StateSize], early: list[StateSize]) -> dict[str, object]:
    """What to search for: attributes whose size has changed most."""
    before, now = early[-1].parts, late[-1].parts
    changed = {name: (before.get(name, (0, 0)), size) for name, size in now.items() if size != before.get(name)}
    return dict(sorted(changed.items(), key=lambda each: each[1][0][0] - each[1][1][0])[:8])


def largest(sizes: Iterable[int]) -> int:
    return max(sizes)
