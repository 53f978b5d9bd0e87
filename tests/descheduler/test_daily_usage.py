"""The forecasts of many nodes are computed at once: each is the sum of its own pods."""

import random

import numpy as np
import pytest
from builders import GIB, a_node_utilization, a_workload

from equipoise.contracts.configuration.settings import BatchWorkWeight
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.daily_usage import BatchWork, NodePods, RunningPod, node_days

SYSTEM = Resources(cpu=0.5, memory=GIB)


def test_the_forecast_of_a_node_is_the_sum_of_its_pods() -> None:
    """Profiles, constant usage, and nothing for pods of unknown usage. A node without utilization has no forecast."""
    chance = random.Random(1)
    workloads = [a_workload(name=f"app-{number}") for number in range(40)]
    days = {
        workload: np.array([[chance.random() for _ in range(SLOTS)], [GIB * chance.random() for _ in range(SLOTS)]])
        for workload in workloads[:30]
    }
    usages = {f"pod-{number}": Resources(cpu=chance.random(), memory=GIB) for number in range(50)}
    utilization = a_node_utilization(system=SYSTEM)

    def usage_of(uid: str, _: Workload | None) -> Resources:
        return usages.get(uid, Resources(cpu=1.0))

    nodes: list[list[RunningPod] | None] = []
    for _ in range(700):
        pods: list[RunningPod] = [
            (f"pod-{chance.randrange(60)}", chance.choice([None, *workloads])) for _ in range(chance.randrange(6))
        ]
        nodes.append(chance.choice([pods, pods, pods, [], None]))
    found = node_days(days.get, [None if pods is None else NodePods(utilization, pods, usage_of) for pods in nodes])

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


def test_of_batch_work_only_its_weight_counts_in_a_forecast() -> None:
    """With and without a profile; other pods of its workload count in full."""
    profiled, constant = a_workload(name="profiled"), a_workload(name="constant")
    days = {profiled: np.array([np.full(SLOTS, 2.0), np.full(SLOTS, 4 * GIB)])}
    pods: list[RunningPod] = [("batch-1", profiled), ("batch-2", constant), ("other", profiled)]
    batch_work = BatchWork({"batch-1", "batch-2"}, BatchWorkWeight(cpu=0.25, memory=0.5))
    node = NodePods(
        a_node_utilization(system=Resources(cpu=0.5, memory=GIB)), pods, lambda *_: Resources(cpu=1.0, memory=2 * GIB)
    )

    [found] = node_days(days.get, [node], batch_work)

    assert found[:, 0].tolist() == pytest.approx([0.5 + 0.5 + 0.25 + 2.0, GIB * (1 + 2 + 1 + 4)])
