"""Time and memory of plans and evaluations in a cluster where a tenth of the nodes is hot; blocks of the event loop.

Everything is measured three times; the fastest counts. `cpu` is the CPU time of all threads, in seconds. Unlike
wall-clock time, it can be compared when other programs use the machine.
"""

import argparse
import asyncio
import gc
import logging
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from bench.descheduler.plan_5000_cluster import (
    LOAD,
    MEMORY_82_PERCENT,
    MEMORY_96_PERCENT,
    NOW,
    Cluster,
    api_server,
    generate_cluster,
    publish,
    snapshot_of,
)
from bench.event_loop import EventLoopMonitor
from bench.memory import peak_mb, resident_mb
from bench.output import progress, report
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces, Thresholds
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.descheduler.decisions.evaluation.campaign_plan import campaign_plan
from equipoise.descheduler.decisions.evaluation.pipeline import classify, consolidation_now
from equipoise.descheduler.decisions.strategies import AnyStrategy, Strategy, name_of
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.service import Descheduler
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.runtime.bus import Delivery, NoResponders
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.kube import MemoryKube

ROUNDS = 3
EVALUATION_INTERVAL = 3_600.0
"""Seconds. Evaluations are started by the benchmark instead, see `BenchmarkClock`."""

TIMEOUT = 600.0
PARTS = ("decisions", "full", "campaign", "consolidation", "service")
INTENTS = subjects.eviction_intent("*", "*")

T = TypeVar("T")


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    wall: float
    cpu: float


def timed(function: Callable[[], T]) -> tuple[Timing, T]:
    wall, cpu = time.monotonic(), time.process_time()
    result = function()
    return Timing(wall=time.monotonic() - wall, cpu=time.process_time() - cpu), result


def fastest(timings: Sequence[Timing]) -> Timing:
    return Timing(wall=min(timing.wall for timing in timings), cpu=min(timing.cpu for timing in timings))


def measure_strategies(cluster: Cluster, strategies: Sequence[Strategy], case: str) -> None:
    """The snapshot, and the classification and plan of each strategy.

    Each round has its own snapshot, because whether a pod is protected is evaluated on first use.
    """
    settings = DeschedulerSettings()
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    evaluation = settings.evaluation(LOAD, Thresholds(), rules)
    snapshot = snapshot_of(cluster)
    builds: list[Timing] = []
    for strategy in strategies:
        name, classifications, plans, totals = name_of(strategy), [], [], []
        for _ in range(ROUNDS):
            build, view = timed(lambda: ClusterBuilder(snapshot, evaluation).cluster())
            builds.append(build)
            classification, nodes = timed(partial(classify, strategy, view))
            hot = {node.node for node in nodes if node.abnormal}
            planning, plan = timed(partial(strategy.plan, view, hot))
            classifications.append(classification)
            plans.append(planning)
            totals.append(Timing(wall=classification.wall + planning.wall, cpu=classification.cpu + planning.cpu))
            del view
        timings = {"classification": classifications, "plan": plans, "classification_and_plan": totals}
        for step, rounds in timings.items():
            timing = fastest(rounds)
            report(
                f"{name}_{step}", timing.wall, f"s, {len(cluster.nodes)} nodes, {case}", cpu=round(timing.cpu, 3),
                hot=len(hot), moves=len(plan.moves), later=len(plan.later), why=plan.why,
            )  # fmt: skip
    timing = fastest(builds)
    report("snapshot", timing.wall, f"s, {len(cluster.nodes)} nodes", cpu=round(timing.cpu, 3))
    # This process contains what the service keeps, two snapshots and a plan, and nothing else.
    report("memory", peak_mb(), "MB, peak", target=("<=", 900.0))


def measure_campaign(cluster: Cluster, moves: int) -> None:
    """The plan of a campaign, with the default strategy."""
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    evaluation = DeschedulerSettings().evaluation(LOAD, Thresholds(), rules)
    snapshot = snapshot_of(cluster)
    before = resident_mb()
    leader = LeaseEpoch(lease_uid="lease", transitions=1, holder="bench")
    timing, plan = timed(lambda: campaign_plan(snapshot, evaluation, moves, evictions="real", leader=leader))
    report(
        "campaign_plan", timing.wall, f"s, {len(cluster.nodes)} nodes", target=("<=", 30.0), cpu=round(timing.cpu, 3),
        moves=len(plan.moves), waves=len(plan.waves),
    )  # fmt: skip
    report("memory", peak_mb(), "MB, peak", target=("<=", 1_000.0), of_which_cluster=round(before))


def measure_consolidation(cluster: Cluster) -> None:
    """The plan of consolidation, as `equipoise consolidate` gets it."""
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    evaluation = DeschedulerSettings().evaluation(LOAD, Thresholds(), rules)
    snapshot = snapshot_of(cluster)
    before = resident_mb()
    timing, consolidated = timed(lambda: consolidation_now(snapshot, evaluation))
    plan = consolidated.plan
    report(
        "consolidation_plan", timing.wall, f"s, {len(cluster.nodes)} nodes", target=("<=", 30.0),
        cpu=round(timing.cpu, 3), nodes=len(plan.nodes), moves=sum(len(each.moves) for each in plan.nodes),
        bound=plan.bound,
    )  # fmt: skip
    report("memory", peak_mb(), "MB, peak", target=("<=", 1_000.0), of_which_cluster=round(before))


class BenchmarkClock:
    """A clock whose `now` never changes. Long sleeps end when the benchmark calls `end_sleeps`."""

    def __init__(self) -> None:
        self._end = asyncio.Event()

    def now(self) -> float:
        return NOW + 1.0

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        if seconds >= EVALUATION_INTERVAL / 2:
            await self._end.wait()
        else:
            await asyncio.sleep(seconds)

    def end_sleeps(self) -> None:
        self._end.set()
        self._end = asyncio.Event()


@asynccontextmanager
async def leading_descheduler(
    kube: MemoryKube, bus: MemoryBus, clock: BenchmarkClock, strategies: tuple[AnyStrategy, ...]
) -> AsyncIterator[None]:
    """The real service. Nodes are abnormal from their first evaluation on."""
    own = DeschedulerSettings(
        interval=Duration(EVALUATION_INTERVAL), warm_up=Duration(EVALUATION_INTERVAL),
        consecutive_abnormalities=1, strategies=strategies,
    )  # fmt: skip
    runtime = Runtime(
        configuration=Configuration(shared=Shared(load=LOAD), own=own, hash=""),
        message_bus=bus, clock=clock, identity="bench", api_server=kube,
        health=Health(configuration_hash="", metrics=CollectorRegistry()), metrics=CollectorRegistry(),
    )  # fmt: skip
    descheduler = Descheduler(runtime)
    await descheduler.attach()
    running = asyncio.create_task(descheduler.run())
    try:
        await wait_for_leader(bus, running)
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def wait_for_leader(bus: MemoryBus, running: asyncio.Task[None]) -> None:
    """Returns at its first response; raises the error that ended it."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            if running.done():
                running.result()
            try:
                await request_plan(bus)
            except NoResponders:
                await asyncio.sleep(0.2)
            else:
                return


async def request_plan(bus: MemoryBus) -> PlanResponse:
    return await bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=TIMEOUT)


async def send_bookmarks(kube: MemoryKube) -> None:
    """Sends bookmarks, as a real API server does: a watch without events is considered broken."""
    while True:
        await asyncio.sleep(10.0)
        kube.bookmark()


async def measure_service(nodes: int, hot: int) -> None:
    """The real service, with an API server and a bus in memory."""
    clock = BenchmarkClock()
    bus = MemoryBus(clock)
    cluster = generate_cluster(nodes, hot, MEMORY_82_PERCENT, random.Random(1))
    kube = api_server(cluster, clock)
    await publish(bus, cluster)
    del cluster
    gc.collect()
    before = resident_mb()
    monitor = EventLoopMonitor()
    background = [asyncio.create_task(send_bookmarks(kube)), asyncio.create_task(monitor.run())]
    both: tuple[AnyStrategy, ...] = (LowNodeLoad(), LevelDay())
    for strategies in (both, (LevelDay(),)):
        gc.collect()  # the second service starts like a new process
        names = "_and_".join(name_of(strategy) for strategy in strategies)
        progress(f"descheduler with {names}")
        async with leading_descheduler(kube, bus, clock, strategies):
            monitor.reset()
            timing, plans = await fastest_of_rounds(partial(request_plan, bus))
            why = "; ".join(plans[-1].why.values())
            report(
                f"plan_{names}", timing.wall, f"s from request to response, {nodes} nodes", cpu=round(timing.cpu, 3),
                moves=len(plans[-1].moves), why=why,
            )  # fmt: skip
            timing, intents = await fastest_of_rounds(partial(evaluate, bus, clock, len(strategies)))
            counts = ", ".join(str(count) for count in intents)
            report(f"evaluation_{names}", timing.wall, f"s, {nodes} nodes", cpu=round(timing.cpu, 3), intents=counts)
            monitor.report(f"plans_and_evaluations_{names}")
        if strategies == both:
            report("service_memory", peak_mb(), "MB, peak, with the API server and the bus in the same process",
                   service_alone=round(peak_mb() - before))  # fmt: skip
    for task in background:
        task.cancel()


async def fastest_of_rounds(function: Callable[[], Awaitable[T]]) -> tuple[Timing, list[T]]:
    timings, results = [], []
    for _ in range(ROUNDS):
        wall, cpu = time.monotonic(), time.process_time()
        results.append(await function())
        timings.append(Timing(wall=time.monotonic() - wall, cpu=time.process_time() - cpu))
    return fastest(timings), results


async def evaluate(bus: MemoryBus, clock: BenchmarkClock, strategies: int) -> int:
    """One evaluation, until the decision of the last strategy is published. Returns the number of intents.

    Their outcomes are dry runs, so the next evaluation has dry-run moves.
    """
    before = len(bus.published(EvictionIntent, INTENTS))
    decisions = asyncio.Semaphore(0)

    async def on_decision(_: Delivery[DescheduleDecision]) -> None:
        decisions.release()

    await bus.subscribe(subjects.decision("descheduler", "*"), DescheduleDecision, on_decision)
    clock.end_sleeps()
    for _ in range(strategies):
        await decisions.acquire()
    new = bus.published(EvictionIntent, INTENTS)[before:]
    for intent in new:
        await bus.publish(subjects.eviction_outcome(intent.namespace, intent.pod), dry_run(intent))
    return len(new)


def dry_run(intent: EvictionIntent) -> EvictionOutcome:
    return EvictionOutcome(
        intent_id=intent.id, outcome=Outcome.DRY_RUN, settled_at=NOW + 1.0, pod_uid=intent.pod_uid,
        namespace=intent.namespace, pod=intent.pod, node=intent.node, workload=intent.workload, target=intent.target,
        reason=intent.reason, expected_reduction=intent.expected_reduction, decided_at=intent.decided_at,
    )  # fmt: skip


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=5_000)
    arguments.add_argument("--hot", type=int, default=500)
    arguments.add_argument("--part", choices=PARTS)
    options = arguments.parse_args()
    if options.part is None:
        code = 0
        for part in PARTS:
            progress(f"part: {part}")
            command = [sys.executable, "-m", "bench.descheduler.plan_5000", *sys.argv[1:], "--part", part]
            code = max(code, subprocess.run(command, check=False).returncode)  # noqa: S603  this module
        return code
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    reduce_gc_frequency()
    if options.part == "service":
        asyncio.run(measure_service(options.nodes, options.hot))
    elif options.part == "campaign":
        measure_campaign(generate_cluster(options.nodes, options.hot, MEMORY_82_PERCENT, random.Random(1)), 200)
    elif options.part == "consolidation":
        # No node is hot: with hot ones, fewer nodes can go.
        measure_consolidation(generate_cluster(options.nodes, 0, MEMORY_82_PERCENT, random.Random(1)))
    elif options.part == "full":
        cluster = generate_cluster(options.nodes, options.hot, MEMORY_96_PERCENT, random.Random(1))
        measure_strategies(cluster, [LevelDay()], "96 % of memory requested")
    else:
        cluster = generate_cluster(options.nodes, options.hot, MEMORY_82_PERCENT, random.Random(1))
        measure_strategies(cluster, [LowNodeLoad(), LevelDay()], "82 % of memory requested")
    return 0


if __name__ == "__main__":
    sys.exit(main())
