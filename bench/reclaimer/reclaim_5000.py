"""The reclaimer's evaluation of 5,000 nodes and 150,000 pods: its time, its memory, and how many nodes it would write.

Every minute all nodes are measured, evaluated, and the amounts that are due are in their status one minute later.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np

from bench import clusters
from bench.memory import resident_mb
from bench.output import progress, report
from equipoise.contracts.colocation.bands import OFFERED_BANDS, RESOURCE_NAMES, amounts_of_band
from equipoise.contracts.messages.placement import NodeColocation, NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.reclaimer.decisions.evaluation import evaluate
from equipoise.reclaimer.decisions.learning import expect, learn
from equipoise.reclaimer.service import NODES_AT_A_TIME
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.reclaimer.state.deviations import Deviations
from equipoise.reclaimer.state.latest_nodes import LatestNodes

T = TypeVar("T")

NODES, PODS = 5_000, 30
START, INTERVAL, MAX_AGE = 1_800_000_000.0, 60.0, 90.0
GIB = 2.0**30
SIZE = Resources(cpu=96, memory=256 * GIB)
DEVIATION = 1.0
"""Standard deviation of the usage of a node, in cores and GiB, from minute to minute."""

DAYS = 3
"""Days of deviations that are known at the beginning; arrays have space for eight from then on."""

FIRST_ROUNDS, ROUNDS = 15, 10
"""Minutes. At first the amounts grow, by a tenth of the node at a time."""


def main() -> None:
    generator, settings = random.Random(1), ReclaimerSettings(enabled=True).evaluation()
    begin = resident_mb()
    state = LatestNodes(started_at=START)
    for workload in clusters.workloads(START, generator):
        state.on_workload(workload, START)
    progress("placements")
    for number in range(NODES):
        placed = clusters.placement(number, PODS, START, generator)
        message = msgspec.structs.replace(placed, capacity=SIZE, allocatable=SIZE)
        state.on_placement(received(message, NodePlacement), START)
    learn_days(state)
    durations, steps, each, writes = [], [], [], []
    status: dict[str, dict[str, int]] = {}
    for number in range(1, FIRST_ROUNDS + ROUNDS + 1):
        now = START + number * INTERVAL
        if number % 5 == 0:
            progress(f"minute {number}")
        for name in state.names:
            placement = state.observed(name, "enforce", now).placement
            measured = clusters.utilization(placement, now, generator, number)
            system = Resources(cpu=abs(generator.gauss(4.0, DEVIATION)), memory=generator.gauss(10.0, DEVIATION) * GIB)
            utilization = received(msgspec.structs.replace(measured, system=system), NodeUtilization)
            changed = msgspec.structs.replace(placement, colocation=colocation(status.get(name, {})), sequence=number)
            started = time.perf_counter()
            state.on_utilization(utilization, now)
            each.append(time.perf_counter() - started)
            state.on_placement(changed, now)
        due, duration = 0, 0.0
        for first in range(0, NODES, NODES_AT_A_TIME):
            started = time.perf_counter()
            nodes = [state.observed(name, "enforce", now) for name in state.names[first : first + NODES_AT_A_TIME]]
            results = evaluate(nodes, settings, max_age=MAX_AGE, now=now)
            for result in results:
                state.on_evaluated(result.message.node, result.last, result.amounts)
            steps.append(time.perf_counter() - started)
            duration += steps[-1]
            for result in results:
                if result.due:
                    due += 1
                    status[result.message.node] = {name: amount or 0 for name, amount in result.amounts.items()}
                    state.on_written(result.message.node, now)
        durations.append(duration)
        writes.append(due)
    report("reclaim_5000", statistics.median(durations), "s for an evaluation of all nodes", target=("<=", 0.5),
        longest_step_milliseconds=round(max(steps) * 1e3),
        message_microseconds=round(statistics.median(each) * 1e6))  # fmt: skip
    report("reclaim_5000_memory", resident_mb() - begin, "MB for the state", target=("<=", 250.0))
    rate = statistics.mean(writes[FIRST_ROUNDS:]) / INTERVAL
    report("reclaim_5000_writes", rate, "writes/s while loads vary", target=("<=", 20.0), first_minute=writes[0])


def learn_days(state: LatestNodes) -> None:
    """The days before START, and the errors of their forecasts."""
    progress(f"{DAYS} days of deviations")
    generator = np.random.default_rng(1)
    names = [(name, state.uid(name) or "") for name in state.names]
    typical, constant = np.full((2, 24), 0.3), np.full(2, 0.05)
    for now in np.arange(START - DAYS * 86_400, START, 900.0):
        for (name, uid), noise in zip(names, generator.normal(0.3, 0.02, (len(names), 2)), strict=True):
            state.deviations.observe(name, uid, noise, typical, constant, float(now))
    learned = list(iter(lambda: timed(learn, state), 0.0))
    expected = list(iter(lambda: timed(expect, state), 0.0))
    report("reclaim_5000_learning", sum(learned), "s for all nodes, once in 6 h", target=None,
        longest_step_milliseconds=round(max(learned) * 1e3),
        expected_seconds_per_quarter_hour=round(sum(expected), 3),
        longest_expected_milliseconds=round(max(expected) * 1e3))  # fmt: skip


def timed(step: Callable[[Deviations, float], bool], state: LatestNodes) -> float:
    """Seconds; 0 when there was nothing to do."""
    started = time.perf_counter()
    return time.perf_counter() - started if step(state.deviations, START) else 0.0


def received(message: object, kind: type[T]) -> T:
    """The message as it arrives from the bus: no part of it is shared with another one."""
    return msgspec.json.decode(msgspec.json.encode(message), type=kind)


def colocation(status: dict[str, int]) -> NodeColocation:
    amounts = {
        band: amounts_of_band({name: float(status[name]) for name in RESOURCE_NAMES[band]}, band)
        for band in OFFERED_BANDS
        if status
    }
    return NodeColocation(amounts=amounts, capacity_amounts=amounts)


if __name__ == "__main__":
    main()
