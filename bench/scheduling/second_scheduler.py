"""`equipoise scheduler` and kube-scheduler, each with and without the load of nodes, on one cluster of 1,000 nodes.

All pods of a burst are pending when the scheduler starts: their creation is not part of it. One scheduler runs at a
time. Every round measures all participants in another order.

python -m bench second_scheduler --pods 1000 --rounds 5
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec

from bench.output import progress, report
from bench.scheduling.cluster import STALLED_SECONDS, FrozenCluster, frozen_cluster
from bench.scheduling.scheduling_cost import NO_CONTROLLERS, NODES, build_programs, cpu_samples
from bench.scheduling.scheduling_figures import cpu_per_pod, middle
from bench.scheduling.scheduling_participants import PARTICIPANTS, WORKLOADS, Programs, owned_pod, replica_set, workload

OURS = "equipoise-scheduler"
PROGRAM = "from equipoise.cli.main import main; main()"
KUBE_SCHEDULER = "kube-scheduler"
NO_PROCESSES: Mapping[str, int] = {}


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one burst."""

    pods_per_second: float
    """Bindings per second between the first and the last tenth of the bindings."""

    seconds: float
    """Time from the start of the program to the last binding."""

    reported: float
    """Time from the start of the program until each pod has its event, to half a second."""

    cpu: Mapping[str, float]
    """Milliseconds per pod, by process."""

    load: float
    """Mean load of the nodes of the pods, 0..1: 0.45 if they are chosen at random."""


def our_pod(number: int) -> dict[str, Any]:
    pod = owned_pod(number)
    pod["spec"]["schedulerName"] = OURS
    return pod


async def of_kube_scheduler(frozen: FrozenCluster, programs: Programs, name: str, pods: int) -> Burst:
    """A participant of `bench.scheduling.scheduling_cost`."""
    cluster = frozen.cluster
    async with PARTICIPANTS[name](frozen, programs) as setup:
        cluster.replace_program(KUBE_SCHEDULER, setup.program)

        async def start() -> None:
            await asyncio.to_thread(cluster.restart_scheduler, setup.scheduler)

        return await burst(frozen, pods, owned_pod, start, lambda: cluster.pid(KUBE_SCHEDULER), setup.processes)


async def of_policy(frozen: FrozenCluster, pods: int) -> Burst:
    """The burst with a policy of the scorer in process. The scorer itself only shows when all loads are published."""
    async with frozen.services():
        frozen.cluster.guard.stop(frozen.services_pids["scorer"])
        arguments = ["--policy", "profile", "--equipoise-config", str(frozen.cluster.directory / "equipoise.yaml")]
        return await of_ours(frozen, pods, arguments, {"collector": frozen.services_pids["collector"]})


async def of_ours(
    frozen: FrozenCluster, pods: int, arguments: Sequence[str] = (), processes: Mapping[str, int] = NO_PROCESSES
) -> Burst:
    cluster = frozen.cluster
    command: list[str | Path] = [sys.executable, "-c", PROGRAM, "scheduler", "--kubeconfig", cluster.kubeconfig]
    command += ["--listen", f"127.0.0.1:{frozen.port(OURS)}", *arguments]
    started: list[int] = []

    async def start() -> None:
        started.append(cluster.guard.start(command, log=cluster.log(OURS)))

    try:
        return await burst(frozen, pods, our_pod, start, lambda: started[0], processes)
    finally:
        for pid in started:
            cluster.guard.stop(pid)
        # Otherwise the next one waits until the Lease of this one ends.
        await cluster.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{OURS}")


async def burst(
    frozen: FrozenCluster,
    pods: int,
    pod: Callable[[int], dict[str, Any]],
    start: Callable[[], Any],
    pid: Callable[[], int],
    processes: Mapping[str, int],
) -> Burst:
    """Afterwards there are no pods. `start` starts the scheduler, whose process is `pid()`."""
    cluster = frozen.cluster
    # Names that no earlier pod had: on a slow machine, a request that deletes all pods goes on after its timeout.
    offset = first = frozen.audit_log_size()
    await frozen.create_pods(pods, pod=lambda number: pod(first + number))
    events = await frozen.event_count()
    started = frozen.clock.now()
    await start()
    watched = {"scheduler": pid(), "kube-apiserver": cluster.pid("kube-apiserver"), **processes}
    async with cpu_samples(frozen, lambda: watched) as samples:
        bindings = await frozen.bound(pods, offset)
    times = [binding.time.timestamp() for binding in bindings]
    window = middle(times)
    while await frozen.event_count() < events + pods:
        if frozen.clock.now() > max(times) + STALLED_SECONDS:
            raise TimeoutError(f"some of {pods} pods have no event {STALLED_SECONDS:g} s after the last binding")
        await asyncio.sleep(0.5)
    reported = frozen.clock.now()
    await frozen.remove_pods()
    return Burst(
        pods_per_second=window.pods_per_second,
        seconds=max(times) - started,
        reported=reported - started,
        cpu=cpu_per_pod(samples, window),
        load=mean(frozen.loads[binding.node] for binding in bindings),
    )


async def measure(frozen: FrozenCluster, programs: Programs, name: str, pods: int) -> Burst:
    """Measures a participant. No other scheduler runs meanwhile."""
    await asyncio.to_thread(frozen.cluster.end, KUBE_SCHEDULER)
    if name in OURS_BY_NAME:
        found = await OURS_BY_NAME[name](frozen, pods)
    else:
        found = await of_kube_scheduler(frozen, programs, name, pods)
    cpu = ", ".join(f"{process} {milliseconds:.2f}" for process, milliseconds in found.cpu.items())
    progress(
        f"{name}: {found.pods_per_second:.0f} pods/s, all bound after {found.seconds:.1f} s and reported after "
        f"{found.reported:.1f} s, nodes of {found.load:.0%} load, "
        f"CPU in ms per pod: {cpu}; load of the machine {os.getloadavg()[0]:.1f}"
    )
    return found


OURS_BY_NAME: Mapping[str, Callable[[FrozenCluster, int], Awaitable[Burst]]] = {"ours": of_ours, "policy": of_policy}
"""`equipoise scheduler`, alone and with a policy of the scorer."""

TARGETS = (("ours", "stock"), ("policy", "scorer"), ("policy", "trimaran"))
"""The first is to bind more pods per second than the second, by the median of the ratios of the rounds."""


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--participants", default="stock,ours,scorer,trimaran,policy")
    options = parser.parse_args()
    names = options.participants.split(",")
    programs, others = build_programs([name for name in names if name not in OURS_BY_NAME])
    names = [name for name in names if name in OURS_BY_NAME or name in others]
    found: dict[str, list[Burst]] = {name: [] for name in names}
    loads = [0.2 + 0.5 * number / options.nodes for number in range(options.nodes)]
    async with frozen_cluster(loads, arguments=NO_CONTROLLERS) as frozen:
        await frozen.cluster.apply(replica_set(workload(number)) for number in range(WORKLOADS))
        for number in range(options.rounds):
            progress(f"round {number + 1} of {options.rounds}, load of the machine {os.getloadavg()[0]:.1f}")
            first = number % len(names)
            for name in (*names[first:], *names[:first]):
                found[name].append(await measure(frozen, programs, name, options.pods))
    for name, bursts in found.items():
        processes = bursts[0].cpu
        cpu: dict[str, Any] = {
            f"cpu_{each}": round(median(burst.cpu[each] for burst in bursts), 2) for each in processes
        }
        rate = median(burst.pods_per_second for burst in bursts)
        load = round(median(burst.load for burst in bursts), 3)
        seconds = round(median(burst.seconds for burst in bursts), 1)
        reported = round(median(burst.reported for burst in bursts), 1)
        report("second_scheduler", rate, "bound pods/s", participant=name, load=load, seconds=seconds,
            reported=reported, **cpu)  # fmt: skip
    for name, other in TARGETS:
        if {name, other} <= found.keys():
            pairs = list(zip(found[name], found[other], strict=True))
            ratios = [one.pods_per_second / two.pods_per_second for one, two in pairs]
            costs = [sum(one.cpu.values()) / sum(two.cpu.values()) for one, two in pairs]
            report("second_scheduler_ratio", median(ratios), f"pods/s of {name} / {other}", target=(">=", 1.0),
                ratios=", ".join(f"{each:.2f}" for each in ratios), cpu=round(median(costs), 2))  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
