"""Does a burst spread? 200 bare pods within 5 s while metrics are frozen and only Equipoise scores.

(a) 50 nodes that are equal and equally loaded; (b) half of them at 20 %, half at 60 %. For `proportional` (what we
ship), `cliff` (the cache of the water-level scheduler), `off`, and the stock scheduler with its own scores. Each pod
uses half a core, 3.1 % of its node, and says so in its request.
"""

import asyncio
import heapq
from collections.abc import Mapping, Sequence

from bench.line import progress, say
from bench.scheduling import CORES, FrozenCluster, frozen_cluster, share_of

SCORER = {"policy": {"name": "load_aware", "resourceWeights": {"cpu": 1}}, "minSpread": 2}
"""A policy that hangs on the compensated load alone (`profile` counts pods by themselves, with or without it), and that
tells nodes apart by one pod.
"""

NODES = 50
PODS = 200
SECONDS = 5.0
POD_CORES = 0.5
FAIR_SHARE = 1.5
SPREAD = 1.25


def spread(loads: Mapping[str, float], pods: Mapping[str, int]) -> float:
    """Highest minus lowest true load afterwards, in points."""
    after = [100 * (load + pods.get(name, 0) * POD_CORES / CORES) for name, load in loads.items()]
    return max(after) - min(after)


def best_spread(loads: Sequence[float]) -> float:
    """What a placement reaches that knows every true load: each pod to the least loaded node."""
    heap = [100 * load for load in loads]
    heapq.heapify(heap)
    for _ in range(PODS):
        heapq.heapreplace(heap, heap[0] + 100 * POD_CORES / CORES)
    return max(heap) - min(heap)


async def burst(frozen: FrozenCluster, *, extender: bool) -> Mapping[str, int]:
    """How many pods each node got."""
    cluster = frozen.cluster
    await asyncio.to_thread(cluster.restart_scheduler, frozen.scheduler(extender=extender, in_tree_scores=not extender))
    mark = frozen.mark()
    await frozen.create_pods(PODS, seconds=SECONDS, cpu=f"{POD_CORES * 1000:.0f}m")
    bindings = await frozen.bound(PODS, mark)
    await frozen.remove_pods()
    return share_of(bindings)


async def measure(case: str, loads: Sequence[float]) -> None:
    results: dict[str, Mapping[str, int]] = {}
    async with frozen_cluster(loads) as frozen:
        for mode in ("proportional", "cliff", "off"):
            progress(f"({case}) {mode}")
            reservation = 0.0 if mode == "off" else 2.0
            async with frozen.services(compensation=mode, reservation=reservation, **SCORER):
                results[mode] = await burst(frozen, extender=True)
        progress(f"({case}) stock scheduler")
        results["stock"] = await burst(frozen, extender=False)
        fair, best = PODS / NODES, best_spread(loads)
        for mode, pods in results.items():
            ours = mode == "proportional"
            if case == "a":
                say("burst", max(pods.values()), "pods on the fullest node", baseline=fair, case=case, mode=mode,
                    target=("<=", FAIR_SHARE) if ours else None)  # fmt: skip
            else:
                say("burst", spread(frozen.loads, pods), "points of spread", baseline=best, case=case, mode=mode,
                    target=("<=", SPREAD) if ours else None)  # fmt: skip
        # How far beyond what could be reached: that is what the compensation is there for.
        excess = {
            mode: max(pods.values()) - fair if case == "a" else spread(frozen.loads, pods) - best
            for mode, pods in results.items()
        }
        say(
            "burst_conclusive",
            excess["off"],
            "beyond the best, without compensation",
            baseline=excess["proportional"],
            target=(">=", 2.0),
            case=case,
        )


async def main() -> None:
    await measure("a", [0.4] * NODES)
    await measure("b", [0.2] * (NODES // 2) + [0.6] * (NODES // 2))


if __name__ == "__main__":
    asyncio.run(main())
