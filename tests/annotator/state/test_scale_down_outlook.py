"""What nodes are expected to use after a scale-down."""

from typing import Any

import pytest
from builders import GIB, a_node_utilization, a_workload, a_workload_utilization

from equipoise.annotator.decisions.deletion_order import NodeOutlook
from equipoise.annotator.decisions.scale_down import ScaleDown
from equipoise.annotator.state.scale_down_outlook import PlacedPods, PodOfWorkload, PodsOfNode, node_outlook
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization

WEB, DATABASE = a_workload("web"), a_workload("database", kind="StatefulSet")
LOGS = a_workload("logs", kind="DaemonSet")
EVENING = ScaleDown(hour=20, pods=1, hours=2)
"""From 20 to 22 o'clock."""


def a_pod(name: str, workload: Workload | None = WEB, **fields: Any) -> PodOfWorkload:
    defaults: dict[str, Any] = {"uid": f"uid-{name}", "namespace": "shop", "name": name, "placed_at": 0.0}
    return PodOfWorkload(workload=workload, **(defaults | fields))


def a_node(*pods: PodOfWorkload, name: str = "node-a", sequence: int = 1, **fields: Any) -> PodsOfNode:
    return PodsOfNode(node=name, uid=f"uid-{name}", pods=list(pods), epoch=1, sequence=sequence, **fields)


def a_profile(workload: Workload, **cores: float) -> WorkloadUtilization:
    """The cores of one pod in some hours, such as h20=2.0; one core in all others."""
    day: list[float | None] = [cores.get(f"h{hour}", 1.0) for hour in range(24)]
    return a_workload_utilization(workload, profile={"cpu": day, "memory": [GIB] * 24})


def outlook(
    node: PodsOfNode,
    *profiles: WorkloadUtilization,
    utilization: NodeUtilization | None = None,
    pods: tuple[str, ...] = ("web-1",),
) -> NodeOutlook:
    known = {profile.workload: profile for profile in profiles}
    return node_outlook(node, pods, WEB, utilization, "5m", known, EVENING)


def test_a_node_is_as_hot_as_its_usage_now_and_the_changes_of_its_pods() -> None:
    """Of ten cores, five are used at 19 o'clock. The database then uses one, and three and two in the next hours."""
    found = outlook(
        a_node(a_pod("web-1"), a_pod("database-0", DATABASE)),
        a_profile(WEB, h20=0.5),
        a_profile(DATABASE, h20=3.0, h21=2.0),
        utilization=a_node_utilization(cpu=5.0, memory=32 * GIB),
    )
    assert found.loads == pytest.approx([0.65, 0.6, 0.5, 0.5])
    assert found.relief == pytest.approx([0.05, 0.1, 1 / 64, 1 / 64])


def test_pods_without_a_profile_use_what_they_use_now() -> None:
    """So does the system. Terminating pods do not change."""
    found = outlook(
        a_node(a_pod("web-1"), a_pod("database-0", DATABASE), a_pod("bare", None), a_pod("web-2", terminating=True)),
        utilization=a_node_utilization(cpu=5.0, memory=None),
    )
    assert found.loads == [0.5, 0.5]
    assert found.relief == [0.0, 0.0]


def test_a_node_of_unknown_usage_has_no_loads() -> None:
    """Without a message, or without the window."""
    node = a_node(a_pod("web-1"))
    assert outlook(node, a_profile(WEB)).loads == []
    assert outlook(node, a_profile(WEB), utilization=a_node_utilization(cpu=None, memory=None)).loads == []
    assert outlook(node, a_profile(WEB), utilization=a_node_utilization(windows={})).loads == []


def test_pods_of_daemon_sets_do_not_keep_a_node() -> None:
    """Pods of the workload that must not go do."""
    node = a_node(a_pod("web-1"), a_pod("web-2"), a_pod("logs-1", LOGS), a_pod("database-0", DATABASE))
    found = outlook(node)

    assert (found.kept, found.other_pods) == (1, 2)


def test_a_detached_pod_is_neither_chosen_nor_kept_by_a_scale_down() -> None:
    """No controller has it, so none deletes it. It uses as much as any other pod of its workload."""
    placed, node = PlacedPods(), a_node(a_pod("web-1"), a_pod("web-2", detached=True))
    placed.on_placement(node, 0.0)
    found = outlook(node, a_profile(WEB, h20=0.5), utilization=a_node_utilization(cpu=5.0, memory=32 * GIB))

    assert [pod.name for pod in placed.pods_of([WEB])[WEB]["node-a"]] == ["web-1"]
    assert (found.kept, found.loads[0]) == (0, pytest.approx(0.4))


def test_pods_are_found_by_node_and_the_youngest_is_first() -> None:
    """Terminating ones, and those of other workloads, are left out."""
    placed = PlacedPods()
    pods = [a_pod("web-1"), a_pod("web-2", placed_at=5.0), a_pod("web-3", terminating=True), a_pod("logs-1", LOGS)]
    assert placed.on_placement(a_node(*pods), 0.0)
    found = placed.pods_of([WEB, DATABASE])

    assert [pod.name for pod in found[WEB]["node-a"]] == ["web-2", "web-1"]
    assert found[DATABASE] == {}


def test_an_older_placement_is_dropped_and_a_removed_node_is_forgotten() -> None:
    placed = PlacedPods()
    placed.on_placement(a_node(a_pod("web-1"), sequence=2), 0.0)
    assert not placed.on_placement(a_node(sequence=1), 0.0)
    assert placed.nodes["node-a"].pods
    assert placed.on_placement(a_node(sequence=3, removed=True), 0.0)
    assert placed.nodes == {}
