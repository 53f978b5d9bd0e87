"""What placement by load costs kube-scheduler: hints and the scorer as extender, compared with others and with none.

1,000 nodes. Two loads: 1,000 pods that are pending when kube-scheduler starts, and 400 pods, 50 per second. Every round
measures all participants in another order; ratios are of the same round, and the medians of the rounds count.
"""

import argparse
import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import msgspec

from bench.output import progress, report
from bench.scheduling.cluster import PODS as PODS_PATH
from bench.scheduling.cluster import FrozenCluster, frozen_cluster
from bench.scheduling.scheduling_figures import (
    CpuSample,
    Round,
    Run,
    cpu_per_pod,
    cpu_seconds,
    middle,
    read_histogram,
    round_ratios,
)
from bench.scheduling.scheduling_participants import (
    EMPTY_EXTENDER,
    NEEDS,
    PARTICIPANTS,
    TRIMARAN,
    WORKLOADS,
    Programs,
    Setup,
    is_hinted,
    owned_pod,
    replica_set,
    workload,
)
from equipoise.testbed.binaries.build import BuildError, build, build_module, default_cache
from equipoise.testbed.binaries.toolchain import Progress
from equipoise.testbed.cluster import Cluster

NODES = 1_000
ROUNDS = 5
LOADS: Mapping[str, tuple[int, float]] = {"burst": (1_000, 0.0), "steady": (400, 8.0)}
"""Pods, and the seconds in which they are created; 0: all are pending when kube-scheduler starts."""

SAMPLE_SECONDS = 0.1

NO_CONTROLLERS = {
    "kube-controller-manager": [
        "--controllers=*,-deployment-controller,-replicaset-controller,-garbage-collector-controller"
    ]
}
"""They would delete pods that they did not create."""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio of a figure of two participants in the same round; the target is that of the median."""

    name: str
    other: str
    load: str = "steady"
    figure: str = "p50"
    target: tuple[str, float] | None = ("<=", 1.0)


RATIOS = (
    Ratio(name="hints", other="stock", target=("<=", 1.5)),
    Ratio(name="hints", other="stock", load="burst", figure="pods_per_second", target=(">=", 0.8)),
    Ratio(name="hints_alone", other="stock", target=("<=", 1.5)),
    Ratio(name="hints_alone", other="stock", load="burst", figure="pods_per_second", target=(">=", 0.8)),
    Ratio(name="scorer", other="empty", target=("<=", 1.15)),
    Ratio(name="scorer", other="empty", load="burst", target=None),
    Ratio(name="hints", other="trimaran"),
    Ratio(name="scorer", other="trimaran"),
    Ratio(name="hints", other="whole_nodes"),
    Ratio(name="scorer", other="whole_nodes"),
    Ratio(name="trimaran", other="trimaran_stock", target=None),
    Ratio(name="trimaran", other="trimaran_stock", load="burst", figure="pods_per_second", target=None),
)
OF_STOCK = ("p50", "mean", "pods_per_second", "scheduling_cpu")


async def measure(frozen: FrozenCluster, setup: Setup, load: str) -> Run:
    """One run, after which there are no pods."""
    cluster, (count, seconds) = frozen.cluster, LOADS[load]
    await asyncio.to_thread(cluster.kill, "kube-scheduler")
    cluster.replace_program("kube-scheduler", setup.program)
    offset = frozen.audit_log_size()
    creating = 0.0
    if not seconds:
        before = cpu_seconds(cluster.pid("kube-apiserver"))
        await frozen.create_pods(count, pod=owned_pod)
        creating = 1_000 * (cpu_seconds(cluster.pid("kube-apiserver")) - before) / count
    async with cpu_samples(frozen, lambda: _processes(cluster, setup)) as samples:
        await asyncio.to_thread(cluster.restart_scheduler, setup.scheduler)
        if seconds:
            await frozen.create_pods(count, seconds=seconds, pod=owned_pod)
        bindings = await frozen.bound(count, offset)
    histogram = read_histogram(await page(f"{cluster.scheduler_url}/metrics"))
    await check_hints(frozen, setup.hinted)
    await frozen.remove_pods()
    window = middle([binding.time.timestamp() for binding in bindings])
    cpu = cpu_per_pod(samples, window)
    # Of a burst, the window has only the bindings.
    cpu["kube-apiserver"] += creating
    return Run(
        p50=1_000 * histogram.quantile(0.5),
        p99=1_000 * histogram.quantile(0.99),
        mean=1_000 * histogram.mean(),
        pods_per_second=window.pods_per_second,
        cpu=cpu,
    )


@asynccontextmanager
async def cpu_samples(
    frozen: FrozenCluster, pids: Callable[[], Mapping[str, int]]
) -> AsyncIterator[Sequence[CpuSample]]:
    """CPU times of processes by name, until the end of the block. `pids` is called for each sample: PIDs may change."""
    samples = list[CpuSample]()

    async def sample() -> None:
        while True:
            try:
                seconds = {name: cpu_seconds(pid) for name, pid in pids().items()}
                samples.append(CpuSample(at=frozen.clock.now(), seconds=seconds))
            except (FileNotFoundError, KeyError):
                pass  # kube-scheduler is not running
            await asyncio.sleep(SAMPLE_SECONDS)

    task = asyncio.create_task(sample())
    try:
        yield samples
    finally:
        task.cancel()


def _processes(cluster: Cluster, setup: Setup) -> Mapping[str, int]:
    """That take part."""
    return {name: cluster.pid(name) for name in ("kube-scheduler", "kube-apiserver")} | dict(setup.processes)


async def page(url: str) -> str:
    """The page of an HTTP server, whose certificate kube-scheduler signed itself."""
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as response:
        return await response.text()


async def check_hints(frozen: FrozenCluster, expected: bool) -> None:
    """Raises RuntimeError if a pod got no hint, or one that it must not have."""
    pods = (await frozen.cluster.request("GET", PODS_PATH))["items"]
    if wrong := sum(is_hinted(pod) is not expected for pod in pods):
        raise RuntimeError(f"{wrong} of {len(pods)} pods have {'no hint' if expected else 'a hint'}")


async def measure_round(frozen: FrozenCluster, programs: Programs, participants: Sequence[str]) -> Round:
    found: dict[str, dict[str, Run]] = {}
    for name in participants:
        async with PARTICIPANTS[name](frozen, programs) as setup:
            found[name] = {}
            for load in LOADS:
                run = found[name][load] = await measure(frozen, setup, load)
                cpu = ", ".join(f"{process} {milliseconds:.2f}" for process, milliseconds in run.cpu.items())
                progress(
                    f"{name}, {load}: p50 {run.p50:.2f} ms, p99 {run.p99:.2f} ms, mean {run.mean:.2f} ms, "
                    f"{run.pods_per_second:.0f} pods/s, CPU in ms per pod: {cpu}"
                )
    return found


def report_rounds(rounds: Sequence[Round]) -> None:
    """Medians of every participant and load, and the ratios that have targets."""
    names = rounds[0].keys()
    for load, name in itertools.product(LOADS, names):
        runs = [each[name][load] for each in rounds]
        figures = {figure: median(getattr(run, figure) for run in runs) for figure in ("p99", "mean")}
        for process in runs[0].cpu:
            figures[f"cpu_{process}"] = median(run.cpu[process] for run in runs)
        if "stock" in names:
            for figure in OF_STOCK:
                figures[f"{figure}_of_stock"] = median(round_ratios(rounds, name, "stock", load, figure))
        details: dict[str, Any] = {figure: round(value, 2) for figure, value in figures.items()}
        rate = round(median(run.pods_per_second for run in runs), 1)
        report("scheduling_cost", median(run.p50 for run in runs), "ms p50", load=load, participant=name,
            pods_per_second=rate, **details)  # fmt: skip
    for ratio in RATIOS:
        if {ratio.name, ratio.other} <= names:
            found = round_ratios(rounds, ratio.name, ratio.other, ratio.load, ratio.figure)
            report("scheduling_cost_ratio", median(found), f"{ratio.figure} of {ratio.name} / {ratio.other}",
                load=ratio.load, target=ratio.target, ratios=", ".join(f"{each:.2f}" for each in found))  # fmt: skip


def build_programs(names: Sequence[str]) -> tuple[Programs, list[str]]:
    """What these participants need, once; participants whose program cannot be built are left out."""
    programs: dict[str, Path] = {}
    usable = []
    with Progress() as shown:
        for name in names:
            module = NEEDS.get(name)
            try:
                if module is not None and module.name not in programs:
                    directory = build_module(module, cache=default_cache(), progress=shown)
                    programs[module.name] = directory / next(iter(module.programs))
            except BuildError as error:
                progress(f"{name} is left out: {error}")
                continue
            usable.append(name)
    found = Programs(
        kube_scheduler=build().kube_scheduler,
        empty_extender=programs.get(EMPTY_EXTENDER.name),
        trimaran=programs.get(TRIMARAN.name),
    )
    return found, usable


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--participants", default=",".join(PARTICIPANTS), help="names, separated by commas")
    options = parser.parse_args()
    names = options.participants.split(",")
    if unknown := set(names) - set(PARTICIPANTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(PARTICIPANTS)}")
    programs, names = build_programs(names)
    rounds: list[Round] = []
    loads = [0.2 + 0.5 * number / NODES for number in range(NODES)]
    try:
        async with frozen_cluster(loads, arguments=NO_CONTROLLERS) as frozen:
            await frozen.cluster.apply(replica_set(workload(number)) for number in range(WORKLOADS))
            for number in range(options.rounds):
                progress(f"round {number + 1} of {options.rounds}")
                first = number % len(names)
                rounds.append(await measure_round(frozen, programs, [*names[first:], *names[:first]]))
    finally:
        # Also when a later round failed, or was interrupted.
        if rounds:
            report_rounds(rounds)


if __name__ == "__main__":
    asyncio.run(main())
