"""The costs by which a ReplicaSet of a replay chooses the pods that it deletes."""

from typing import Literal

import msgspec
from lab.traces import a_trace

from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import Run

SCALED = tuple(2_000.0 if 32 <= step < 64 else 500.0 for step in range(96))
"""Needs all pods from 8:00 to 16:00, and a quarter of them otherwise."""

BUSY, IDLE = (4_000.0,) * 96, (50.0,) * 96


def uneven() -> Trace:
    """Eight pods of a workload that is scaled on four nodes. Two of these have a busy pod, too, which is never
    moved."""
    trace = a_trace(curves=(SCALED, BUSY, IDLE), replicas=(8, 2, 2), placed=(0, 1, 2, 3, 0, 1, 2, 3, 2, 3, 0, 1))
    fixed = [msgspec.structs.replace(workload, kind="StatefulSet") for workload in trace.workloads[1:]]
    return msgspec.structs.replace(trace, workloads=(trace.workloads[0], *fixed))


def replayed(costs: Literal["none", "hottestNodes", "emptiestNodes"]) -> Run:
    plan = ReplayPlan(scenario="autoscaled", policy="stock", missing=0.0, settings=Settings(deletion_costs=costs))
    return Replay(uneven(), plan).run()


def test_costs_lead_a_scale_down_to_the_hottest_nodes() -> None:
    """Without costs, the nodes are equal to the ReplicaSet: each has as many pods of the workload."""
    without, with_costs = (replayed(costs) for costs in ("none", "hottestNodes"))

    assert (0, 0) == (without.figures.unplaced, with_costs.figures.unplaced)
    assert max(with_costs.after[:, 20]) < max(without.after[:, 20])
    nodes = dict(zip(with_costs.node_names, with_costs.after[:, 20].tolist(), strict=True))
    assert [50.0, 50.0] == [round(nodes[name], 1) for name in ("node-2", "node-3")]
    assert with_costs.figures.median_spread < without.figures.median_spread


def test_the_workload_uses_as_much_with_and_without_costs() -> None:
    without, with_costs = (replayed(costs) for costs in ("none", "hottestNodes"))

    assert abs(without.after.sum() - with_costs.after.sum()) < 0.01 * without.after.sum()
