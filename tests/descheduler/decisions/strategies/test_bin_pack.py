"""Sparse nodes are emptied to the fullest nodes that stay below their thresholds."""

from typing import Any

import msgspec
import pytest
from builders import a_workload
from descheduler.cluster_states import (
    UNLIMITED,
    a_cluster,
    a_loaded_node,
    a_node,
    a_pod,
    changed_node,
    changed_pod,
    names,
    pod_info,
)

from equipoise.contracts.configuration.moves import LEVELS
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.evaluation.pipeline import classify
from equipoise.descheduler.decisions.planning.pools import Selector
from equipoise.descheduler.decisions.strategies import name_of
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.abnormal_counts import abnormal_nodes, counted

STRATEGY = BinPack()


def sparse(name: str, pods: int = 2, **fields: Any) -> ClusterNode:
    return a_node(name, [a_pod(f"{name}-{i}", cpu=0.5) for i in range(pods)], **fields)


def moves(cluster: ClusterView, strategy: BinPack = STRATEGY) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in strategy.plan(cluster, names(cluster)).moves]


def why(cluster: ClusterView, strategy: BinPack = STRATEGY) -> str:
    plan = strategy.plan(cluster, names(cluster))
    return "; ".join([plan.why, *(f"{entry.pod} {entry.why}" for entry in plan.refused)])


def test_it_is_off_by_default() -> None:
    """It is enabled in the configuration."""
    chosen = [strategy for level in (None, *LEVELS) for strategy in DeschedulerSettings().chosen_strategies(level)]
    assert "bin_pack" not in map(name_of, chosen)


def test_the_emptiest_node_moves_to_the_fullest() -> None:
    """Every pod moves to the node that is fullest with it and ten points below its threshold."""
    cluster = a_cluster(
        sparse("empty"), sparse("emptier", pods=1), a_loaded_node("warm", 0.4), a_loaded_node("full", 0.53)
    )

    plan = STRATEGY.plan(cluster, names(cluster))

    assert moves(cluster) == [("emptier-0", "warm"), ("empty-0", "warm"), ("empty-1", "warm")]
    assert plan.moves[0].reason == (
        "node is sparse: cpu 5.0% used and 1.0% requested, not above 20%; "
        "memory 1.6% used and 0.2% requested, not above 20%"
    )
    assert moves(a_cluster(sparse("empty", pods=1), a_loaded_node("warm", 0.4), a_loaded_node("full", 0.5))) == [
        ("empty-0", "full")
    ]


def test_a_sparse_node_has_little_usage_and_few_requests() -> None:
    """An idle node with many requests is not sparse, nor a busy one without requests."""
    requested = sparse("requested")
    big = [pod_info(pod.name, {"cpu": 2.0}) for pod in requested.pods]
    requested = msgspec.structs.replace(requested, occupying=big)
    cluster = a_cluster(
        sparse("sparse"), requested, a_loaded_node("busy", 0.21), a_loaded_node("unknown", 0.1, unknown="outdated")
    )

    assert {entry.node: entry.state for entry in STRATEGY.classify(cluster)} == {
        "sparse": "sparse",
        "requested": "between",
        "busy": "between",
        "unknown": "unknown",
    }


def test_a_node_is_emptied_only_if_all_pods_have_a_target() -> None:
    """Otherwise none of its pods moves, and their reservations are removed."""
    stuck = a_pod("stuck", cpu=0.1)
    stuck = changed_pod(stuck, node_selector={"disk": "here"})
    half = a_node("half", [a_pod("loose", cpu=0.8), stuck])
    whole = a_node("whole", [a_pod("free", cpu=1.4)])

    cluster = a_cluster(half, whole, a_loaded_node("warm", 0.4))

    assert moves(cluster) == [("free", "warm")]
    assert "shop/stuck it cannot be emptied: no target: node(s) didn't match Pod's node affinity/selector" in why(
        cluster
    )


@pytest.mark.parametrize("fields", [{"protection": "it is alone"}, {"cpu": None}])
def test_a_node_with_a_pod_that_cannot_move_is_not_emptied(fields: dict[str, Any]) -> None:
    """A protected pod, or one that was not measured."""
    held = a_node("held", [a_pod("held-0", cpu=0.5), a_pod("held-1", **fields)], usage=sparse("x").usage)

    assert not moves(a_cluster(held, a_loaded_node("warm", 0.4)))


def test_daemons_do_not_keep_a_node_from_being_emptied() -> None:
    """They are removed with it."""
    pods = [a_pod("daemon", protection="pod of a DaemonSet", belongs_to_node=True), a_pod("web")]

    assert moves(a_cluster(a_node("empty", pods), a_loaded_node("warm", 0.4))) == [("web", "warm")]


def test_sparse_nodes_are_no_targets() -> None:
    """Otherwise pods would move from one empty node to the next."""
    assert not moves(a_cluster(sparse("a"), sparse("b")))


def test_targets_stay_below_their_thresholds() -> None:
    """So that they are not hot for low_node_load: neither as a whole nor by their production."""
    cluster = a_cluster(sparse("empty", pods=1), a_loaded_node("full", 0.52))

    assert not moves(cluster)
    assert moves(cluster, BinPack(headroom=5)) == [("empty-0", "full")]
    prod = Thresholds(
        high=ResourceThresholds(cpu=65), low=ResourceThresholds(cpu=45), prod_high=ResourceThresholds(cpu=60)
    )
    assert not moves(msgspec.structs.replace(cluster, thresholds=prod), BinPack(headroom=5))


def test_moves_beyond_the_limits_keep_their_reservations() -> None:
    """A later evaluation proposes them: no other node gets their capacity."""
    cluster = a_cluster(sparse("empty", pods=3), sparse("other", pods=3), a_loaded_node("warm", 0.25, pieces=25))

    def limited(**fields: int) -> list[str]:
        limits = msgspec.structs.replace(UNLIMITED, **fields)
        return [pod for pod, _ in moves(msgspec.structs.replace(cluster, limits=limits))]

    assert limited(per_node=2) == ["empty-0", "empty-1", "other-0", "other-1"]
    assert limited(per_evaluation=2) == ["empty-0", "empty-1"]
    full = a_cluster(sparse("empty", pods=3), sparse("other", pods=3), a_loaded_node("warm", 0.4))
    assert {pod.split("-")[0] for pod, _ in moves(full)} == {"empty"}
    same = [a_pod(f"p{i}", cpu=0.5, workload=a_workload()) for i in range(3)]
    crowd = a_cluster(
        a_node("empty", same), a_loaded_node("warm", 0.3), limits=msgspec.structs.replace(UNLIMITED, per_workload=1)
    )
    assert len(moves(crowd)) == 1


def test_only_selected_nodes_are_emptied_while_enough_are_sparse() -> None:
    """The others are neither emptied nor filled."""
    cluster = a_cluster(sparse("a"), sparse("b"), a_loaded_node("warm", 0.3))

    assert not moves(cluster, BinPack(node_selector=Selector(match_labels={"kubernetes.io/hostname": "a"})))
    assert not moves(cluster, BinPack(number_of_nodes=2))
    assert moves(cluster, BinPack(number_of_nodes=1))


def test_a_node_that_is_being_emptied_comes_first() -> None:
    """Only empty nodes can be removed."""
    cluster = a_cluster(sparse("started", pods=3, leaving=1), sparse("fresh", pods=1), a_loaded_node("warm", 0.3))

    assert [pod.split("-")[0] for pod, _ in moves(cluster)] == ["started", "started", "started", "fresh"]


def test_a_node_that_is_being_deleted_is_not_emptied() -> None:
    """It is drained by whoever deletes it."""
    assert "node is being deleted" in why(
        a_cluster(sparse("a", source_refusal="node is being deleted"), a_loaded_node("warm", 0.3))
    )


def test_a_node_must_be_sparse_for_long_enough() -> None:
    """Sparse evaluations count like hot ones."""
    cluster = a_cluster(sparse("a"), a_loaded_node("warm", 0.3))
    counts = counted({}, classify(STRATEGY, cluster), now=cluster.now, interval=120)

    assert abnormal_nodes(counts, 1) == {"a"}
    assert STRATEGY.plan(cluster, set()).why == "no node has been sparse for long enough"


def test_one_threshold_is_needed() -> None:
    """Otherwise every node would be sparse."""
    with pytest.raises(ValueError, match="thresholds must have one resource"):
        BinPack(thresholds=ResourceThresholds())


def test_a_node_without_unrequested_resources_is_no_target() -> None:
    """However idle it is."""
    warm = changed_node(a_loaded_node("warm", 0.3), allocatable={"cpu": 0.05})

    assert not moves(a_cluster(sparse("a"), warm))
