"""Four months of the five services in compressed time: every day all nodes, pods and workloads have new names."""

import asyncio
import logging
import sys
import time

import structlog

from bench.memory import resident_mb
from bench.output import report

sys.path.insert(0, "tests")
from flow.weeks import LONG, Weeks

DAYS = 120
NODES, WORKLOADS = 60, 40
FIRST_DAY = 10
"""The day after which every stream has what it keeps."""


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    began = time.monotonic()
    loop = Weeks(nodes=NODES, workloads=WORKLOADS)
    async with loop.running():
        for _ in range(FIRST_DAY):
            await loop.pass_day(LONG)
        first, first_rss = loop.size(), resident_mb()
        for _ in range(DAYS - FIRST_DAY):
            await loop.pass_day(LONG)
        last = loop.size()
        evictions = len(loop.evicted())
    growth = {name: last.services[name].bytes / first.services[name].bytes - 1 for name in first.services}
    messages = {name: count for name, (count, _) in last.streams.items()}
    report(
        "weeks",
        max(growth.values()),
        "share",
        target=("<=", 0.05),
        days=DAYS,
        evictions=evictions,
        seconds=round(time.monotonic() - began),
        growth=", ".join(f"{name} {share:.3f}" for name, share in growth.items()),
        messages=", ".join(f"{name} {count}" for name, count in messages.items()),
        resident_growth_mb=round(resident_mb() - first_rss, 1),
    )


if __name__ == "__main__":
    asyncio.run(main())
