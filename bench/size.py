"""CPU time and memory of what grows with the cluster, at 5,000 and at 15,000 nodes with 30 pods each, in one run.

Each part runs in a process of its own, first with the smaller, then with the larger cluster. `growth` is the ratio of
the two figures divided by the ratio of the sizes: 1 is linear.
"""

import asyncio
import gc
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import TypeVar

import msgspec
import structlog

from bench import binder, clusters
from bench.annotate_5000 import PERIOD, running_annotator
from bench.collector.size_collector import measure_collector, measure_shard
from bench.descheduler.plan_5000_cluster import LOAD, MEMORY_82_PERCENT, generate_cluster, snapshot_of
from bench.hints import updates as hints
from bench.memory import peak_mb, resident_mb
from bench.output import progress, report
from bench.page import live_5000
from bench.reclaimer.reclaim_5000 import MAX_AGE, PODS, SIZE, START, received
from bench.scheduling import scheduling_library
from bench.scorer.score_all import NOW, make_state
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces, Thresholds
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.descheduler.decisions.evaluation.pipeline import classify
from equipoise.descheduler.decisions.strategies import Strategy, name_of
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.reclaimer.decisions.evaluation import evaluate
from equipoise.reclaimer.service import NODES_AT_A_TIME
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.reclaimer.state.latest_nodes import LatestNodes
from equipoise.runtime.kubernetes.client import NODES
from equipoise.runtime.process.heap import use_one_heap
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.scorer.decisions.extender_protocol import parse_request, write_priorities
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

T = TypeVar("T")

SIZES = (5_000, 15_000)
MEMORY = 1_500.0
"""The limit of each service, in 10⁶ bytes."""

HOT = 0.1
"""The share of hot nodes."""


def seconds(function: Callable[[], T]) -> tuple[float, T]:
    """CPU time, and the result."""
    started = time.process_time()
    result = function()
    return time.process_time() - started, result


def measure_scorer(nodes: int) -> dict[str, float]:
    state, _ = make_state(ProfilePolicy(), nodes)
    gc.collect()
    generator, now = random.Random(2), NOW
    names = [clusters.node_name(number) for number in range(nodes)]
    figures: dict[str, float] = {}
    for candidates in (500, nodes):
        taken = []
        for number in range(100):
            body = clusters.extender_body(number, generator.sample(names, candidates))
            now += 0.005

            def respond(body: bytes = body, now: float = now) -> None:
                request = parse_request(body)
                scores = state.prioritize(request.pod, request.names, now).scores.scores
                write_priorities(request.names, scores)

            taken.append(seconds(respond)[0])
        what = "500 nodes" if candidates == 500 else "all nodes"
        figures[f"a request with {what}, ms"] = 1e3 * median(taken)
    return figures


def measure_hints(nodes: int) -> dict[str, float]:
    _, table, _, _ = hints.make_cluster(nodes)
    gc.collect()
    taken, step = hints.update(table, hints.NOW)
    return {"all computed anew, s": taken, "longest step, ms": 1e3 * step}


def measure_plan(nodes: int) -> dict[str, float]:
    cluster = generate_cluster(nodes, int(nodes * HOT), MEMORY_82_PERCENT, random.Random(1))
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    evaluation = DeschedulerSettings().evaluation(LOAD, Thresholds(), rules)
    snapshot, figures = snapshot_of(cluster), dict[str, float]()
    gc.collect()
    before = resident_mb()  # the watched objects and the messages, which the service has, too
    strategies: tuple[Strategy, ...] = (LowNodeLoad(), LevelDay())
    for strategy in strategies:
        built, view = seconds(lambda: ClusterBuilder(snapshot, evaluation).cluster())
        classified, states = seconds(partial(classify, strategy, view))
        hot = {state.node for state in states if state.abnormal}
        planned, _ = seconds(partial(strategy.plan, view, hot))
        figures["snapshot, s"] = built
        figures[f"{name_of(strategy)}, s"] = classified + planned
        del view
        gc.collect()
    figures["memory beyond objects and messages, MB"] = peak_mb() - before
    return figures


def measure_page(nodes: int) -> dict[str, float]:
    found = live_5000.measure(nodes)
    return {
        "a second with 1,000 changed nodes, ms": found["changed"],
        "an evaluation, ms": found["evaluation"],
        "snapshot for a new browser, ms": found["snapshot"],
    }


def measure_reclaimer(nodes: int) -> dict[str, float]:
    generator, settings = random.Random(1), ReclaimerSettings(enabled=True).evaluation()
    state = LatestNodes(started_at=START)
    for workload in clusters.workloads(START, generator):
        state.on_workload(workload, START)
    for number in range(nodes):
        placed = clusters.placement(number, PODS, START, generator)
        message = received(msgspec.structs.replace(placed, capacity=SIZE, allocatable=SIZE), NodePlacement)
        state.on_placement(message, START)
        utilization = clusters.utilization(message, START + 1, generator)
        state.on_utilization(received(utilization, NodeUtilization), START + 1)

    def evaluate_all() -> None:
        names = state.names
        for first in range(0, nodes, NODES_AT_A_TIME):
            chosen = names[first : first + NODES_AT_A_TIME]
            observed = [state.observed(name, "enforce", START + 2) for name in chosen]
            for result in evaluate(observed, settings, max_age=MAX_AGE, now=START + 2):
                state.on_evaluated(result.message.node, result.last, result.amounts)

    evaluate_all()
    return {"an evaluation, s": seconds(evaluate_all)[0]}


def measure_scheduler(nodes: int) -> dict[str, float]:
    """What `equipoise scheduler` decides for a pod, without its requests to the API server."""
    cluster, generator = scheduling_library.make_cluster(nodes, nodes * PODS)
    figures: dict[str, float] = {}
    for what, constrained in (("a plain pod, ms", False), ("a pod with affinity and spread, ms", True)):
        taken = []
        for number in range(50):
            pod = scheduling_library.new_pod(nodes * PODS + number, constrained, generator)
            taken.append(seconds(partial(cluster.decide, pod))[0])
        figures[what] = 1e3 * median(taken)
    return figures


async def _annotator(nodes: int) -> dict[str, float]:
    generator, clock = random.Random(1), ManualClock(NOW)
    kube = MemoryKube(clock)
    placements = [clusters.placement(number, PODS, NOW, generator) for number in range(nodes)]
    for placed in placements:
        kube.put(NODES, Node(metadata=ObjectMeta(name=placed.node, uid=placed.uid)))
    figures: dict[str, float] = {}
    settings = AnnotatorSettings(writes_per_second=1_000.0, reads_per_second=1_000.0)
    async with running_annotator(kube, clock, settings) as (bus, counting):
        await clock.advance(1)
        for what in ("a cycle in which all nodes are written, s", "a cycle without writes, s"):
            messages = [clusters.utilization(placed, clock.now(), random.Random(2)) for placed in placements]
            started = time.process_time()
            for message in messages:
                await bus.publish(subjects.node_utilization(message.node), message)
            await clock.advance(PERIOD)
            figures[what] = time.process_time() - started
        assert counting.writes == nodes, counting.writes
    return figures


def measure_annotator(nodes: int) -> dict[str, float]:
    """With an API server in memory, and with the messages of the collector, which are part of it."""
    return asyncio.run(_annotator(nodes))


def measure_binder(nodes: int) -> dict[str, float]:
    """With an API server in memory that responds at once."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    found = asyncio.run(binder.measure(100, nodes, PODS))
    assert found["evicted"] == found["intents"], found
    return {"an intent, ms": found["cpu_milliseconds_each"]} | binder.measure_search(nodes, PODS)


PARTS: Mapping[str, Callable[[int], dict[str, float]]] = {
    "scorer": measure_scorer,
    "hints": measure_hints,
    "plan": measure_plan,
    "page": measure_page,
    "reclaimer": measure_reclaimer,
    "collector": measure_collector,
    "one_of_three_collectors": measure_shard,
    "scheduler": measure_scheduler,
    "annotator": measure_annotator,
    "binder": measure_binder,
}


def measured(part: str, nodes: int) -> dict[str, float]:
    progress(f"{part}: {nodes} nodes")
    command = [sys.executable, "-m", "bench.size", part, str(nodes)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # as in the image
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout  # noqa: S603  itself
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Prints the table of docs/benchmarks.md at the end, on stderr like all output that is not JSON."""
    rows = [f"| what | {SIZES[0]:,} nodes | {SIZES[1]:,} nodes | growth |", "|---|---|---|---|"]
    for part in PARTS:
        small, large = (measured(part, nodes) for nodes in SIZES)
        for what, value in large.items():
            growth = value / small[what] * SIZES[0] / SIZES[1]
            target = ("<=", MEMORY) if what == "memory, MB" else None
            report(
                f"size_{part}", value, what, target=target, nodes_5000=round(small[what], 4), growth=round(growth, 2)
            )
            rows.append(f"| {part}: {what} | {shown(small[what])} | {shown(value)} | {growth:.2f} |")
    progress("\n".join(rows))


if __name__ == "__main__":
    if sys.argv[1:]:
        reduce_gc_frequency()
        use_one_heap()
        figures = PARTS[sys.argv[1]](int(sys.argv[2]))
        print(json.dumps(figures | {"memory, MB": peak_mb()}))
    else:
        main()
