"""The cluster as the bus reports it."""

import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement, a_workload

from equipoise.binder.state.cluster_state import ClusterState
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.placement import GonePod
from equipoise.contracts.messages.utilization import UtilizationCycle


@pytest.mark.parametrize("since", range(5, 400, 5))
def test_a_replacement_does_not_look_like_scaling(since: int) -> None:
    """So long after an eviction: the old pod took 30 s to terminate, its replacement was there after one."""
    cluster, evicted_at = ClusterState(LoadSettings()), NOW - since
    pods = [a_placed_pod(f"web-{number}") for number in range(1, 10)]
    pods.append(a_placed_pod("new", placed_at=evicted_at + 1, running_since=evicted_at + 2))
    gone = GonePod(
        uid="old",
        namespace="shop",
        name="old",
        workload=a_workload(),
        running_since=NOW - 90_000,
        gone_at=evicted_at + 30,
    )
    cluster.on_placement(a_placement("node-b", pods, gone=[gone]), NOW)
    least, most = cluster.pods_before(a_workload(), NOW, 300)
    assert least <= cluster.pods_of(a_workload()) <= most


def test_pods_that_were_placed_while_a_clock_was_ahead_are_not_new() -> None:
    """Otherwise their workload would count as scaled recently until then."""
    cluster = ClusterState(LoadSettings())
    pods = [a_placed_pod(f"web-{number}", placed_at=NOW + 31_536_000) for number in range(3)]
    cluster.on_placement(a_placement("node-b", pods), NOW)
    assert cluster.pods_before(a_workload(), NOW, 300) == (3, 3)


def test_utilization_that_arrives_after_the_removal_of_its_node_is_dropped() -> None:
    """It is kept as long as it could be that of a new node, whose placement comes later."""
    cluster = ClusterState(LoadSettings())
    cluster.on_placement(a_placement("node-a"), NOW)
    cluster.on_placement(a_placement("node-a", removed=True, sequence=2), NOW)
    cluster.on_utilization(a_node_utilization("node-a"), NOW)
    cluster.on_cycle(
        UtilizationCycle(shard="all", cycle=1, expected=2, fresh=2, queried_at=NOW + 121, epoch=1, sequence=1),
        NOW + 121,
    )
    cluster.on_utilization(a_node_utilization("node-b", queried_at=NOW + 60), NOW)
    cluster.on_cycle(
        UtilizationCycle(shard="all", cycle=2, expected=2, fresh=2, queried_at=NOW + 180, epoch=1, sequence=2),
        NOW + 180,
    )
    for name in ("node-a", "node-b"):
        cluster.on_placement(a_placement(name, sequence=3), NOW)
    assert {node.placement.node for node in cluster.nodes.values() if node.utilization is not None} == {"node-b"}


def test_a_load_is_known_while_its_sample_is_fresh_and_of_the_present_node() -> None:
    cluster = ClusterState(LoadSettings())
    cluster.on_utilization(a_node_utilization("node-a"), NOW)
    assert cluster.known_loads(NOW) == 0

    cluster.on_placement(a_placement("node-a"), NOW)
    assert cluster.known_loads(NOW) == 1
    assert cluster.known_loads(NOW + 200) == 0

    cluster.on_placement(a_placement("node-a", uid="new", sequence=2), NOW)
    assert cluster.known_loads(NOW) == 0

    cluster.on_utilization(a_node_utilization("node-a", uid="new", queried_at=NOW + 1, sequence=2), NOW)
    assert cluster.known_loads(NOW) == 1

    cluster.on_placement(a_placement("node-a", uid="new", removed=True, sequence=3), NOW)
    assert cluster.known_loads(NOW) == 0


def test_the_counts_are_those_of_the_latest_placements() -> None:
    cluster = ClusterState(LoadSettings())
    cluster.on_placement(a_placement("node-a", [a_placed_pod("web-1"), a_placed_pod("web-2")]), NOW)
    cluster.on_placement(a_placement("node-b", [a_placed_pod("web-3")]), NOW)
    cluster.on_placement(a_placement("node-a", [a_placed_pod("web-1")], ready=False, sequence=2), NOW)
    assert (cluster.pods_of(a_workload()), cluster.pod_count, cluster.ready) == (2, 2, (1, 2))

    cluster.on_placement(a_placement("node-b", removed=True, sequence=3), NOW)
    assert (cluster.pods_of(a_workload()), cluster.pod_count, cluster.ready) == (1, 1, (0, 1))
