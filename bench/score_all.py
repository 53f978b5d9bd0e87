"""What an answer costs in a fleet of 5,000 nodes with 150,000 pods: the policies alone, and a whole question."""

import gc
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from bench import fleets
from bench.line import progress, say
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.scorer.decisions.extender_protocol import read_question, write_priorities
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.mix import Mix, Part
from equipoise.scorer.decisions.policies.profile import Profile
from equipoise.scorer.decisions.policies.single import SINGLE
from equipoise.scorer.decisions.scoring_state import Picture
from equipoise.scorer.state.demand import expected_demand

NOW = 1_800_000_000.0
NODES = 5_000
PODS = 30


def a_picture(policy: ScoringPolicy, name: str) -> tuple[Picture, float]:
    """The picture, and the seconds in which it took a full cycle of utilizations."""
    chance = random.Random(1)
    picture = Picture(
        load=LoadSettings(), policy=policy, policy_name=name, least_spread=5.0, reservation=2.0, after_eviction=600.0
    )
    for workload in fleets.workloads(NOW, chance):
        picture.on_workload(workload)
    placements = [fleets.placement(number, PODS, NOW, chance) for number in range(NODES)]
    utilizations = [fleets.utilization(placement, NOW, chance) for placement in placements]
    for placement, utilization in zip(placements, utilizations, strict=True):
        picture.on_placement(placement, NOW)
        picture.on_utilization(utilization, NOW)
    picture.on_cycle(fleets.cycle(NODES, NOW))
    again = [fleets.utilization(placement, NOW, chance, sequence=2) for placement in placements]
    begun = time.perf_counter()
    for utilization in again:
        picture.on_utilization(utilization, NOW)
    return picture, time.perf_counter() - begun


def milliseconds(work: Callable[[], object], times: int = 200) -> float:
    work()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return 1_000 * median(taken)


def main() -> None:
    reduce_gc_frequency()
    policies: dict[str, ScoringPolicy] = {name: kind() for name, kind in SINGLE.items()}
    policies["mix"] = Mix(parts=tuple(Part(policy=SINGLE[name]()) for name in ("water_level", "profile")))  # type: ignore[arg-type]
    names = [fleets.node_name(number) for number in range(NODES)]
    for name, policy in policies.items():
        progress(f"{name}: filling {NODES} nodes with {PODS} pods each")
        picture, refresh = a_picture(policy, name)
        gc.collect()
        pod = read_question(fleets.question(1, names[:1])).pod
        fleet = picture.fleet
        demand = expected_demand(
            pod, fleet.usage_of(pod.workload, NOW), windows=fleet.windows, chain=policy.demand_chain
        )
        nodes = fleet.loads(names, fleet.rows(names), NOW)
        taken = milliseconds(partial(policy.score, nodes, demand))
        say("score_all", taken, "ms", target=("<=", 1.0), policy=name)
        say("refresh_all", 1_000 * refresh, "ms", target=("<=", 20.0), policy=name)
        if isinstance(policy, Profile):
            prioritize_cpu(picture, names)


def prioritize_cpu(picture: Picture, names: list[str], questions: int = 1_000) -> None:
    """From body to body, 5 ms apart and never placed: 400 bookings are alive."""
    chance = random.Random(2)
    for count in (500, NODES):
        bodies = [fleets.question(number, chance.sample(names, count)) for number in range(questions)]
        taken = []
        for number, body in enumerate(bodies):
            begun = time.process_time()
            question = read_question(body)
            prioritized = picture.prioritize(question.pod, question.names, NOW + number * 0.005)
            write_priorities(question.names, prioritized.answer.scores)
            taken.append(time.process_time() - begun)
        target = ("<=", 150.0) if count == 500 else None
        say("prioritize_cpu", 1e6 * median(taken), "us", target=target, candidates=count)


if __name__ == "__main__":
    main()
