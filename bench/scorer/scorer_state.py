"""The memory of a scorer with 5,000 nodes and 150,000 pods, and the time from its start until it is ready."""

import asyncio
import time
from statistics import median

from bench.memory import resident_mb
from bench.output import progress, report
from bench.scorer.scorer_process import filled_bus

STARTS = 3


async def main() -> None:
    async with filled_bus() as filled:
        taken, memory = [], []
        for number in range(STARTS):
            progress(f"start {number + 1} of {STARTS}")
            started = time.monotonic()
            async with filled.scorer() as scorer:
                await scorer.ready()
                taken.append(time.monotonic() - started)
                await filled.publish_cycle()
                await asyncio.sleep(3.0)
                memory.append(resident_mb(scorer.process.pid))
        report("scorer_warm_start", median(taken), "s from the start of the process to ready", target=("<=", 2.0))
        report("scorer_memory", max(memory), "MB resident", target=("<=", 300.0))


if __name__ == "__main__":
    asyncio.run(main())
