"""Time and memory of a replay: copies of the example trace, with all pods placed from scratch by `profile`."""

import random

import msgspec
import numpy as np

from bench.memory import peak_mb
from bench.output import progress, report
from equipoise.lab.example import STEPS_PER_DAY, example_trace
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan
from equipoise.scorer.decisions.policies.profile import ProfilePolicy


def make_trace(nodes: int, pods: int) -> Trace:
    """One day of as many copies of the example as needed for `nodes`, with `pods` of their pods."""
    example = example_trace()
    copies = range(nodes // len(example.nodes))
    replace = msgspec.structs.replace
    all_pods = [
        replace(pod, name=f"{pod.name}-{copy}", workload=pod.workload + copy * len(example.workloads), node="")
        for copy in copies
        for pod in example.pods
    ]
    random.Random(1).shuffle(all_pods)
    return replace(
        example,
        nodes=tuple(replace(node, name=f"{node.name}-{copy}") for copy in copies for node in example.nodes),
        workloads=tuple(replace(each, name=f"{each.name}-{copy}") for copy in copies for each in example.workloads),
        pods=tuple(all_pods[:pods]),
        rules=tuple(
            replace(
                rule,
                beside=rule.beside + copy * len(example.workloads),
                limited=rule.limited + copy * len(example.workloads),
            )
            for copy in copies
            for rule in example.rules
        ),
        cpu_milli=np.tile(example.cpu_milli[:, :STEPS_PER_DAY], (len(copies), 1)),
        memory_mib=np.tile(example.memory_mib[:, :STEPS_PER_DAY], (len(copies), 1)),
    )


def main() -> None:
    for nodes, pods, seconds in ((100, 1_500, 5.0), (3_000, 30_000, 120.0)):
        progress(f"{nodes} nodes, {pods} pods, one day")
        plan = ReplayPlan(scenario="fresh", policy="profile", scoring=ProfilePolicy())
        figures = Replay(make_trace(nodes, pods), plan).run().figures
        assert figures.unplaced < pods / 100, figures
        report("lab_replay", figures.seconds, "s", target=("<=", seconds), nodes=nodes, pods=pods)
        report("lab_memory", peak_mb() * 1e6 / 2**20, "MiB", target=("<=", 2_000.0), nodes=nodes, pods=pods)


if __name__ == "__main__":
    main()
