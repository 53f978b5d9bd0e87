"""The forecast of a node is that of the pods that will be on it."""

from typing import Any

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_node_utilization, a_workload, a_workload_utilization, an_intent
from descheduler.outcomes import dry_run_moves
from descheduler.snapshots import a_pod, a_snapshot, evaluation_settings

from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.descheduler.state.moves.pending_moves import TrackedMove

USED = Resources(cpu=1.5, memory=GIB)
PROFILE = [1.0] * 12 + [3.0] * 12
"""Cores of a replica, hour by hour."""


def forecast(*, profile: bool = True, **fields: Any) -> ClusterView:
    """web-1 on node-a, which uses half a core outside its pods; node-b has no pod."""
    system = Resources(cpu=0.5, memory=GIB)
    days = {"cpu": PROFILE, "memory": [GIB] * 24} if profile else {}
    snapshot = msgspec.structs.replace(
        a_snapshot(a_pod()),
        **{
            "nodes": {
                "node-a": a_node_utilization(cpu=2.0, system=system, pods={"uid-web-1": USED}),
                "node-b": a_node_utilization("node-b", cpu=0.5, system=system),
            },
            "workloads": {a_workload(): a_workload_utilization(profile=days)},
            "cycles": (),
        }
        | fields,
    )
    return ClusterBuilder(snapshot, evaluation_settings()).cluster()


def cores(cluster: ClusterView, node: str) -> list[float]:
    """Of each hour."""
    assert cluster.days is not None
    found: list[float] = cluster.days.of_nodes([node])[0, 0].tolist()
    return found


def test_the_forecast_of_a_node_is_the_sum_of_its_pods() -> None:
    """And of its usage outside them. A pod without a profile is constant."""
    known, constant = forecast(), forecast(profile=False)

    assert cores(known, "node-a") == pytest.approx([0.5 + each for each in PROFILE])
    assert cores(known, "node-b") == pytest.approx([0.5] * 24)
    assert cores(constant, "node-a") == pytest.approx([2.0] * 24)


def test_a_pod_with_a_pending_move_counts_on_its_target() -> None:
    """No longer on the node that it leaves."""
    move = TrackedMove(
        id="one", namespace="shop", pod="web-1", pod_uid="uid-web-1", node="node-a", target="node-b",
        workload=a_workload(), expected_reduction=USED, until=NOW + 9,
    )  # fmt: skip
    cluster = forecast(pending={"one": move})

    assert cores(cluster, "node-a") == pytest.approx([0.5] * 24)
    assert cores(cluster, "node-b") == pytest.approx([0.5 + each for each in PROFILE])


@pytest.mark.parametrize("profile", [True, False])
def test_a_pod_moved_in_a_dry_run_counts_on_its_target(profile: bool) -> None:
    """With the profile of its workload, otherwise with its current usage on the node on which it runs."""
    moves = dry_run_moves(an_intent(expected_reduction=Resources(cpu=9.0, memory=GIB)))
    cluster = forecast(profile=profile, pending=moves)

    assert cores(cluster, "node-a") == pytest.approx([0.5] * 24)
    assert cores(cluster, "node-b") == pytest.approx([0.5 + each for each in (PROFILE if profile else [1.5] * 24)])


def test_a_node_without_utilization_has_no_forecast() -> None:
    """Unknown, not idle."""
    assert np.isnan(cores(forecast(nodes={}), "node-a")).all()
