"""CPU time that a pod costs kube-scheduler and the API server from its creation until it runs, by the size of its hint.

One cluster of 1,000 nodes. Bursts of 200 pods with hints of one size, or with none, take turns. Whatever else runs on
the machine slows down all of them alike, and CPU time depends on it less than pods per second do. Ratios are of the
same round.
"""

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bench.output import progress, report
from bench.scheduling.cluster import PODS as PODS_PATH
from bench.scheduling.cluster import FrozenCluster, frozen_cluster
from bench.scheduling.scheduling_cost import NO_CONTROLLERS, NODES
from bench.scheduling.scheduling_figures import cpu_seconds
from bench.scheduling.scheduling_participants import (
    Document,
    hint_of_size,
    hint_policy,
    hints_object,
    is_hinted,
    owned_pod,
    replica_set,
)
from equipoise.contracts.hints.policy import SWITCH
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

PODS = 200
WORKLOADS = 10
IDLE_SECONDS = 3.0
ROUNDS = 5
WITHOUT = "none"
DEFAULT = "default"
SIZES: Mapping[str, HintSettings] = {
    "smallest": HintSettings(terms=1, preferred_nodes=5, avoided_nodes=0),
    "2 terms, 20 and 10 nodes": HintSettings(terms=2, preferred_nodes=20, avoided_nodes=10),
    DEFAULT: HintSettings(),
    "4 terms, 50 and 50 nodes": HintSettings(terms=4, preferred_nodes=50, avoided_nodes=50),
}
PROCESSES = ("kube-scheduler", "kube-apiserver", "etcd", "kwok")
CREATION = "creation"
"""CPU time of the API server while the pods are created."""

Cost = Mapping[str, float]
"""Milliseconds of CPU time per pod: of each process while pods are scheduled and start, and `CREATION`."""


def deployment(size: int, number: int) -> str:
    """The name of the Deployment of a pod: each size has its own."""
    return f"web-{size}-{number % WORKLOADS}"


def hint_objects(nodes: Sequence[str]) -> Document:
    """The object with the hints of all Deployments. The API server reads all of it for each pod with a hint."""
    return hints_object(
        {
            deployment(size, number): hint_of_size(nodes, number, settings)
            for size, settings in enumerate(SIZES.values())
            for number in range(WORKLOADS)
        }
    )


def pod(size: int | None, number: int) -> Document:
    """A pod with a hint of this size. None: a pod of the same kind that has switched hints off."""
    created = owned_pod(number, deployment(len(SIZES) if size is None else size, number))
    if size is None:
        created["metadata"]["labels"][SWITCH] = "off"
    return created


class CpuClock:
    """CPU seconds of the processes of a cluster, without what they use while nothing happens."""

    def __init__(self, frozen: FrozenCluster) -> None:
        self._cluster = frozen.cluster
        self._idle = dict.fromkeys(PROCESSES, 0.0)

    async def measure_idle(self) -> None:
        """Measures the CPU seconds per second that the processes use while nothing happens."""
        before, started = self._seconds(), time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        elapsed, after = time.monotonic() - started, self._seconds()
        self._idle = {name: (after[name] - before[name]) / elapsed for name in PROCESSES}

    def now(self) -> dict[str, float]:
        """The CPU seconds so far. Only differences have a meaning."""
        return {name: value - self._idle[name] * time.monotonic() for name, value in self._seconds().items()}

    def _seconds(self) -> dict[str, float]:
        return {name: cpu_seconds(self._cluster.pid(name)) for name in PROCESSES}


async def measure(frozen: FrozenCluster, clock: CpuClock, size: int | None, first: int) -> Cost:
    """The cost of one burst. kube-scheduler is stopped until all pods are created. The pods have the numbers from
    `first` on, and remain."""
    pods = [pod(size, first + number) for number in range(PODS)]
    scheduler, offset, before = frozen.cluster.pid("kube-scheduler"), frozen.audit_log_size(), clock.now()
    # Without the guard of the cluster, which would send the signal later while the machine is busy.
    os.kill(scheduler, signal.SIGSTOP)
    await frozen.create_pods(PODS, pod=lambda number: pods[number])
    created = clock.now()
    os.kill(scheduler, signal.SIGCONT)
    await frozen.running({each["metadata"]["name"] for each in pods}, offset)
    after = clock.now()
    seconds = {name: after[name] - created[name] for name in PROCESSES}
    seconds[CREATION] = created["kube-apiserver"] - before["kube-apiserver"]
    return {name: 1_000 * value / PODS for name, value in seconds.items()}


async def measure_round(frozen: FrozenCluster, order: Sequence[str]) -> Mapping[str, Cost]:
    """The cost of each size, in this order. There are no pods before and after."""
    names, costs, clock = list(SIZES), dict[str, Cost](), CpuClock(frozen)
    # The first burst is not counted: the pods of the last round are still being removed from caches.
    await measure(frozen, clock, None, 0)
    await clock.measure_idle()
    for position, name in enumerate(order, start=1):
        size = None if name == WITHOUT else names.index(name)
        costs[name] = await measure(frozen, clock, size, position * PODS)
        progress(f"{name}: " + ", ".join(f"{part} {value:.2f} ms" for part, value in costs[name].items()))
    created = (await frozen.cluster.request("GET", PODS_PATH))["items"]
    if wrong := sum(is_hinted(each) is (SWITCH in each["metadata"]["labels"]) for each in created):
        raise RuntimeError(f"{wrong} of {len(created)} pods have a hint that they must not have, or lack theirs")
    await frozen.remove_pods()
    return costs


def report_rounds(rounds: Sequence[Mapping[str, Cost]]) -> None:
    """The medians of every size. The ratio is that of the CPU time of a burst, without the creation of its pods."""
    for name in rounds[0]:
        parts = rounds[0][name]
        medians: dict[str, Any] = {part: round(median(costs[name][part] for costs in rounds), 2) for part in parts}
        totals = [burst_cost(costs[name]) for costs in rounds]
        ratios = [total / burst_cost(costs[WITHOUT]) for total, costs in zip(totals, rounds, strict=True)]
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        report("hint_sizes", median(totals), "ms of CPU per pod", size=name, of_none=round(median(ratios), 2),
            ratios=shown, **medians)  # fmt: skip


def burst_cost(cost: Cost) -> float:
    """The CPU time per pod of kube-scheduler and the API server during a burst."""
    return cost["kube-scheduler"] + cost["kube-apiserver"]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    rounds, order = list[Mapping[str, Cost]](), [WITHOUT, *SIZES]
    try:
        async with frozen_cluster(
            [0.2 + 0.5 * node / NODES for node in range(NODES)], arguments=NO_CONTROLLERS
        ) as frozen:
            nodes = list(frozen.loads)
            await frozen.cluster.apply(
                replica_set(deployment(size, number)) for size in range(len(order)) for number in range(WORKLOADS)
            )
            async with hint_policy(frozen, hint_objects(nodes)):
                for number in range(options.rounds):
                    progress(f"round {number + 1} of {options.rounds}")
                    first = number % len(order)
                    rounds.append(await measure_round(frozen, [*order[first:], *order[:first]]))
    finally:
        if rounds:
            report_rounds(rounds)


if __name__ == "__main__":
    asyncio.run(main())
