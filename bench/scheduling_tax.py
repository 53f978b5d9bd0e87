"""The cost of the extender for kube-scheduler: pods bound per second with the extender entry, divided by without.

1,000 nodes, bursts of 2,000 pods that are pending when the scheduler starts. Runs with and without alternate; the
medians count.
"""

import asyncio
from statistics import median

from bench.output import progress, report
from bench.scheduling import FrozenCluster, frozen_cluster

NODES = 1_000
PODS = 2_000
PAIRS = 5


async def pods_per_second(frozen: FrozenCluster, *, extender: bool) -> float:
    """Bindings of the audit log per second."""
    cluster = frozen.cluster
    await asyncio.to_thread(cluster.kill, "kube-scheduler")
    offset = frozen.audit_log_size()
    await frozen.create_pods(PODS)
    await asyncio.to_thread(cluster.restart_scheduler, frozen.scheduler(extender=extender))
    times = sorted(binding.time for binding in await frozen.bound(PODS, offset))
    await frozen.remove_pods()
    # Without the first and last tenth: caches are filled at the start, and few pods are left at the end.
    middle = times[PODS // 10 : -PODS // 10]
    return len(middle) / (middle[-1] - middle[0]).total_seconds()


async def main() -> None:
    async with frozen_cluster([0.2 + 0.5 * number / NODES for number in range(NODES)]) as frozen, frozen.services():
        rates: dict[bool, list[float]] = {False: [], True: []}
        for number in range(PAIRS):
            for extender in (False, True) if number % 2 else (True, False):
                rate = await pods_per_second(frozen, extender=extender)
                progress(f"pair {number + 1} of {PAIRS}, {'with' if extender else 'without'} the scorer: {rate:.0f}/s")
                rates[extender].append(rate)
        ratios = [rate / stock for rate, stock in zip(rates[True], rates[False], strict=True)]
        report("scheduling_tax", median(rates[True]), "pods/s", baseline=median(rates[False]), target=(">=", 0.75),
            ratios=", ".join(f"{ratio:.2f}" for ratio in ratios))  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
