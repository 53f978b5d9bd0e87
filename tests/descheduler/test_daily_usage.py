"""Days of many nodes are added up at once: each is what its own parts come to."""

import random

import numpy as np
import pytest
from builders import GIB, a_node_utilization, a_workload

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.daily_usage import Part, RunningPods, node_days

SYSTEM = Resources(cpu=0.5, memory=GIB)


def test_every_node_has_the_sum_of_its_own_parts() -> None:
    """Of days, of those that go on as they are, and nothing of unknown ones; a node that nobody spoke of has no day."""
    chance = random.Random(1)
    workloads = [a_workload(name=f"app-{number}") for number in range(40)]
    days = {
        workload: np.array([[chance.random() for _ in range(SLOTS)], [GIB * chance.random() for _ in range(SLOTS)]])
        for workload in workloads[:30]
    }
    usages = {f"pod-{number}": Resources(cpu=chance.random(), memory=GIB) for number in range(50)}
    heard = a_node_utilization(system=SYSTEM)

    def usage_of(uid: str, _: Workload | None) -> Resources:
        return usages.get(uid, Resources(cpu=1.0))

    nodes: list[list[Part] | None] = []
    for _ in range(700):
        parts: list[Part] = [
            (f"pod-{chance.randrange(60)}", chance.choice([None, *workloads])) for _ in range(chance.randrange(6))
        ]
        nodes.append(chance.choice([parts, parts, parts, [], None]))
    found = node_days(days, [None if parts is None else RunningPods(heard, parts, usage_of) for parts in nodes])

    for place, expected in enumerate(nodes):
        if expected is None:
            assert np.isnan(found[place]).all()
            continue
        total = np.repeat([[0.5], [GIB]], SLOTS, axis=1)
        for uid, workload in expected:
            if workload in days:
                total = total + days[workload]
            elif uid in usages:
                total = total + np.array([[usages[uid].cpu], [usages[uid].memory]])
        assert found[place].ravel().tolist() == pytest.approx(total.ravel().tolist())
