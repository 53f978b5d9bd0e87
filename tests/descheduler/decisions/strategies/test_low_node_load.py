"""Pods move from hot nodes to nodes that can hold them."""

from functools import partial
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload
from descheduler.cluster_states import (
    UNLIMITED,
    WINDOWS,
    a_batch_pod,
    a_cluster,
    a_loaded_node,
    a_node,
    a_pod,
    a_skewed_cluster,
    changed_node,
    changed_pod,
    moved,
    names,
    node_fit,
    offering,
    pod_info,
    spread,
)

from equipoise.contracts.configuration.settings import Namespaces, ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.objects.pod import Affinity, PodAffinity, PodAffinityTerm
from equipoise.contracts.load.pod_priority import QOS_LABEL
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, IntentLimits
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.evaluation.pipeline import classify
from equipoise.descheduler.decisions.planning.classification import excess_text
from equipoise.descheduler.decisions.planning.pod_order import in_order
from equipoise.descheduler.decisions.planning.pools import (
    ComparisonWeights,
    NodePool,
    PodSelector,
    Requirement,
    Selector,
)
from equipoise.descheduler.decisions.planning.thresholds import Deviation
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.abnormal_counts import AbnormalCounts, abnormal_nodes, counted

STRATEGY = LowNodeLoad()


def states(cluster: ClusterView, strategy: LowNodeLoad = STRATEGY) -> dict[str, str]:
    return {each.node: each.state for each in strategy.classify(cluster)}


def moves(cluster: ClusterView, strategy: LowNodeLoad = STRATEGY) -> list[tuple[str, str]]:
    """(pod, target) of the plan if every node is abnormal."""
    return [(move.pod.name, move.target) for move in strategy.plan(cluster, names(cluster)).moves]


def refusals(cluster: ClusterView, strategy: LowNodeLoad = STRATEGY) -> str:
    return "; ".join(f"{entry.pod} {entry.why}" for entry in strategy.plan(cluster, names(cluster)).refused)


# Classification


def test_hot_is_above_any_high_threshold_and_idle_below_every_low_one() -> None:
    """All other nodes are between."""
    cluster = a_cluster(
        a_loaded_node("hot", 0.66),
        a_loaded_node("at-high", 0.65),
        a_loaded_node("full-memory", 0.2, memory=0.85),
        a_loaded_node("idle", 0.45, memory=0.6),
        a_loaded_node("memory-between", 0.2, memory=0.61),
    )

    assert states(cluster) == {
        "hot": "hot",
        "at-high": "between",
        "full-memory": "hot",
        "idle": "idle",
        "memory-between": "between",
    }


def test_a_node_without_data_is_unknown() -> None:
    """Also without one of the resources, unless another is hot."""
    outdated = a_loaded_node("outdated", 0.9, unknown="its newest sample is 200.0 s old")
    half = a_loaded_node("half", 0.3, usage={"5m": Resources(cpu=3.0)})
    half_hot = a_loaded_node("half-hot", 0.9, usage={"5m": Resources(cpu=9.0)})

    assert states(a_cluster(outdated, half, half_hot)) == {"outdated": "unknown", "half": "unknown", "half-hot": "hot"}


def test_every_window_counts() -> None:
    """With two windows a node is hot (idle) if it is so over both."""
    strategy = LowNodeLoad(windows=("5m", "15m"))
    usage = {"5m": Resources(cpu=9.0, memory=GIB), "15m": Resources(cpu=3.0, memory=GIB)}

    burst = a_node("burst", usage=usage)

    assert states(a_cluster(burst), strategy) == {"burst": "between"}
    assert states(a_cluster(burst)) == {"burst": "hot"}


def test_deviation_fills_an_empty_node_next_to_many_warm_ones() -> None:
    """Nodes below the threshold become sources as far as idle nodes need their pods."""
    warm = [a_loaded_node(f"warm-{i}", 0.48) for i in range(9)]
    cluster = a_cluster(*warm, a_loaded_node("empty", 0.02))
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    assert moves(cluster, strategy)
    assert not moves(a_cluster(*warm, a_loaded_node("near", 0.40)), strategy)


def test_a_lowered_threshold_moves_small_pods_only_to_idle_nodes() -> None:
    """To other nodes a pod moves only if it reduces the load by the margin."""
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    def cluster_of(piece: float, room: float) -> ClusterView:
        """The threshold of 53 % is lowered to 46 % for the empty node. `piece`: cores per pod, of 5 cores."""
        warm = [a_loaded_node(f"warm-{i}", 0.50, pieces=round(5.0 / piece)) for i in range(8)]
        return beside_an_empty_node(*warm, room=room)

    assert {target for _, target in moves(cluster_of(piece=0.125, room=10.0), strategy)} == {"empty"}
    assert not moves(cluster_of(piece=0.125, room=0.01), strategy)
    assert "it is not idle, and the reduction would be too small (1 node)" in refusals(
        cluster_of(0.125, 0.01), strategy
    )
    assert {target for _, target in moves(cluster_of(piece=0.25, room=0.01), strategy)} == {"cool"}
    assert not moves(cluster_of(piece=1.0, room=0.01), strategy)  # 0.50 to 0.40, and 0.385 to 0.435


def beside_an_empty_node(*warm: ClusterNode, room: float, per_node: int = 1) -> ClusterView:
    """A cluster with a cool node of 20 cores, and an empty one where this many cores may be requested."""
    cool = a_loaded_node("cool", 0.77, base=Resources(cpu=20.0, memory=64 * GIB))
    limits = IntentLimits(per_evaluation=8, per_node=per_node, per_workload=1)
    return a_cluster(*warm, cool, changed_node(a_loaded_node("empty", 0.05), allocatable={"cpu": room}), limits=limits)


def test_a_node_above_the_original_threshold_moves_pods_to_any_node() -> None:
    """Until it is the margin below it, pending moves included."""
    warm = [a_loaded_node(f"warm-{i}", 0.46) for i in range(7)]
    hot = a_loaded_node("hot", 0.50, pieces=50)  # the original threshold is 49.55 %
    lowered = beside_an_empty_node(hot, *warm, room=0.01, per_node=8)
    leaving = a_loaded_node("hot", 0.66, pieces=66, coming=Resources(cpu=-0.1, memory=0.0))

    assert len(LowNodeLoad(deviation=Deviation()).plan(lowered, {"hot"}).moves) == 3
    assert len(moves(a_cluster(leaving, a_loaded_node("cool", 0.46)), LowNodeLoad(number_of_nodes=-1))) == 2


def test_deviation_fills_a_node_that_is_not_idle_while_the_source_stays_hotter() -> None:
    """Otherwise a very hot node could only move its smallest pods once no node is idle."""
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    def cluster_of(memory: float) -> ClusterView:
        """Up to 46 % any pod may come; each is 20 points of its node, and 10 of a target, which is at 40 %."""
        big = Resources(cpu=20.0, memory=64 * GIB)
        cool = [a_loaded_node(f"cool-{i}", 0.8, memory, base=big) for i in range(9)]
        return a_cluster(a_loaded_node("hot", 1.0, pieces=5, memory=0.3), *cool)

    assert len(moves(cluster_of(0.2), strategy)) == 2  # 1.0, 0.8, 0.6: a third would move from 0.4 to 0.5
    assert not moves(cluster_of(0.65), strategy)  # to 0.71, with a limit of 70 % for memory
    assert not moves(cluster_of(0.2), msgspec.structs.replace(strategy, target_threshold=0))


def test_deviation_does_not_swap_hot_and_idle() -> None:
    """A move that makes the target hotter than its source was is useless, though no threshold forbids it."""
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    def cluster_of(big: float) -> ClusterView:
        warm = [a_node(f"warm-{i}", [a_pod(f"big-{i}", cpu=big), a_pod(f"other-{i}", cpu=4.8 - big)]) for i in range(9)]
        fixed = [msgspec.structs.replace(node, pods=node.pods[:1]) for node in warm]
        return a_cluster(*fixed, a_loaded_node("empty", 0.10))

    assert moves(cluster_of(3.6), strategy)
    assert not moves(cluster_of(4.0), strategy)
    assert "the target would become hotter than the source is (1 node)" in refusals(cluster_of(4.0), strategy)


def test_deviation_does_nothing_below_its_floor() -> None:
    """No node below it is hot."""
    cluster = a_cluster(a_loaded_node("a", 0.4), a_loaded_node("b", 0.01))

    assert not moves(cluster, LowNodeLoad(deviation=Deviation(floor=45)))
    assert moves(cluster, LowNodeLoad(deviation=Deviation(floor=5)))


# Thresholds: every kind


def marked(*nodes: ClusterNode, **fields: Any) -> ClusterView:
    """A cluster with these thresholds and no others."""
    return a_cluster(
        *nodes, thresholds=Thresholds(**({"high": ResourceThresholds(), "low": ResourceThresholds()} | fields))
    )


def test_a_threshold_may_be_given_for_one_resource_alone() -> None:
    """High without low, low without high, one resource of two.

    Koordinator overwrites a high threshold without a low one, and treats every node with only a low one as hot.
    """
    busy, full = a_loaded_node("busy", 0.7, memory=0.1), a_loaded_node("full", 0.1, memory=0.95)

    assert states(marked(busy, full, high=ResourceThresholds(cpu=65))) == {"busy": "hot", "full": "idle"}
    assert states(marked(busy, full, low=ResourceThresholds(cpu=45))) == {"busy": "between", "full": "idle"}
    assert states(marked(busy, full, high=ResourceThresholds(memory=90), low=ResourceThresholds(cpu=45))) == {
        "busy": "between",
        "full": "hot",
    }
    assert moves(marked(busy, full, high=ResourceThresholds(cpu=65)))[0] == ("busy-0", "full")


def test_a_resource_without_a_threshold_may_be_unknown() -> None:
    """The node is classified by the others."""
    node = a_loaded_node("a", 0.7, usage={"5m": Resources(cpu=7.0)})

    assert states(marked(node, high=ResourceThresholds(cpu=65))) == {"a": "hot"}
    assert states(marked(node, high=ResourceThresholds(cpu=75))) == {"a": "idle"}
    assert states(marked(node, high=ResourceThresholds(cpu=75, memory=80))) == {"a": "unknown"}


def test_the_number_of_pods_may_have_a_threshold() -> None:
    """As a share of what the node allows. Pods that leave do not count, expected ones do."""
    pods = [a_pod(f"p{i}", cpu=0.01) for i in range(12)]
    full = changed_node(a_node("full", pods), allocatable={"pods": 20.0})
    cluster = marked(
        full,
        a_loaded_node("idle", 0.1),
        high=ResourceThresholds(cpu=65, pods=50),
        low=ResourceThresholds(cpu=45, pods=30),
    )

    plan = LowNodeLoad(margin=0).plan(cluster, names(cluster))

    assert states(cluster) == {"full": "hot", "idle": "idle"}
    assert len(plan.moves) == 2
    assert plan.moves[0].reason == "node is hot: pods 60.0% is above 50%"
    leaving = msgspec.structs.replace(full, going=["a", "b"])
    assert states(marked(leaving, high=ResourceThresholds(pods=50)))["full"] == "idle"


def test_production_may_have_thresholds() -> None:
    """Only production pods leave a node that is hot by production, to a node with little production."""
    batch = [a_pod(f"batch-{i}", cpu=1.0, priority=5_500) for i in range(2)]
    web = [a_pod(f"web-{i}", cpu=1.0) for i in range(4)]
    crowded = a_node("crowded", [*batch, *web])
    productive = a_node("productive", [a_pod(f"other-{i}", cpu=1.0) for i in range(3)])
    cool = a_node("cool", [a_pod(f"b-{i}", cpu=1.0, priority=5_500) for i in range(3)])
    cluster = marked(
        crowded,
        productive,
        cool,
        high=ResourceThresholds(cpu=80),
        low=ResourceThresholds(cpu=50),
        prod_high=ResourceThresholds(cpu=35),
        prod_low=ResourceThresholds(cpu=20),
    )

    plan = LowNodeLoad(margin=0).plan(cluster, names(cluster))

    assert states(cluster) == {"crowded": "hot", "productive": "idle", "cool": "idle"}
    assert [(move.pod.name[:3], move.target) for move in plan.moves] == [("web", "cool")]
    assert plan.moves[0].reason == "node is hot: cpu of production pods 40.0% is above 35%"


def test_a_node_is_not_filled_beyond_target_threshold_because_of_production() -> None:
    """With a deviation a node may be filled further if the source stays hotter: by its whole load, not by a part."""
    productive = a_loaded_node("productive", 0.60)
    batch = a_node("batch", [a_pod(f"batch-{i}", cpu=0.59, priority=5_500) for i in range(10)])
    spread = Deviation(
        high=ResourceThresholds(cpu=30),
        low=ResourceThresholds(cpu=30),
        prod_high=ResourceThresholds(cpu=10),
        prod_low=ResourceThresholds(cpu=10),
    )
    strategy = LowNodeLoad(deviation=spread, number_of_nodes=-1)

    assert states(a_cluster(productive, batch), strategy)["productive"] == "hot"
    assert not moves(a_cluster(productive, batch), strategy)
    assert moves(a_cluster(productive, batch), msgspec.structs.replace(strategy, target_threshold=100))


def test_a_high_threshold_of_production_makes_no_node_idle() -> None:
    """Nothing moves in a cluster that is busy as a whole, with it or without it."""
    busy = [a_loaded_node("hot", 0.9), a_loaded_node("warm", 0.5)]
    thresholds = {"high": ResourceThresholds(cpu=65), "low": ResourceThresholds(cpu=45)}

    for cluster in (marked(*busy, **thresholds), marked(*busy, **thresholds, prod_high=ResourceThresholds(cpu=64))):
        assert not moves(cluster, LowNodeLoad(target_threshold=100))
        assert "0 idle nodes, more than 0 are needed (numberOfNodes)" in refusals(cluster)


def test_a_node_of_unknown_production_is_no_target_for_production() -> None:
    """It may take other pods."""
    unmeasured = a_node("cool", [a_pod("new", cpu=None)], usage=dict.fromkeys(WINDOWS, Resources(cpu=1.0, memory=GIB)))

    def targets(**pod: Any) -> list[tuple[str, str]]:
        hot = a_node("hot", [a_pod(f"p{i}", cpu=1.0, **pod) for i in range(8)])
        return moves(
            marked(
                hot,
                unmeasured,
                high=ResourceThresholds(cpu=75),
                low=ResourceThresholds(cpu=50),
                prod_high=ResourceThresholds(cpu=70),
            )
        )

    assert targets() == []
    assert [target for _, target in targets(priority=5_500)] == ["cool"]


def test_a_pool_may_have_thresholds() -> None:
    """A node belongs to the first pool that selects it, inherits the other settings, and pods stay in the pool."""

    def labelled(node: ClusterNode, **labels: str) -> ClusterNode:
        return changed_node(node, labels=labels)

    gpu = NodePool(name="gpu", node_selector=Selector(match_labels={"pool": "gpu"}), high=ResourceThresholds(cpu=50))
    every = NodePool(
        name="labelled",
        node_selector=Selector(match_expressions=(Requirement(key="pool", operator="Exists"),)),
        deviation=Deviation(high=ResourceThresholds(cpu=5), low=ResourceThresholds(cpu=5)),
    )
    strategy = LowNodeLoad(pools=(gpu, every))
    cluster = a_cluster(
        labelled(a_loaded_node("gpu-warm", 0.55), pool="gpu"),
        labelled(a_loaded_node("gpu-full", 0.1, memory=0.9), pool="gpu"),
        labelled(a_loaded_node("blue-a", 0.30), pool="blue"),
        labelled(a_loaded_node("blue-b", 0.16), pool="blue"),
        a_loaded_node("plain", 0.55),
        a_loaded_node("free", 0.05),
    )

    assert states(cluster, strategy) == {
        "gpu-warm": "hot",
        "gpu-full": "between",  # its memory has no high threshold in this pool, but a low one
        "blue-a": "hot",
        "blue-b": "idle",
        "plain": "between",
        "free": "idle",
    }
    assert {target for _, target in moves(cluster, strategy)} == {"blue-b"}
    assert "0 idle nodes in pool gpu, more than 0 are needed (numberOfNodes)" in refusals(cluster, strategy)
    off = msgspec.structs.replace(every, deviation="off")
    levelled = LowNodeLoad(
        deviation=Deviation(high=ResourceThresholds(cpu=5), low=ResourceThresholds(cpu=5)), pools=(off,)
    )
    assert states(cluster, levelled)["blue-a"] == "idle"


def test_nodes_that_are_not_selected_are_ignored() -> None:
    """They are no source, no target, and not classified."""
    cluster = a_cluster(a_loaded_node("hot", 0.9), a_loaded_node("idle", 0.1))
    only_hot = LowNodeLoad(node_selector=Selector(match_labels={"kubernetes.io/hostname": "hot"}), number_of_nodes=-1)

    assert states(cluster, only_hot) == {"hot": "hot"}
    assert not moves(cluster, only_hot)
    assert "no node to move to" in refusals(cluster, only_hot)


def test_only_selected_pods_leave() -> None:
    """By namespace, included or excluded, and by any of the selectors."""
    web, job = a_pod("web", cpu=4.0), a_pod("job", cpu=4.0, namespace="batch")
    labels = {"app": "job"}
    job = changed_pod(job, labels=labels)
    cluster = a_cluster(a_node("hot", [web, job]), a_loaded_node("idle", 0.1))

    def leaving(**fields: Any) -> list[str]:
        return [pod for pod, _ in moves(cluster, LowNodeLoad(**fields))]

    assert leaving(namespaces=Namespaces(include=("batch",))) == ["job"]
    assert leaving(namespaces=Namespaces(exclude=("batch",))) == ["web"]
    chosen = PodSelector(name="jobs", selector=Selector(match_labels=labels))
    never = PodSelector(name="never", selector=Selector(match_labels={"app": "db"}))
    assert leaving(pod_selectors=(never, chosen)) == ["job"]
    assert leaving(pod_selectors=(never,)) == []
    assert "shop/web none of the strategy's podSelectors selects it" in refusals(
        cluster, LowNodeLoad(pod_selectors=(chosen,))
    )


def test_nothing_moves_without_enough_idle_nodes() -> None:
    """At least one by default, more than numberOfNodes if given."""
    warm = a_cluster(a_loaded_node("hot", 0.9), a_loaded_node("warm", 0.46))
    idle = a_cluster(a_loaded_node("hot", 0.9), a_loaded_node("a", 0.1), a_loaded_node("b", 0.1))

    assert not moves(warm)
    assert "0 idle nodes, more than 0 are needed (numberOfNodes)" in refusals(warm)
    assert moves(warm, LowNodeLoad(number_of_nodes=-1, target_threshold=100))
    assert moves(idle, LowNodeLoad(number_of_nodes=1))
    assert not moves(idle, LowNodeLoad(number_of_nodes=2))
    closed = a_loaded_node("b", 0.1, target_refusal="node is cordoned")
    assert not moves(a_cluster(idle.nodes[0], idle.nodes[1], closed), LowNodeLoad(number_of_nodes=1))


def test_the_order_of_nodes_is_configurable() -> None:
    """By weighted load; or by memory, then CPU, as in the ACK document."""
    one = IntentLimits(per_evaluation=1, per_node=5, per_workload=5)
    cluster = a_cluster(
        a_loaded_node("cpu", 0.95, memory=0.1), a_loaded_node("memory", 0.1, memory=0.9), a_loaded_node("idle", 0.05),
        limits=one,
    )  # fmt: skip

    def first(**fields: Any) -> str:
        return moves(cluster, LowNodeLoad(**fields))[0][0].split("-")[0]

    assert first() == "cpu"
    assert first(weights=ComparisonWeights(cpu=1, memory=3)) == "memory"
    assert first(node_order="memoryThenCpu") == "memory"


def test_a_burst_proposes_nothing() -> None:
    """Sixty seconds above the threshold are less than five evaluations, whatever the number of samples."""
    cool = a_loaded_node("idle", 0.1)
    counts: AbnormalCounts = {}
    for second in range(0, 1_200, 15):
        now = NOW + second
        load = 0.95 if 300 <= second < 360 else 0.5
        hot = a_loaded_node("bursting", load, sampled_at=dict.fromkeys(WINDOWS, now))
        cluster = msgspec.structs.replace(a_cluster(hot, cool), now=now)
        read = classify(STRATEGY, cluster)
        counts = counted(counts, read, now=now, interval=120)

        assert not STRATEGY.plan(cluster, abnormal_nodes(counts, 5)).moves


def test_a_refused_pod_reserves_nothing_on_a_target() -> None:
    """Koordinator keeps its reservation for a pod that it does not evict."""
    big = a_pod("big", cpu=4.0, info=pod_info("big", {"cpu": 20.0}))
    small = a_pod("small", cpu=3.0, priority=1)
    cluster = a_cluster(a_node("hot", [big, small]), a_loaded_node("idle", 0.3))

    assert moves(cluster) == [("small", "idle")]


# Which pods leave, and how many


def labelled_pod(name: str, label: str, value: str) -> MovablePod:
    pod = a_pod(name)
    return changed_pod(pod, labels={label: value})


def test_less_important_pods_leave_first() -> None:
    """Class, priority, QoS class, Koordinator's QoS, deletion cost, eviction cost, then usage, then age."""
    pods = [
        a_pod("batch", priority=5_500),
        labelled_pod("latency-sensitive", QOS_LABEL, "LS"),
        labelled_pod("exclusive", QOS_LABEL, "LSE"),
        a_pod("evictions-cost", eviction_cost=1),
        a_pod("important", priority=10),
        a_pod("guaranteed", qos="Guaranteed"),
        a_pod("costly", deletion_cost=5),
        a_pod("old", cpu=2.0),
        a_pod("young", cpu=2.0, created_at=NOW),
        a_pod("small", cpu=1.0),
        a_pod("best-effort", qos="BestEffort"),
    ]

    ordered = in_order(pods, base=Resources(cpu=10.0, memory=GIB), excess={"cpu": 0.5}, weights={"cpu": 1.0})

    expected = [
        "best-effort", "batch", "latency-sensitive", "exclusive", "young", "old", "small", "evictions-cost", "costly",
        "guaranteed", "important",
    ]  # fmt: skip
    assert [pod.name for pod in ordered] == expected


def test_the_hottest_node_is_relieved_first() -> None:
    """If the limits do not allow more."""
    cluster = a_cluster(
        a_loaded_node("hot", 0.7), a_loaded_node("hotter", 0.9), a_loaded_node("idle", 0.1),
        limits=IntentLimits(per_evaluation=1, per_node=5, per_workload=5),
    )  # fmt: skip

    assert [pod.split("-")[0] for pod, _ in moves(cluster)] == ["hotter"]


def test_a_node_is_relieved_until_it_is_below_its_threshold() -> None:
    """By the margin, with no more pods than that takes."""
    cluster = a_cluster(a_loaded_node("hot", 0.80, pieces=20), a_loaded_node("idle", 0.1))

    plan = STRATEGY.plan(cluster, names(cluster))

    assert len(plan.moves) == 5  # 0.80 − 5 × 0.04 = 0.60; with one less it is at 0.64, within 2 points of the threshold
    assert plan.moves[0].reason == "node is hot: cpu 80.0% is above 65%"
    assert plan.moves[0].sampled_at == NOW - 5


def test_only_abnormal_nodes_are_sources() -> None:
    """Without one there is no move, and a reason."""
    cluster = a_cluster(a_loaded_node("hot", 0.8), a_loaded_node("idle", 0.1))

    assert STRATEGY.plan(cluster, {"idle"}).why == "no node has been above its threshold for long enough"
    assert not STRATEGY.plan(cluster, {"idle"}).moves


def test_pending_moves_count() -> None:
    """They reduce the load of the source and add to that of the target before any metric shows it."""
    leaving = Resources(cpu=-2.0, memory=0.0)
    coming = Resources(cpu=5.0, memory=0.0)
    hot, idle = a_loaded_node("hot", 0.8), a_loaded_node("idle", 0.1)

    relieved = a_cluster(msgspec.structs.replace(hot, coming=leaving), idle)
    filled = a_cluster(hot, msgspec.structs.replace(idle, coming=coming))

    assert states(relieved)["hot"] == "hot"
    assert not moves(relieved)
    assert not moves(filled)


def test_the_number_of_proposals_is_limited() -> None:
    """Per node, per workload and per evaluation, pending ones included."""
    same = [a_pod(f"p{i}", cpu=1.0, workload=a_workload()) for i in range(9)]
    cluster = a_cluster(a_node("hot", same), a_loaded_node("idle", 0.1))
    spread_out = a_cluster(a_loaded_node("hot", 0.9), a_loaded_node("idle", 0.1))

    def limited(cluster: ClusterView, **fields: Any) -> int:
        limits = msgspec.structs.replace(UNLIMITED, **fields)
        return len(moves(msgspec.structs.replace(cluster, limits=limits)))

    assert limited(cluster, per_workload=1) == 1
    assert limited(msgspec.structs.replace(cluster, busy_workloads={a_workload(): 1}), per_workload=1) == 0
    assert limited(spread_out, per_node=2) == 2
    assert limited(spread_out, per_evaluation=1) == 1
    assert limited(msgspec.structs.replace(spread_out, in_flight=1), per_evaluation=1) == 0


def test_unmeasured_and_protected_pods_do_not_move() -> None:
    """The refusals give the reasons."""
    pods = [
        a_pod("unmeasured", cpu=None),
        *(a_pod(f"protected-{i}", cpu=3.0, protection="it is not ready") for i in range(3)),
    ]
    cluster = a_cluster(a_node("hot", pods), a_loaded_node("idle", 0.1))

    assert not moves(cluster)
    assert "shop/unmeasured its usage is not known" in refusals(cluster)
    assert "shop/protected-0 it is not ready" in refusals(cluster)


def test_a_move_must_reduce_the_load() -> None:
    """A pod whose load is below minLoadReduction does not move."""
    pods = [a_pod("big", cpu=8.0, protection="it is not ready"), a_pod("small", cpu=0.04)]
    cluster = a_cluster(a_node("hot", pods), a_loaded_node("idle", 0.1))

    assert not moves(cluster)
    assert moves(cluster, LowNodeLoad(min_load_reduction=0.1)) == [("small", "idle")]


def test_a_pod_larger_than_a_refused_one_is_refused_for_the_same_reason() -> None:
    """Thousands of targets are not checked again for it, as they are for smaller pods."""
    sizes = {"a-huge": 7.0, "b-bigger": 7.5, "c-fits": 3.4, "d-huge": 7.0}
    pods = [a_pod(name, cpu=cpu, priority=place) for place, (name, cpu) in enumerate(sizes.items())]
    cluster = a_cluster(a_node("hot", pods, base=Resources(cpu=26.0, memory=64 * GIB)), a_loaded_node("idle", 0.3))

    assert moves(cluster) == [("c-fits", "idle")]
    assert refusals(cluster).count("no target: cpu would be above the target's threshold (1 node)") >= 3


# Targets


def test_the_least_loaded_target_is_filled_first() -> None:
    """Each pod moves to the node with the lowest load including it."""
    cluster = a_cluster(a_loaded_node("hot", 0.88), a_loaded_node("cool", 0.3), a_loaded_node("cooler", 0.25))

    assert [target for _, target in moves(cluster)] == ["cooler", "cool", "cooler"]


def test_a_target_does_not_become_hot() -> None:
    """Neither in a resource in which the source is hot nor in any other."""
    heavy = a_node("hot", [a_pod("heavy", cpu=8.0)])
    greedy = a_node("hot", [a_pod("greedy", cpu=7.0, memory=50 * GIB)])

    assert not moves(a_cluster(heavy, a_loaded_node("idle", 0.1)))
    assert not moves(a_cluster(greedy, a_loaded_node("idle", 0.0, memory=0.3)))
    assert "cpu would be above the target's threshold (1 node)" in refusals(
        a_cluster(heavy, a_loaded_node("idle", 0.1))
    )


def test_nodes_that_are_not_idle_are_filled_up_to_target_threshold() -> None:
    """A share of the distance between their thresholds."""
    hot, cool = a_loaded_node("hot", 0.90), a_loaded_node("cool", 0.46)

    def moved_at(target_threshold: float) -> int:
        return len(moves(a_cluster(hot, cool), LowNodeLoad(target_threshold=target_threshold, number_of_nodes=-1)))

    assert [moved_at(percent) for percent in (45, 60, 100)] == [0, 1, 2]


def test_an_idle_node_is_not_filled_above_warmer_ones() -> None:
    """From their load on, these are targets too."""
    warm = [a_loaded_node(f"warm-{i}", 0.46) for i in range(3)]
    cluster = a_cluster(a_loaded_node("hot", 0.90, pieces=30), a_loaded_node("idle", 0.40), *warm)

    targets = [target for _, target in moves(cluster)]

    assert targets[0] == "idle"
    assert {"warm-0", "warm-1", "warm-2"} <= set(targets)


@pytest.mark.parametrize(
    "target",
    [
        a_loaded_node("target", 0.1, target_refusal="node is cordoned"),
        a_loaded_node("target", 0.1, unknown="the collector has published nothing about it"),
        a_loaded_node("target", 0.1, usage={"5m": Resources(cpu=1.0)}),
        changed_node(a_loaded_node("target", 0.1), allocatable={"cpu": 0.01}),
        changed_node(a_loaded_node("target", 0.1), taints=[Taint(key="x", effect="NoSchedule")]),
    ],
    ids=["cordoned", "unknown", "memory unknown", "no room", "tainted"],
)  # fmt: skip
def test_unsuitable_nodes_are_no_target(target: ClusterNode) -> None:
    """Cordoned, unknown, full or tainted."""
    assert not moves(a_cluster(a_loaded_node("hot", 0.9), target))


def test_a_planned_move_reserves_its_requests_on_the_target() -> None:
    """Two pods do not get the same capacity."""
    pods = [a_pod(f"p{i}", cpu=4.0) for i in range(2)]
    idle = changed_node(a_node("idle", base=Resources(cpu=100.0, memory=64 * GIB)), allocatable={"cpu": 0.15})
    cluster = a_cluster(a_node("hot", pods), idle)

    assert len(moves(cluster, LowNodeLoad(margin=60))) == 1


def test_a_planned_move_counts_for_anti_affinity_on_its_target() -> None:
    """Two pods that must not share a node are not planned for the same one."""
    term = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=LabelSelector(match_labels={"a": "b"}))

    def lone(name: str) -> ClusterNode:
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
        pod = changed_pod(a_pod(name, cpu=2.0), labels={"a": "b"}, affinity=affinity)
        other = a_pod(f"{name}-other", cpu=6.0, protection="it is protected")
        return a_node(f"hot-{name}", [pod, other])

    assert len(moves(a_cluster(lone("x"), lone("y"), a_loaded_node("idle", 0.1)))) == 1
    assert len(moves(a_cluster(lone("x"), lone("y"), a_loaded_node("idle", 0.1), a_loaded_node("free", 0.1)))) == 2


def test_pods_do_not_leave_a_node_that_is_being_deleted() -> None:
    """It is drained by whoever deletes it."""
    cluster = a_cluster(a_loaded_node("hot", 0.9, source_refusal="node is being deleted"), a_loaded_node("idle", 0.1))

    assert not moves(cluster)
    assert STRATEGY.plan(cluster, names(cluster)).why == "node is being deleted"


# Whole plans


@pytest.mark.parametrize("seed", range(6))
def test_an_uneven_cluster_becomes_even(seed: int) -> None:
    """Twenty uneven nodes come within 20 points of each other, with at most a fifth of the pods moved."""
    cluster = a_skewed_cluster(seed)
    cluster = msgspec.structs.replace(cluster, limits=IntentLimits(per_evaluation=20, per_node=2, per_workload=1))
    strategy = LowNodeLoad(deviation=Deviation())
    pods = sum(len(node.pods) for node in cluster.nodes)
    before, done = spread(cluster), 0

    for _ in range(100):
        plan = strategy.plan(cluster, names(cluster))
        if not plan.moves:
            break
        cluster, done = moved(cluster, plan.moves), done + len(plan.moves)

    assert before >= 50
    assert spread(cluster) <= 20
    assert done <= pods / 5
    assert not strategy.plan(cluster, names(cluster)).moves, "it never ends"


def test_the_shortest_window_is_the_default() -> None:
    """Unless the strategy has windows."""
    assert STRATEGY.windows_of(a_cluster()) == WINDOWS[:1]


# Batch work


def a_colocated_node(cores: float, batch_cores: float, name: str = "hot", **fields: Any) -> ClusterNode:
    """Ten ordinary pods and four of the band batch, which use this many cores together."""
    pods = [a_pod(f"{name}-{i}", cpu=cores / 10) for i in range(10)]
    batch = [a_batch_pod(f"{name}-batch-{i}", cpu=batch_cores / 4, **fields) for i in range(4)]
    return offering(a_node(name, [*pods, *batch]), cores=6.0)


def test_only_batch_work_leaves_a_node_that_is_hot_because_of_it() -> None:
    """40 % of ordinary pods and 40 % of batch work: the plan ends when the node is below its threshold."""
    cluster = a_cluster(a_colocated_node(4.0, 4.0), offering(a_loaded_node("idle", 0.1), cores=8.0))

    assert moves(cluster) == [("hot-batch-0", "idle"), ("hot-batch-1", "idle")]


def test_batch_work_moves_only_to_a_node_that_offers_its_band() -> None:
    """What no pod requests yet. Ordinary pods do not move in its place."""
    hot = a_colocated_node(4.0, 4.0)
    without = a_cluster(hot, a_loaded_node("idle", 0.1))
    too_little = a_cluster(hot, offering(a_loaded_node("idle", 0.1), cores=1.5))

    assert not moves(without)
    assert "Insufficient kubernetes.io/batch-cpu" in refusals(without)
    assert "it is not above its thresholds without its batch work" in refusals(without)
    assert moves(too_little) == [("hot-batch-0", "idle")]


def test_no_ordinary_pod_leaves_for_batch_work_that_may_not_move() -> None:
    """Pods of Jobs are protected: their cores are available to the others at once."""
    cluster = a_cluster(
        a_colocated_node(4.0, 4.0, protection="pods of Jobs do not move"),
        offering(a_loaded_node("idle", 0.1), cores=8.0),
    )

    assert not moves(cluster)


def test_batch_work_leaves_before_the_pods_that_make_the_node_hot() -> None:
    """Ordinary pods follow where the node is above its threshold without batch work: one of them, until 63 %."""
    cluster = a_cluster(a_colocated_node(7.0, 0.8), offering(a_loaded_node("idle", 0.1), cores=8.0))

    planned = [pod for pod, _ in moves(cluster)]

    assert planned == [f"hot-batch-{i}" for i in range(4)] + ["hot-0"]


def test_batch_work_that_waits_for_a_pod_of_its_workload_is_not_replaced_by_ordinary_pods() -> None:
    """One pod per workload at a time."""
    workload = a_workload(name="batch")
    limits = msgspec.structs.replace(UNLIMITED, per_workload=1)
    cluster = a_cluster(
        a_colocated_node(4.0, 4.0, workload=workload), offering(a_loaded_node("idle", 0.1), cores=8.0), limits=limits
    )

    assert moves(cluster) == [("hot-batch-0", "idle")]


def test_a_best_effort_pod_without_reclaimed_resources_is_no_batch_work() -> None:
    """It is in every cluster: plans without co-location are as they were."""
    pods = [a_pod(f"best-effort-{i}", cpu=0.5, qos="BestEffort") for i in range(8)]
    hot = a_node("hot", [*pods, a_pod("ordinary", cpu=4.0, protection="it is the last replica")])
    lone = a_node("hot", [*(msgspec.structs.replace(pod, protection="it may not move") for pod in pods),
                          a_pod("ordinary", cpu=4.0)])  # fmt: skip

    assert len(moves(a_cluster(hot, a_loaded_node("idle", 0.1)))) == 4
    assert moves(a_cluster(lone, a_loaded_node("idle", 0.1))) == [("ordinary", "idle")]


def reserved(name: str, cores: float) -> MovablePod:
    """A pod without usage that requests this much: its node is idle, but kube-scheduler has lower scores for it."""
    return a_pod(name, cpu=0.0, memory=0.0, info=pod_info(name, {"cpu": cores, "memory": 6 * cores * GIB}))


def test_without_scores_a_pod_moves_only_to_the_node_that_kube_scheduler_prefers() -> None:
    """The idlest node has many requests; without Equipoise's scores, the replacement would run on another node."""
    warm = a_node("warm", [a_pod("of-warm", cpu=2.0)])
    nodes = [a_loaded_node("hot", 0.9), a_node("idle", [reserved("r", 8.0)]), warm]

    scored = a_cluster(*nodes, fit=node_fit)
    alone = a_cluster(*nodes, fit=partial(node_fit, target_points=0))

    assert {target for _, target in moves(scored)} == {"idle"}
    assert {target for _, target in moves(alone)} == {"warm"}


def test_a_pod_stays_if_its_replacement_would_run_on_its_own_node() -> None:
    """The node that it leaves has the fewest requests."""
    nodes = [a_loaded_node("hot", 0.9), a_node("idle", [reserved("r", 8.0)])]
    alone = a_cluster(*nodes, fit=partial(node_fit, target_points=0))

    assert moves(alone) == []
    assert "kube-scheduler would prefer another node for the replacement (1 node)" in refusals(alone)


def test_the_reason_of_a_plan_without_moves_is_the_most_frequent_one() -> None:
    """The bare pod comes first, and most pods are of DaemonSets: neither reason is shown."""
    bare = a_pod("bare", protection="bare pod: nothing would replace it")
    of_node = [a_pod(f"agent-{i}", protection="pod of a DaemonSet", belongs_to_node=True) for i in range(9)]
    new = [a_pod(f"new-{i}", cpu=None, memory=None) for i in range(5)]
    usage = dict.fromkeys(WINDOWS, Resources(cpu=8.0, memory=8 * GIB))
    cluster = a_cluster(a_node("hot", [bare, *of_node, *new], usage=usage), a_loaded_node("idle", 0.1))

    assert STRATEGY.plan(cluster, {"hot"}).why == "its usage is not known"
    alone = a_cluster(a_node("hot", of_node, usage=usage), a_loaded_node("idle", 0.1))
    assert STRATEGY.plan(alone, {"hot"}).why == "pod of a DaemonSet"


def test_a_move_that_was_wanted_and_is_not_possible_explains_a_plan_before_protected_pods() -> None:
    """Although more pods are protected."""
    protected = [a_pod(f"bare-{i}", cpu=0.5, protection="bare pod: nothing would replace it") for i in range(5)]
    cluster = a_cluster(
        a_node(
            "hot", [*protected, a_pod("large", cpu=6.0)], usage=dict.fromkeys(WINDOWS, Resources(cpu=8.5, memory=GIB))
        ),
        a_loaded_node("idle", 0.4),
    )

    assert STRATEGY.plan(cluster, {"hot"}).why.startswith("no target: ")


def test_a_pod_that_may_be_moved_later_explains_a_plan_before_protected_pods() -> None:
    """Although more pods are protected."""
    protected = [a_pod(f"own-{i}", cpu=0.5, protection="it belongs to Equipoise itself") for i in range(5)]
    later = a_pod("web", cpu=6.0, protection="a pod of its workload was moved recently", postponed=True)
    cluster = a_cluster(a_node("hot", [*protected, later]), a_loaded_node("idle", 0.1))

    assert STRATEGY.plan(cluster, {"hot"}).why == "a pod of its workload was moved recently"


@pytest.mark.parametrize(
    ("load", "threshold", "expected"),
    [
        (0.6853, 0.5, "cpu 68.5% is above 50%"),
        (0.9, 0.666667, "cpu 90.0% is above 66.67%"),
        (0.6504, 0.65, "cpu 65.04% is above 65%"),
        (0.65000004, 0.65, "cpu 65.000004% is above 65%"),
        (1.255, 1.0, "cpu 125.5% is above 100%"),
    ],
)
def test_a_reason_has_as_many_digits_as_show_the_difference(load: float, threshold: float, expected: str) -> None:
    """One, unless the load would read as the threshold."""
    assert excess_text({"cpu": load}, {"cpu": threshold, "memory": 0.8}) == f"node is hot: {expected}"


@pytest.mark.parametrize(("expected", "moves"), [(3.0, 0), (2.0, 1), (0.0, 3)])
def test_no_pod_leaves_for_load_that_is_only_expected(expected: float, moves: int) -> None:
    """Of 90 %, with a threshold of 65 %. The node is no target either: the new pods may use what is expected."""
    hot = a_loaded_node("node-a", 0.9, expected=dict.fromkeys(WINDOWS, Resources(cpu=expected, memory=0.0)))
    cluster = a_cluster(hot, a_loaded_node("node-b", 0.1))
    strategy = LowNodeLoad()

    plan = strategy.plan(cluster, names(cluster))

    assert [each.state for each in strategy.classify(cluster)] == ["hot" if moves else "between", "idle"]
    assert len(plan.moves) == moves
    assert moves or "only by what is expected of pods that are not measured yet" in plan.why


def test_an_evaluation_does_not_count_for_a_node_that_is_above_its_threshold_only_by_what_is_expected() -> None:
    """It would lose pods at once in the first minutes in which it is really above."""
    expected = dict.fromkeys(WINDOWS, Resources(cpu=3.0, memory=0.0))
    cluster = a_cluster(a_loaded_node("node-a", 0.9, expected=expected), a_loaded_node("node-b", 0.1))
    classified = LowNodeLoad().classify(cluster)

    assert counted({}, classified, now=NOW, interval=120.0) == {}
    assert classified[0].why == "node is above its threshold only by what is expected of pods that are not measured yet"


def test_what_is_expected_changes_no_threshold_around_the_mean() -> None:
    """Neither the threshold above which a node is hot nor the one up to which another is filled."""
    strategy = LowNodeLoad(deviation=Deviation())
    even = [a_loaded_node(f"node-{number}", 0.4) for number in range(3)]
    filled = a_loaded_node(
        "node-3",
        0.4,
        usage=dict.fromkeys(WINDOWS, Resources(cpu=9.0, memory=12.8 * GIB)),
        expected=dict.fromkeys(WINDOWS, Resources(cpu=5.0, memory=0.0)),
    )

    assert strategy.ceilings(a_cluster(*even, filled))["node-0"].node["cpu"] == pytest.approx(0.48)


def test_a_target_is_not_filled_for_a_source_that_is_only_expected_to_be_hotter() -> None:
    """With a deviation, a target that is not idle is filled only while the source stays hotter, as measured."""
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=4), low=ResourceThresholds(cpu=30)))
    expected = dict.fromkeys(WINDOWS, Resources(cpu=3.0, memory=0.0))
    usage = dict.fromkeys(WINDOWS, Resources(cpu=8.6, memory=12.8 * GIB))
    hot = a_loaded_node("hot", 0.56, pieces=11, usage=usage, expected=expected)
    others = [a_loaded_node(f"node-{number}", 0.5) for number in range(20)]

    assert strategy.classify(a_cluster(hot, *others))[0].state == "hot"
    assert not strategy.plan(a_cluster(hot, *others), {"hot"}).moves


def test_a_node_of_unknown_production_is_not_compared_with_the_mean_of_the_others() -> None:
    """A production pod that is not measured would lower the mean with which the others on its node are compared."""
    production = Deviation(high=ResourceThresholds(), low=ResourceThresholds(), prod_high=ResourceThresholds(cpu=8))
    strategy = LowNodeLoad(deviation=production)
    others = [a_loaded_node(f"node-{number}", 0.4) for number in range(3)]
    pods = [a_pod(f"web-{number}", cpu=1.0) for number in range(5)]
    new = a_pod("new", cpu=None, memory=None)

    def state(*more: MovablePod) -> str:
        return strategy.classify(a_cluster(a_node("node-3", [*pods, *more]), *others))[0].state

    assert (state(), state(new)) == ("between", "between")
