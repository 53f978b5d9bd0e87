"""The cost of the extender for kube-scheduler: pods bound per second with the extender entry, divided by without.

1,000 nodes, bursts of 2,000 pods that are pending when the scheduler starts; runs alternate, medians count.
"""

import asyncio
from statistics import median

from bench.line import progress, say
from bench.scheduling import FrozenCluster, frozen_cluster

NODES = 1_000
PODS = 2_000
PAIRS = 5


async def pods_per_second(frozen: FrozenCluster, *, extender: bool) -> float:
    """From the first binding to the last, by the audit log."""
    cluster = frozen.cluster
    await asyncio.to_thread(cluster.kill, "kube-scheduler")
    mark = frozen.mark()
    await frozen.create_pods(PODS)
    await asyncio.to_thread(cluster.restart_scheduler, frozen.scheduler(extender=extender))
    times = sorted(binding.time for binding in await frozen.bound(PODS, mark))
    await frozen.remove_pods()
    # Without both ends: the first pods wait for caches, the last ones for stragglers.
    middle = times[PODS // 10 : -PODS // 10]
    return len(middle) / (middle[-1] - middle[0]).total_seconds()


async def main() -> None:
    async with frozen_cluster([0.2 + 0.5 * number / NODES for number in range(NODES)]) as frozen, frozen.services():
        found: dict[bool, list[float]] = {False: [], True: []}
        for number in range(PAIRS):
            for extender in (False, True) if number % 2 else (True, False):
                rate = await pods_per_second(frozen, extender=extender)
                progress(f"pair {number + 1} of {PAIRS}, {'with' if extender else 'without'} the scorer: {rate:.0f}/s")
                found[extender].append(rate)
        ratios = [ours / stock for ours, stock in zip(found[True], found[False], strict=True)]
        say("scheduling_tax", median(found[True]), "pods/s", baseline=median(found[False]), target=(">=", 0.75),
            ratios=", ".join(f"{ratio:.2f}" for ratio in ratios))  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
