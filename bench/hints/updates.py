"""Placement hints of 10,000 workloads on 5,000 nodes: all, and after one node has changed."""

import gc
import random
import time
from statistics import median

import msgspec

from bench import clusters
from bench.memory import peak_mb, resident_mb
from bench.output import progress, report
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.placement_hints.hint_table import HintTable
from equipoise.scorer.state.placement_hints.node_snapshot import node_snapshot
from equipoise.scorer.state.placement_hints.score_table import ScoreTable
from equipoise.scorer.state.placement_hints.workload_demands import WorkloadDemands
from equipoise.scorer.state.scoring_state import ScoringState

NOW = 1_800_000_000.0
NODES = 5_000
PODS = 30
WORKLOADS = 10_000
GIB = 2.0**30


def make_cluster(nodes: int = NODES) -> tuple[ScoringState, HintTable, list[NodePlacement], random.Random]:
    """All messages of the cluster were received; no hint was computed yet."""
    generator = random.Random(1)
    settings = ScoringSettings(policy=ProfilePolicy(), hints=HintSettings())
    state = ScoringState(LoadSettings(), settings)
    table = HintTable(state, settings.hints)
    workloads = [
        Workload(kind="Deployment", group="apps", namespace=f"team-{number % 100}", name=f"web-{number}")
        for number in range(WORKLOADS)
    ]
    [template] = [next(clusters.workloads(NOW, generator))]
    for workload in workloads:
        scale = generator.uniform(0.05, 1.0)
        profile = {"cpu": [scale * generator.uniform(0.5, 1.5) for _ in range(24)], "memory": [GIB] * 24}
        state.nodes.on_workload(msgspec.structs.replace(template, workload=workload, profile=profile), NOW)
    placements = []
    for number in range(nodes):
        message = clusters.placement(number, PODS, NOW, generator)
        pods = [msgspec.structs.replace(pod, workload=generator.choice(workloads)) for pod in message.pods]
        message = msgspec.structs.replace(message, pods=pods, labels={HOSTNAME: f"ip-10-0-{number}.eu-west-1.internal"})
        placements.append(message)
        placed = state.on_placement(message, NOW)
        table.on_placement(message, [each.pod for each in placed or ()], NOW)
        state.nodes.on_utilization(clusters.utilization(message, NOW, generator), NOW)
    state.on_cycle(clusters.cycle(nodes, NOW), NOW)
    return state, table, placements, generator


def update(table: HintTable, now: float) -> tuple[float, float]:
    """CPU seconds of a whole update, and of its longest step."""
    longest, started = 0.0, time.process_time()
    begun = started
    for _ in table.update(now):
        ended = time.process_time()
        longest, begun = max(longest, ended - begun), ended
    ended = time.process_time()
    return ended - started, max(longest, ended - begun)


def changed_node(state: ScoringState, message: NodePlacement, generator: random.Random) -> float:
    """CPU seconds to compute the points of a changed node: median difference to updates in which nothing changed."""
    scores, demands = ScoreTable(state.policy), WorkloadDemands(state.nodes, state.policy.demand_chain)
    workloads = list(state.nodes.messages.workloads)

    def seconds() -> float:
        snapshot = node_snapshot(state, {}, (), NOW)
        started = time.process_time()
        for _ in scores.update(snapshot, workloads, lambda workload: demands.demand(workload, None, NOW)):
            pass
        return time.process_time() - started

    seconds()
    differences = []
    for sequence in range(2, 9):
        unchanged = seconds()
        state.nodes.on_utilization(clusters.utilization(message, NOW, generator, sequence=sequence), NOW)
        differences.append(seconds() - unchanged)
    return median(differences)


def main() -> None:
    reduce_gc_frequency()
    progress(f"{NODES} nodes with {PODS} pods each, {WORKLOADS} workloads")
    state, table, placements, generator = make_cluster()
    gc.collect()
    before = resident_mb()
    taken, step = update(table, NOW)
    report("hints", taken, "s of CPU", target=("<=", 5.0), nodes=NODES, workloads=WORKLOADS)
    report("hints_longest_step", 1_000 * step, "ms of CPU", target=("<=", 50.0))
    report("hints_memory", (peak_mb() - before) * 1e6 / 2**20, "MiB", target=("<=", 400.0))
    taken, step = update(table, NOW)
    report("hints_unchanged", taken, "s of CPU", longest_step=round(1_000 * step))
    report(
        "hints_changed_node", 1_000 * changed_node(state, placements[0], generator), "ms of CPU", target=("<=", 20.0)
    )


if __name__ == "__main__":
    main()
