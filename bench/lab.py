"""How long a replay takes: the example trace, so many times beside itself, placed afresh and scored by `profile`."""

import random
import resource

import msgspec
import numpy as np

from bench.line import progress, say
from equipoise.lab.example import STEPS_PER_DAY, example_trace
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import Replay, ReplayPlan
from equipoise.scorer.decisions.policies.profile import ProfilePolicy


def a_fleet(nodes: int, pods: int) -> Trace:
    """One day; as many copies of the example as its nodes need, with so many of their pods."""
    example = example_trace()
    copies = range(nodes // len(example.nodes))
    renamed = msgspec.structs.replace
    everyone = [
        renamed(pod, name=f"{pod.name}-{copy}", workload=pod.workload + copy * len(example.workloads), node="")
        for copy in copies
        for pod in example.pods
    ]
    random.Random(1).shuffle(everyone)
    return renamed(
        example,
        nodes=tuple(renamed(node, name=f"{node.name}-{copy}") for copy in copies for node in example.nodes),
        workloads=tuple(renamed(each, name=f"{each.name}-{copy}") for copy in copies for each in example.workloads),
        pods=tuple(everyone[:pods]),
        rules=tuple(
            renamed(
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
        figures = Replay(a_fleet(nodes, pods), plan).run().figures
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        assert figures.unplaced < pods / 100, figures
        say("lab_replay", figures.seconds, "s", target=("<=", seconds), nodes=nodes, pods=pods)
        say("lab_memory", size, "MiB", target=("<=", 2_000.0), nodes=nodes, pods=pods)


if __name__ == "__main__":
    main()
