"""How long a prioritize question takes in a fleet of 5,000 nodes, from body to body, and what the fleet weighs."""

import argparse
import gc
import random
import resource
import time

import msgspec

from equipoise.contracts.messages import (
    NodePlacement,
    NodeUtilization,
    PlacedPod,
    Resources,
    UtilizationCycle,
    WindowUsage,
    WorkloadUtilization,
)
from equipoise.contracts.settings import LoadSettings
from equipoise.contracts.workload import Workload
from equipoise.scorer.picture import Picture
from equipoise.scorer.policies.water_level import WaterLevel
from equipoise.scorer.wire import read_question, write_priorities

GIB = 2.0**30
NOW = 1_800_000_000.0
WORKLOADS = [Workload(kind="Deployment", group="apps", namespace="shop", name=f"web-{number}") for number in range(500)]


def a_fleet(picture: Picture, nodes: int, pods: int, chance: random.Random) -> float:
    """Fill the picture; returns the seconds that one node's pair of messages takes."""
    windows = [window.name for window in LoadSettings().windows]
    for workload in WORKLOADS:
        value = WindowUsage(sampled_at=NOW, mean=Resources(cpu=chance.uniform(0.05, 2), memory=GIB))
        picture.on_workload(
            WorkloadUtilization(
                workload=workload, replicas=9, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=1,
                windows=dict.fromkeys(windows, value),
            )
        )  # fmt: skip
    spent = 0.0
    for number in range(nodes):
        name, uids = f"node-{number:05}", [f"{number}-{pod}" for pod in range(pods)]
        value = WindowUsage(
            sampled_at=NOW, mean=Resources(cpu=chance.uniform(2, 28), memory=chance.uniform(10, 100) * GIB)
        )
        placement = NodePlacement(
            node=name, uid=name, ready=True, epoch=1, sequence=1,
            pods=[
                PlacedPod(
                    uid=uid, namespace="shop", name=uid, workload=chance.choice(WORKLOADS),
                    placed_at=NOW - chance.uniform(0, 300_000), requests=Resources(cpu=1, memory=GIB),
                )
                for uid in uids
            ],
        )  # fmt: skip
        utilization = NodeUtilization(
            node=name, uid=name, base=Resources(cpu=32, memory=128 * GIB), sampled_at=NOW, queried_at=NOW,
            windows=dict.fromkeys(windows, value), pods={uid: Resources(cpu=0.5, memory=GIB) for uid in uids},
            epoch=1, sequence=1,
        )  # fmt: skip
        begun = time.perf_counter()
        picture.on_placement(placement, NOW)
        picture.on_utilization(utilization, NOW)
        spent += time.perf_counter() - begun
    picture.on_cycle(UtilizationCycle(shard="0", cycle=1, expected=nodes, fresh=nodes, queried_at=NOW))
    return spent / nodes


def a_body(number: int, names: list[str]) -> bytes:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{number % 500}-5d4b", "controller": True}
    pod = {
        "metadata": {
            "name": f"web-{number}", "namespace": "shop", "uid": f"new-{number}",
            "labels": {"pod-template-hash": "5d4b"}, "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
    }  # fmt: skip
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})


def measure(picture: Picture, count: int, questions: int, nodes: int, chance: random.Random) -> list[float]:
    """Milliseconds per question about `count` nodes, 5 ms apart and never placed: 400 bookings are alive."""
    names = [f"node-{number:05}" for number in range(nodes)]
    bodies = [a_body(number, chance.sample(names, count)) for number in range(questions)]
    taken = []
    for number, body in enumerate(bodies):
        begun = time.perf_counter()
        question = read_question(body)
        prioritized = picture.prioritize(question.pod, question.names, NOW + number * 0.005)
        write_priorities(question.names, prioritized.answer.scores)
        taken.append((time.perf_counter() - begun) * 1_000)
    return sorted(taken)


def main() -> None:
    """Print one line per figure."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=5_000)
    arguments.add_argument("--pods", type=int, default=30, help="per node")
    arguments.add_argument("--questions", type=int, default=1_000)
    asked = arguments.parse_args()
    chance = random.Random(1)
    picture = Picture(
        load=LoadSettings(), policy=WaterLevel(), policy_name="water_level",
        least_spread=5.0, reservation=2.0, after_eviction=600.0,
    )  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = a_fleet(picture, asked.nodes, asked.pods, chance)
    gc.collect()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"scorer: {asked.nodes} nodes with {asked.pods} pods each")
    print(f"  one node's placement and utilization   {seconds * 1_000:7.3f} ms")
    print(f"  memory of the fleet (whole process)    {(after - before) / 1024:7.0f} MiB ({after / 1024:.0f} MiB)")
    for count in (500, asked.nodes):
        taken = measure(picture, min(count, asked.nodes), asked.questions, asked.nodes, chance)
        p50, p99 = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
        print(f"  prioritize {count:5} of {asked.nodes} nodes: p50 {p50:6.2f} ms, p99 {p99:6.2f} ms")


if __name__ == "__main__":
    main()
