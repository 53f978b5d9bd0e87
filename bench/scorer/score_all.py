"""The cost of a response in a cluster of 5,000 nodes and 150,000 pods: each policy alone, and a complete request."""

import gc
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from bench import clusters
from bench.output import progress, report
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.scorer.decisions.demand import expected_demand
from equipoise.scorer.decisions.extender_protocol import parse_request, write_priorities
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.scoring_state import ScoringState

NOW = 1_800_000_000.0
NODES = 5_000
PODS = 30

TOGETHER = 24
"""Messages that the scorer receives from the bus before other tasks run."""


def make_state(policy: ScoringPolicy, nodes: int = NODES) -> tuple[ScoringState, float]:
    """The scoring state, and the seconds that a full cycle of utilizations took."""
    generator = random.Random(1)
    state = ScoringState(LoadSettings(), ScoringSettings(policy=policy))
    for workload in clusters.workloads(NOW, generator):
        state.nodes.on_workload(workload, NOW)
    placements = [clusters.placement(number, PODS, NOW, generator) for number in range(nodes)]
    utilizations = [clusters.utilization(placement, NOW, generator) for placement in placements]
    for placement, utilization in zip(placements, utilizations, strict=True):
        state.on_placement(placement, NOW)
        state.nodes.on_utilization(utilization, NOW)
    state.on_cycle(clusters.cycle(nodes, NOW), NOW)
    again = [clusters.utilization(placement, NOW, generator, sequence=2) for placement in placements]
    started = time.perf_counter()
    for first in range(0, len(again), TOGETHER):
        state.nodes.on_utilizations(again[first : first + TOGETHER], NOW)
    return state, time.perf_counter() - started


def milliseconds(function: Callable[[], object], times: int = 200) -> float:
    function()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        function()
        taken.append(time.perf_counter() - started)
    return 1_000 * median(taken)


def main() -> None:
    reduce_gc_frequency()
    policies: dict[str, ScoringPolicy] = {
        name: kind()
        for name, kind in SINGLE_POLICIES.items()
        if name != "rules"  # has no default
    }
    policies["mix"] = Mix(parts=tuple(MixPart(policy=SINGLE_POLICIES[name]()) for name in ("water_level", "profile")))
    names = [clusters.node_name(number) for number in range(NODES)]
    for name, policy in policies.items():
        progress(f"{name}: filling {NODES} nodes with {PODS} pods each")
        state, refresh = make_state(policy)
        gc.collect()
        pod = parse_request(clusters.extender_body(1, names[:1])).pod
        table = state.nodes
        demand = expected_demand(
            pod, table.workload_usage(pod.workload, NOW), windows=table.windows, chain=policy.demand_chain
        )
        nodes = table.candidates(names, table.rows(names), NOW, spans=policy.placement_spans)
        taken = milliseconds(partial(policy.score, nodes, demand))
        report("score_all", taken, "ms", target=("<=", 1.0), policy=name)
        report("refresh_all", 1_000 * refresh, "ms", target=("<=", 50.0), policy=name)
        if isinstance(policy, ProfilePolicy):
            prioritize_cpu(state, names)


def respond(state: ScoringState, body: bytes, now: float) -> bytes:
    """The response to a prioritize request, as the extender computes it."""
    request = parse_request(body, state.nodes.rows)
    prioritized = state.prioritize(request.pod, request.names, now, rows=request.rows)
    return write_priorities(request.names, prioritized.scores.scores, plain=request.plain)


def prioritize_cpu(state: ScoringState, names: list[str], requests: int = 1_000) -> None:
    """CPU time from request body to response body. Requests are 5 ms apart, pods never placed: 400 reservations.

    Of pods of 500 workloads in turn, and of a burst of pods of one workload.
    """
    generator = random.Random(2)
    now = NOW
    for count, step in ((500, 1), (500, len(clusters.WORKLOADS)), (NODES, 1)):
        taken = []
        for number in range(requests):
            body = clusters.extender_body(number * step, generator.sample(names, count))
            now += 0.005
            started = time.process_time()
            respond(state, body, now)
            taken.append(time.process_time() - started)
        target = ("<=", 250.0) if count == 500 else None
        pods = "in turn" if step == 1 else "burst"
        report("prioritize_cpu", 1e6 * median(taken), "us", target=target, candidates=count, workloads=pods)


if __name__ == "__main__":
    main()
