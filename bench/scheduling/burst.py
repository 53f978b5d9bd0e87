"""How evenly a burst is distributed: 200 bare pods within 5 s, with frozen metrics and no scores but Equipoise's.

(a) 50 equal nodes with equal load; (b) half of them at 20 %, half at 60 %. Measured with the compensation
`proportional` (the default), `cliff` (the cache of the water-level scheduler) and `off`, and for the stock scheduler
with its own scores. Each pod uses and requests half a core, 3.1 % of its node.
"""

import asyncio
import heapq
from collections.abc import Mapping, Sequence

from bench.output import progress, report
from bench.scheduling.cluster import CORES, FrozenCluster, bare_pod, frozen_cluster, pods_per_node

SCORER = {"policy": {"name": "load_aware", "resourceWeights": {"cpu": 1}}, "minSpread": 2}
"""A policy that depends only on the compensated load (`profile` also counts the pods of a node), with a `minSpread`
below the load of one pod.
"""

NODES = 50
PODS = 200
SECONDS = 5.0
POD_CORES = 0.5
FAIR_SHARE = 1.5
SPREAD = 1.25


def spread(loads: Mapping[str, float], pods: Mapping[str, int]) -> float:
    """Highest minus lowest actual load after the burst, in points."""
    after = [100 * (load + pods.get(name, 0) * POD_CORES / CORES) for name, load in loads.items()]
    return max(after) - min(after)


def best_spread(loads: Sequence[float]) -> float:
    """The spread if each pod is placed on the node with the lowest actual load."""
    heap = [100 * load for load in loads]
    heapq.heapify(heap)
    for _ in range(PODS):
        heapq.heapreplace(heap, heap[0] + 100 * POD_CORES / CORES)
    return max(heap) - min(heap)


async def burst(frozen: FrozenCluster, *, extender: bool) -> Mapping[str, int]:
    """Number of pods placed on each node."""
    cluster = frozen.cluster
    await asyncio.to_thread(cluster.restart_scheduler, frozen.scheduler(extender=extender, in_tree_scores=not extender))
    offset = frozen.audit_log_size()
    await frozen.create_pods(PODS, seconds=SECONDS, pod=lambda number: bare_pod(number, f"{POD_CORES * 1000:.0f}m"))
    bindings = await frozen.bound(PODS, offset)
    await frozen.remove_pods()
    return pods_per_node(bindings)


async def measure(case: str, loads: Sequence[float]) -> None:
    results: dict[str, Mapping[str, int]] = {}
    async with frozen_cluster(loads) as frozen:
        for mode in ("proportional", "cliff", "off"):
            progress(f"({case}) {mode}")
            reservation = 0.0 if mode == "off" else 2.0
            async with frozen.services(compensation=mode, reservationTimeout=reservation, **SCORER):
                results[mode] = await burst(frozen, extender=True)
        progress(f"({case}) stock scheduler")
        results["stock"] = await burst(frozen, extender=False)
        fair, best = PODS / NODES, best_spread(loads)
        for mode, pods in results.items():
            is_default = mode == "proportional"
            if case == "a":
                report("burst", max(pods.values()), "pods on the fullest node", baseline=fair, case=case, mode=mode,
                    target=("<=", FAIR_SHARE) if is_default else None)  # fmt: skip
            else:
                report("burst", spread(frozen.loads, pods), "points of spread", baseline=best, case=case, mode=mode,
                    target=("<=", SPREAD) if is_default else None)  # fmt: skip
        # Without compensation the result must be worse, or the burst does not test it.
        excess = {
            mode: max(pods.values()) - fair if case == "a" else spread(frozen.loads, pods) - best
            for mode, pods in results.items()
        }
        report(
            "burst_conclusive",
            excess["off"],
            "above the best result, without compensation",
            baseline=excess["proportional"],
            target=(">=", 2.0),
            case=case,
        )


async def main() -> None:
    await measure("a", [0.4] * NODES)
    await measure("b", [0.2] * (NODES // 2) + [0.6] * (NODES // 2))


if __name__ == "__main__":
    asyncio.run(main())
