"""Hot nodes give pods away, to nodes that can hold them."""

from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload
from descheduler.fleets import (
    UNLIMITED,
    WINDOWS,
    a_fleet,
    a_loaded_node,
    a_node,
    a_pod,
    a_skewed_fleet,
    moved,
    names,
    spread,
)

from equipoise.contracts.configuration.settings import Namespaces, ResourceThresholds, Thresholds
from equipoise.contracts.fit import FitNode, FitPod
from equipoise.contracts.kubernetes.objects import LabelSelector, PodAffinityTerm
from equipoise.contracts.load.pod_priority import QOS_LABEL
from equipoise.contracts.messages.placement import Taint
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.planning.pod_order import in_order
from equipoise.descheduler.decisions.planning.pools import NodePool, Weights
from equipoise.descheduler.decisions.planning.selection import PodSelector, Requirement, Selector
from equipoise.descheduler.decisions.planning.thresholds import Deviation
from equipoise.descheduler.decisions.strategies import readings
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.abnormal_counts import Counts, abnormal_nodes, counted
from equipoise.descheduler.state.cluster import Fleet, FleetNode, IntentLimits, MovablePod

STRATEGY = LowNodeLoad()


def states(fleet: Fleet, strategy: LowNodeLoad = STRATEGY) -> dict[str, str]:
    return {verdict.node: verdict.state for verdict in strategy.verdicts(fleet)}


def moves(fleet: Fleet, strategy: LowNodeLoad = STRATEGY) -> list[tuple[str, str]]:
    """(pod, target) of the plan when every node was hot for long enough."""
    return [(move.pod.name, move.target) for move in strategy.plan(fleet, names(fleet)).moves]


def refusals(fleet: Fleet, strategy: LowNodeLoad = STRATEGY) -> str:
    return "; ".join(f"{entry.pod} {entry.why}" for entry in strategy.plan(fleet, names(fleet)).refused)


# Which node is what


def test_classes() -> None:
    """Hot over the high mark in any resource, idle up to the low mark in every one, else between."""
    fleet = a_fleet(
        a_loaded_node("hot", 0.66),
        a_loaded_node("at-high", 0.65),
        a_loaded_node("full-memory", 0.2, memory=0.85),
        a_loaded_node("idle", 0.45, memory=0.6),
        a_loaded_node("memory-between", 0.2, memory=0.61),
    )

    assert states(fleet) == {
        "hot": "hot",
        "at-high": "between",
        "full-memory": "hot",
        "idle": "idle",
        "memory-between": "between",
    }


def test_unknown_is_neither() -> None:
    """A node without data, or without one of its resources, is unknown; a resource that is known may still be hot."""
    blind = a_loaded_node("blind", 0.9, unknown="its newest sample is 200.0 s old")
    half = a_loaded_node("half", 0.3, usage={"5m": Resources(cpu=3.0)})
    half_hot = a_loaded_node("half-hot", 0.9, usage={"5m": Resources(cpu=9.0)})

    assert states(a_fleet(blind, half, half_hot)) == {"blind": "unknown", "half": "unknown", "half-hot": "hot"}


def test_every_window_must_agree() -> None:
    """With two windows a node is hot when it is so over both, idle when it is over both."""
    strategy = LowNodeLoad(windows=("5m", "15m"))
    usage = {"5m": Resources(cpu=9.0, memory=GIB), "15m": Resources(cpu=3.0, memory=GIB)}

    burst = a_node("burst", usage=usage)

    assert states(a_fleet(burst), strategy) == {"burst": "between"}
    assert states(a_fleet(burst)) == {"burst": "hot"}


def test_deviation_sees_empty_nodes_beside_many_warm_ones() -> None:
    """Nodes below the mean's mark become sources as far as it takes to fill those that are idle."""
    warm = [a_loaded_node(f"warm-{i}", 0.48) for i in range(9)]
    fleet = a_fleet(*warm, a_loaded_node("empty", 0.02))
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    assert moves(fleet, strategy)
    assert not moves(a_fleet(*warm, a_loaded_node("near", 0.40)), strategy)


def test_idle_nodes_that_have_no_room_cost_the_others_no_crumbs() -> None:
    """A mark that is lowered for idle nodes opens their way; elsewhere a pod goes only if it takes the margin off."""
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    def fleet_of(piece: float, room: float) -> Fleet:
        """The mark of 53 % lies at 46 %: so much is missing on the empty node. `piece`: cores of 5 in each pod."""
        warm = [a_loaded_node(f"warm-{i}", 0.50, pieces=round(5.0 / piece)) for i in range(8)]
        return beside_an_empty_node(*warm, room=room)

    assert {target for _, target in moves(fleet_of(piece=0.125, room=10.0), strategy)} == {"empty"}
    assert not moves(fleet_of(piece=0.125, room=0.01), strategy)
    assert "it is not idle, and would level too little (1 node)" in refusals(fleet_of(0.125, 0.01), strategy)
    assert {target for _, target in moves(fleet_of(piece=0.25, room=0.01), strategy)} == {"cool"}
    assert not moves(fleet_of(piece=1.0, room=0.01), strategy)  # 0.50 to 0.40, and 0.385 to 0.435


def beside_an_empty_node(*warm: FleetNode, room: float, per_node: int = 1) -> Fleet:
    """A fleet with a cool node of 20 cores, and an empty one where so many cores may be asked for."""
    fit = FitNode(name="empty", allocatable={"cpu": room, "memory": 64 * GIB, "pods": 110})
    cool = a_loaded_node("cool", 0.77, base=Resources(cpu=20.0, memory=64 * GIB))
    limits = IntentLimits(per_evaluation=8, per_node=per_node, per_workload=1)
    return a_fleet(*warm, cool, a_loaded_node("empty", 0.05, fit=fit), limits=limits)


def test_a_node_over_a_mark_that_was_not_lowered_gives_to_any() -> None:
    """Until it is the margin below that: what is on its way out has not made it cool enough."""
    warm = [a_loaded_node(f"warm-{i}", 0.46) for i in range(7)]
    hot = a_loaded_node("hot", 0.50, pieces=50)  # where the mark was 49.55 % before it was lowered
    lowered = beside_an_empty_node(hot, *warm, room=0.01, per_node=8)
    leaving = a_loaded_node("hot", 0.66, pieces=66, coming=Resources(cpu=-0.1, memory=0.0))

    assert len(LowNodeLoad(deviation=Deviation()).plan(lowered, {"hot"}).moves) == 3
    assert len(moves(a_fleet(leaving, a_loaded_node("cool", 0.46)), LowNodeLoad(number_of_nodes=-1))) == 2


def test_deviation_fills_nodes_that_are_not_idle_as_long_as_the_source_stays_hotter() -> None:
    """Else a very hot node gives crumbs while pods that would cool it stay, where no node is idle any more."""
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    def fleet_of(memory: float) -> Fleet:
        """The target mark is 46 %; each pod takes 20 points off its node, and brings 10 to another, at 40 %."""
        big = Resources(cpu=20.0, memory=64 * GIB)
        cool = [a_loaded_node(f"cool-{i}", 0.8, memory, base=big) for i in range(9)]
        return a_fleet(a_loaded_node("hot", 1.0, pieces=5, memory=0.3), *cool)

    assert len(moves(fleet_of(0.2), strategy)) == 2  # 1.0, 0.8, 0.6: a third would come from 0.4 to 0.5
    assert not moves(fleet_of(0.65), strategy)  # to 0.71, with a target mark of 70 % for memory
    assert not moves(fleet_of(0.2), msgspec.structs.replace(strategy, target_mark=0))


def test_deviation_does_not_swap_hot_and_idle() -> None:
    """A move that would leave its target hotter than its source was levels nothing, though no mark forbids it."""
    strategy = LowNodeLoad(deviation=Deviation(high=ResourceThresholds(cpu=8), low=ResourceThresholds(cpu=8)))

    def fleet_of(big: float) -> Fleet:
        warm = [a_node(f"warm-{i}", [a_pod(f"big-{i}", cpu=big), a_pod(f"rest-{i}", cpu=4.8 - big)]) for i in range(9)]
        fixed = [msgspec.structs.replace(node, pods=node.pods[:1]) for node in warm]
        return a_fleet(*fixed, a_loaded_node("empty", 0.10))

    assert moves(fleet_of(3.6), strategy)
    assert not moves(fleet_of(4.0), strategy)
    assert "the target would be hotter than the source is (1 node)" in refusals(fleet_of(4.0), strategy)


def test_deviation_leaves_a_sleeping_fleet_alone() -> None:
    """Below the floor nothing is too hot."""
    fleet = a_fleet(a_loaded_node("a", 0.4), a_loaded_node("b", 0.01))

    assert not moves(fleet, LowNodeLoad(deviation=Deviation(floor=45)))
    assert moves(fleet, LowNodeLoad(deviation=Deviation(floor=5)))


# Thresholds: every kind


def marked(*nodes: FleetNode, **fields: Any) -> Fleet:
    """A fleet with these marks and no others."""
    return a_fleet(
        *nodes, thresholds=Thresholds(**({"high": ResourceThresholds(), "low": ResourceThresholds()} | fields))
    )


def test_a_mark_for_one_resource_alone_stands_as_written() -> None:
    """High without low, low without high, one resource of two: what has no mark is not looked at.

    Koordinator overwrites a high mark without a low one, and takes everything for hot that has a low mark only.
    """
    busy, full = a_loaded_node("busy", 0.7, memory=0.1), a_loaded_node("full", 0.1, memory=0.95)

    assert states(marked(busy, full, high=ResourceThresholds(cpu=65))) == {"busy": "hot", "full": "idle"}
    assert states(marked(busy, full, low=ResourceThresholds(cpu=45))) == {"busy": "between", "full": "idle"}
    assert states(marked(busy, full, high=ResourceThresholds(memory=90), low=ResourceThresholds(cpu=45))) == {
        "busy": "between",
        "full": "hot",
    }
    assert moves(marked(busy, full, high=ResourceThresholds(cpu=65)))[0] == ("busy-0", "full")


def test_a_resource_without_a_mark_may_be_unknown() -> None:
    """What is not looked at need not be known."""
    node = a_loaded_node("a", 0.7, usage={"5m": Resources(cpu=7.0)})

    assert states(marked(node, high=ResourceThresholds(cpu=65))) == {"a": "hot"}
    assert states(marked(node, high=ResourceThresholds(cpu=75))) == {"a": "idle"}
    assert states(marked(node, high=ResourceThresholds(cpu=75, memory=80))) == {"a": "unknown"}


def test_too_many_pods() -> None:
    """The number of pods is a share of what the node allows; pods on their way out do not count, expected ones do."""
    fit = FitNode(name="full", allocatable={"cpu": 10.0, "memory": 64 * GIB, "pods": 20.0})
    pods = [a_pod(f"p{i}", cpu=0.01) for i in range(12)]
    full = a_node("full", pods, fit=msgspec.structs.replace(fit, pods=[pod.fit for pod in pods]))
    fleet = marked(
        full,
        a_loaded_node("idle", 0.1),
        high=ResourceThresholds(cpu=65, pods=50),
        low=ResourceThresholds(cpu=45, pods=30),
    )

    plan = LowNodeLoad(margin=0).plan(fleet, names(fleet))

    assert states(fleet) == {"full": "hot", "idle": "idle"}
    assert len(plan.moves) == 2
    assert plan.moves[0].reason == "node is overutilized, pods usage(60.00%)>threshold(50.00%)"
    leaving = msgspec.structs.replace(full, going=2)
    assert states(marked(leaving, high=ResourceThresholds(pods=50)))["full"] == "idle"


def test_production_has_marks_of_its_own() -> None:
    """A node below its high mark is relieved of production pods alone, onto a node that holds little production."""
    batch = [a_pod(f"batch-{i}", cpu=1.0, priority=5_500) for i in range(2)]
    web = [a_pod(f"web-{i}", cpu=1.0) for i in range(4)]
    crowded = a_node("crowded", [*batch, *web])
    productive = a_node("productive", [a_pod(f"other-{i}", cpu=1.0) for i in range(3)])
    cool = a_node("cool", [a_pod(f"b-{i}", cpu=1.0, priority=5_500) for i in range(3)])
    fleet = marked(
        crowded, productive, cool,
        high=ResourceThresholds(cpu=80), low=ResourceThresholds(cpu=50),
        prod_high=ResourceThresholds(cpu=35), prod_low=ResourceThresholds(cpu=20),
    )  # fmt: skip

    plan = LowNodeLoad(margin=0).plan(fleet, names(fleet))

    assert states(fleet) == {"crowded": "hot", "productive": "idle", "cool": "idle"}
    assert [(move.pod.name[:3], move.target) for move in plan.moves] == [("web", "cool")]
    assert plan.moves[0].reason == "node is overutilized, prod cpu usage(40.00%)>threshold(35.00%)"


def test_production_is_no_reason_to_fill_a_node_beyond_its_target_mark() -> None:
    """With a deviation a node may be filled further by one that stays hotter: by all that runs there, not by a part."""
    productive = a_loaded_node("productive", 0.60)
    batch = a_node("batch", [a_pod(f"batch-{i}", cpu=0.59, priority=5_500) for i in range(10)])
    spread = Deviation(
        high=ResourceThresholds(cpu=30),
        low=ResourceThresholds(cpu=30),
        prod_high=ResourceThresholds(cpu=10),
        prod_low=ResourceThresholds(cpu=10),
    )
    strategy = LowNodeLoad(deviation=spread, number_of_nodes=-1)

    assert states(a_fleet(productive, batch), strategy)["productive"] == "hot"
    assert not moves(a_fleet(productive, batch), strategy)
    assert moves(a_fleet(productive, batch), msgspec.structs.replace(strategy, target_mark=100))


def test_a_high_mark_of_production_makes_no_node_idle() -> None:
    """A cluster that is busy as a whole is left alone with it as it is without."""
    busy = [a_loaded_node("hot", 0.9), a_loaded_node("warm", 0.5)]
    marks = {"high": ResourceThresholds(cpu=65), "low": ResourceThresholds(cpu=45)}

    for fleet in (marked(*busy, **marks), marked(*busy, **marks, prod_high=ResourceThresholds(cpu=64))):
        assert not moves(fleet, LowNodeLoad(target_mark=100))
        assert "0 idle nodes, more than 0 are needed (numberOfNodes)" in refusals(fleet)


def test_unknown_production_is_no_room_for_production() -> None:
    """A node with an unmeasured production pod is no target for one; for other pods it is."""
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


def test_nodes_of_a_pool_are_kept_by_its_marks() -> None:
    """A node belongs to the first pool that takes it, inherits what that does not say, and pods stay in the pool."""

    def labelled(node: FleetNode, **labels: str) -> FleetNode:
        fit = msgspec.structs.replace(node.fit, labels={**node.fit.labels, **labels})
        return msgspec.structs.replace(node, fit=fit)

    gpu = NodePool(name="gpu", node_selector=Selector(match_labels={"pool": "gpu"}), high=ResourceThresholds(cpu=50))
    every = NodePool(
        name="labelled",
        node_selector=Selector(match_expressions=(Requirement(key="pool", operator="Exists"),)),
        deviation=Deviation(high=ResourceThresholds(cpu=5), low=ResourceThresholds(cpu=5)),
    )
    strategy = LowNodeLoad(pools=(gpu, every))
    fleet = a_fleet(
        labelled(a_loaded_node("gpu-warm", 0.55), pool="gpu"),
        labelled(a_loaded_node("gpu-full", 0.1, memory=0.9), pool="gpu"),
        labelled(a_loaded_node("blue-a", 0.30), pool="blue"),
        labelled(a_loaded_node("blue-b", 0.16), pool="blue"),
        a_loaded_node("plain", 0.55),
        a_loaded_node("free", 0.05),
    )

    assert states(fleet, strategy) == {
        "gpu-warm": "hot",
        "gpu-full": "between",  # its memory has no mark in this pool; that of low still counts
        "blue-a": "hot",
        "blue-b": "idle",
        "plain": "between",
        "free": "idle",
    }
    assert {target for _, target in moves(fleet, strategy)} == {"blue-b"}
    assert "0 idle nodes in pool gpu, more than 0 are needed (numberOfNodes)" in refusals(fleet, strategy)
    off = msgspec.structs.replace(every, deviation="off")
    levelled = LowNodeLoad(
        deviation=Deviation(high=ResourceThresholds(cpu=5), low=ResourceThresholds(cpu=5)), pools=(off,)
    )
    assert states(fleet, levelled)["blue-a"] == "idle"


def test_nodes_beside_the_selector_are_not_looked_at() -> None:
    """Neither as source nor as target, and nothing is said of them."""
    fleet = a_fleet(a_loaded_node("hot", 0.9), a_loaded_node("idle", 0.1))
    only_hot = LowNodeLoad(node_selector=Selector(match_labels={"kubernetes.io/hostname": "hot"}), number_of_nodes=-1)

    assert states(fleet, only_hot) == {"hot": "hot"}
    assert not moves(fleet, only_hot)
    assert "no node to move to" in refusals(fleet, only_hot)


def test_only_chosen_pods_leave() -> None:
    """By namespace, included or excluded, and by any of the selectors."""
    web, job = a_pod("web", cpu=4.0), a_pod("job", cpu=4.0, namespace="batch")
    labels = {"app": "job"}
    job = msgspec.structs.replace(job, fit=msgspec.structs.replace(job.fit, labels=labels))
    fleet = a_fleet(a_node("hot", [web, job]), a_loaded_node("idle", 0.1))

    def leaving(**fields: Any) -> list[str]:
        return [pod for pod, _ in moves(fleet, LowNodeLoad(**fields))]

    assert leaving(namespaces=Namespaces(include=("batch",))) == ["job"]
    assert leaving(namespaces=Namespaces(exclude=("batch",))) == ["web"]
    chosen = PodSelector(name="jobs", selector=Selector(match_labels=labels))
    never = PodSelector(name="never", selector=Selector(match_labels={"app": "db"}))
    assert leaving(pod_selectors=(never, chosen)) == ["job"]
    assert leaving(pod_selectors=(never,)) == []
    assert "shop/web none of the strategy's podSelectors takes it" in refusals(
        fleet, LowNodeLoad(pod_selectors=(chosen,))
    )


def test_a_cluster_that_is_busy_as_a_whole_is_left_alone() -> None:
    """Without an idle node nothing moves, and with a number of nodes not before more than that are idle."""
    warm = a_fleet(a_loaded_node("hot", 0.9), a_loaded_node("warm", 0.46))
    idle = a_fleet(a_loaded_node("hot", 0.9), a_loaded_node("a", 0.1), a_loaded_node("b", 0.1))

    assert not moves(warm)
    assert "0 idle nodes, more than 0 are needed (numberOfNodes)" in refusals(warm)
    assert moves(warm, LowNodeLoad(number_of_nodes=-1, target_mark=100))
    assert moves(idle, LowNodeLoad(number_of_nodes=1))
    assert not moves(idle, LowNodeLoad(number_of_nodes=2))
    closed = a_loaded_node("b", 0.1, target_refusal="node is cordoned")
    assert not moves(a_fleet(idle.nodes[0], idle.nodes[1], closed), LowNodeLoad(number_of_nodes=1))


def test_which_node_is_relieved_first() -> None:
    """By weighted load; or by memory, then CPU, as the ACK document has it."""
    one = IntentLimits(per_evaluation=1, per_node=5, per_workload=5)
    fleet = a_fleet(
        a_loaded_node("cpu", 0.95, memory=0.1), a_loaded_node("memory", 0.1, memory=0.9), a_loaded_node("idle", 0.05),
        limits=one,
    )  # fmt: skip

    def first(**fields: Any) -> str:
        return moves(fleet, LowNodeLoad(**fields))[0][0].split("-")[0]

    assert first() == "cpu"
    assert first(weights=Weights(cpu=1, memory=3)) == "memory"
    assert first(node_order="memoryThenCpu") == "memory"


def test_one_burst_proposes_nothing() -> None:
    """Sixty seconds over the mark, seen in samples of 15 s, are no five evaluations, however often one looks."""
    cool = a_loaded_node("idle", 0.1)
    counts: Counts = {}
    for second in range(0, 1_200, 15):
        now = NOW + second
        load = 0.95 if 300 <= second < 360 else 0.5
        hot = a_loaded_node("bursting", load, sampled_at=dict.fromkeys(WINDOWS, now))
        fleet = msgspec.structs.replace(a_fleet(hot, cool), now=now)
        read = readings(STRATEGY, fleet, STRATEGY.verdicts(fleet))
        counts = counted(counts, read, now=now, interval=120)

        assert not STRATEGY.plan(fleet, abnormal_nodes(counts, 5)).moves


def test_a_refused_pod_keeps_no_place_at_its_target() -> None:
    """Koordinator reserves while it looks, and keeps what it reserved for a pod that it then does not evict."""
    big = a_pod("big", cpu=4.0, fit=FitPod(uid="uid-big", namespace="shop", name="big", requests={"cpu": 20.0}))
    small = a_pod("small", cpu=3.0, priority=1)
    fleet = a_fleet(a_node("hot", [big, small]), a_loaded_node("idle", 0.3))

    assert moves(fleet) == [("small", "idle")]


# Who leaves, and when it is enough


def labelled_pod(name: str, label: str, value: str) -> MovablePod:
    pod = a_pod(name)
    return msgspec.structs.replace(pod, fit=msgspec.structs.replace(pod.fit, labels={label: value}))


def test_who_matters_less_leaves_first() -> None:
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


def test_hottest_node_first() -> None:
    """When not all can be helped, the worst is."""
    fleet = a_fleet(
        a_loaded_node("hot", 0.7), a_loaded_node("hotter", 0.9), a_loaded_node("idle", 0.1),
        limits=IntentLimits(per_evaluation=1, per_node=5, per_workload=5),
    )  # fmt: skip

    assert [pod.split("-")[0] for pod, _ in moves(fleet)] == ["hotter"]


def test_a_node_is_left_alone_below_its_mark() -> None:
    """Enough leave to come below the mark by the margin, and not one more."""
    fleet = a_fleet(a_loaded_node("hot", 0.80, pieces=20), a_loaded_node("idle", 0.1))

    plan = STRATEGY.plan(fleet, names(fleet))

    assert len(plan.moves) == 5  # 0.80 − 5 × 0.04 = 0.60; one less leaves 0.64, within 2 points of the mark
    assert plan.moves[0].reason == "node is overutilized, cpu usage(80.00%)>threshold(65.00%)"
    assert plan.moves[0].sampled_at == NOW - 5


def test_only_nodes_that_were_hot_long_enough() -> None:
    """A plan is for abnormal nodes; none: nothing, and why."""
    fleet = a_fleet(a_loaded_node("hot", 0.8), a_loaded_node("idle", 0.1))

    assert STRATEGY.plan(fleet, {"idle"}).why == "no node has been over its mark for long enough"
    assert not STRATEGY.plan(fleet, {"idle"}).moves


def test_moves_under_way_count() -> None:
    """What is on its way out relieves its source, and weighs on its target, before any metric shows it."""
    leaving = Resources(cpu=-2.0, memory=0.0)
    coming = Resources(cpu=5.0, memory=0.0)
    hot, idle = a_loaded_node("hot", 0.8), a_loaded_node("idle", 0.1)

    relieved = a_fleet(msgspec.structs.replace(hot, coming=leaving), idle)
    filled = a_fleet(hot, msgspec.structs.replace(idle, coming=coming))

    assert states(relieved)["hot"] == "hot"
    assert not moves(relieved)
    assert not moves(filled)


def test_limits_on_proposals() -> None:
    """Per node, per workload and per evaluation, with what is under way."""
    same = [a_pod(f"p{i}", cpu=1.0, workload=a_workload()) for i in range(9)]
    fleet = a_fleet(a_node("hot", same), a_loaded_node("idle", 0.1))
    spread_out = a_fleet(a_loaded_node("hot", 0.9), a_loaded_node("idle", 0.1))

    def limited(fleet: Fleet, **fields: Any) -> int:
        limits = msgspec.structs.replace(UNLIMITED, **fields)
        return len(moves(msgspec.structs.replace(fleet, limits=limits)))

    assert limited(fleet, per_workload=1) == 1
    assert limited(msgspec.structs.replace(fleet, busy_workloads={a_workload(): 1}), per_workload=1) == 0
    assert limited(spread_out, per_node=2) == 2
    assert limited(spread_out, per_evaluation=1) == 1
    assert limited(msgspec.structs.replace(spread_out, in_flight=1), per_evaluation=1) == 0


def test_pods_without_measurement_stay() -> None:
    """Nobody is evicted on a guess."""
    pods = [
        a_pod("unmeasured", cpu=None),
        *(a_pod(f"protected-{i}", cpu=3.0, protection="it is not ready") for i in range(3)),
    ]
    fleet = a_fleet(a_node("hot", pods), a_loaded_node("idle", 0.1))

    assert not moves(fleet)
    assert "shop/unmeasured its usage is not known" in refusals(fleet)
    assert "shop/protected-0 it is not ready" in refusals(fleet)


def test_moves_must_be_worth_it() -> None:
    """A pod that relieves its node by less than leastRelief stays."""
    pods = [a_pod("big", cpu=8.0, protection="it is not ready"), a_pod("crumb", cpu=0.04)]
    fleet = a_fleet(a_node("hot", pods), a_loaded_node("idle", 0.1))

    assert not moves(fleet)
    assert moves(fleet, LowNodeLoad(least_relief=0.1)) == [("crumb", "idle")]


def test_a_pod_bigger_than_a_refused_one_is_refused_for_the_same_reason() -> None:
    """It is not tried again on thousands of nodes; smaller ones are."""
    sizes = {"a-huge": 7.0, "b-bigger": 7.5, "c-fits": 3.4, "d-huge": 7.0}
    pods = [a_pod(name, cpu=cpu, priority=place) for place, (name, cpu) in enumerate(sizes.items())]
    fleet = a_fleet(a_node("hot", pods, base=Resources(cpu=26.0, memory=64 * GIB)), a_loaded_node("idle", 0.3))

    assert moves(fleet) == [("c-fits", "idle")]
    assert refusals(fleet).count("no target: cpu would come above the target's mark (1 node)") >= 3


# Where to


def test_the_coolest_target_is_filled_first() -> None:
    """Moves level: each goes to the node that is least loaded with it."""
    fleet = a_fleet(a_loaded_node("hot", 0.88), a_loaded_node("cool", 0.3), a_loaded_node("cooler", 0.25))

    assert [target for _, target in moves(fleet)] == ["cooler", "cool", "cooler"]


def test_a_target_must_not_become_hot() -> None:
    """Neither in the resource the source is hot in nor in any other."""
    heavy = a_node("hot", [a_pod("heavy", cpu=8.0)])
    greedy = a_node("hot", [a_pod("greedy", cpu=7.0, memory=50 * GIB)])

    assert not moves(a_fleet(heavy, a_loaded_node("idle", 0.1)))
    assert not moves(a_fleet(greedy, a_loaded_node("idle", 0.0, memory=0.3)))
    assert "cpu would come above the target's mark (1 node)" in refusals(a_fleet(heavy, a_loaded_node("idle", 0.1)))


def test_nodes_that_are_not_idle_are_filled_to_the_target_mark_only() -> None:
    """A node between its marks helps out, but is not brought to the edge."""
    hot, cool = a_loaded_node("hot", 0.90), a_loaded_node("cool", 0.46)

    def moved_at(target_mark: float) -> int:
        return len(moves(a_fleet(hot, cool), LowNodeLoad(target_mark=target_mark, number_of_nodes=-1)))

    assert [moved_at(mark) for mark in (45, 60, 100)] == [0, 1, 2]


def test_warm_targets_beside_an_idle_one() -> None:
    """The idle node is not filled above those that were warmer."""
    warm = [a_loaded_node(f"warm-{i}", 0.46) for i in range(3)]
    fleet = a_fleet(a_loaded_node("hot", 0.90, pieces=30), a_loaded_node("idle", 0.40), *warm)

    targets = [target for _, target in moves(fleet)]

    assert targets[0] == "idle"
    assert {"warm-0", "warm-1", "warm-2"} <= set(targets)


@pytest.mark.parametrize(
    "target",
    [
        a_loaded_node("target", 0.1, target_refusal="node is cordoned"),
        a_loaded_node("target", 0.1, unknown="the collector has said nothing of it"),
        a_loaded_node("target", 0.1, usage={"5m": Resources(cpu=1.0)}),
        a_loaded_node("target", 0.1, fit=FitNode(name="target", allocatable={"cpu": 0.01, "pods": 110})),
        a_loaded_node(
            "target", 0.1,
            fit=FitNode(name="target", taints=[Taint(key="x", effect="NoSchedule")], allocatable={"pods": 110}),
        ),
    ],
    ids=["cordoned", "unknown", "memory unknown", "no room", "tainted"],
)  # fmt: skip
def test_what_is_no_target(target: FleetNode) -> None:
    """Closed, blind, or unfit nodes get nothing."""
    assert not moves(a_fleet(a_loaded_node("hot", 0.9), target))


def test_a_planned_move_takes_its_room_at_the_target() -> None:
    """Two pods do not both get the last place."""
    pods = [a_pod(f"p{i}", cpu=4.0) for i in range(2)]
    small = FitNode(name="idle", allocatable={"cpu": 0.15, "memory": 64 * GIB, "pods": 110})
    fleet = a_fleet(a_node("hot", pods), a_node("idle", fit=small, base=Resources(cpu=100.0, memory=64 * GIB)))

    assert len(moves(fleet, LowNodeLoad(margin=60))) == 1


def test_a_planned_move_repels_at_its_target() -> None:
    """Two pods that must not share a node are not sent to the same one, though neither is there yet."""
    term = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=LabelSelector(match_labels={"a": "b"}))

    def lone(name: str) -> FleetNode:
        pod = a_pod(name, cpu=2.0)
        fit = msgspec.structs.replace(pod.fit, labels={"a": "b"}, pod_anti_affinity=[term])
        rest = a_pod(f"{name}-rest", cpu=6.0, protection="it must stay")
        return a_node(f"hot-{name}", [msgspec.structs.replace(pod, fit=fit), rest])

    assert len(moves(a_fleet(lone("x"), lone("y"), a_loaded_node("idle", 0.1)))) == 1
    assert len(moves(a_fleet(lone("x"), lone("y"), a_loaded_node("idle", 0.1), a_loaded_node("free", 0.1)))) == 2


def test_a_source_may_be_closed() -> None:
    """A node that is going away is emptied by somebody else."""
    fleet = a_fleet(a_loaded_node("hot", 0.9, source_refusal="node is being deleted"), a_loaded_node("idle", 0.1))

    assert not moves(fleet)
    assert STRATEGY.plan(fleet, names(fleet)).why == "node is being deleted"


# The whole


@pytest.mark.parametrize("seed", range(6))
def test_a_skewed_fleet_comes_level(seed: int) -> None:
    """Twenty uneven nodes come within 20 points of one another, and a fifth of the pods at most has moved."""
    fleet = a_skewed_fleet(seed)
    fleet = msgspec.structs.replace(fleet, limits=IntentLimits(per_evaluation=20, per_node=2, per_workload=1))
    strategy = LowNodeLoad(deviation=Deviation())
    pods = sum(len(node.pods) for node in fleet.nodes)
    before, done = spread(fleet), 0

    for _ in range(100):
        plan = strategy.plan(fleet, names(fleet))
        if not plan.moves:
            break
        fleet, done = moved(fleet, plan.moves), done + len(plan.moves)

    assert before >= 50
    assert spread(fleet) <= 20
    assert done <= pods / 5
    assert not strategy.plan(fleet, names(fleet)).moves, "it never comes to rest"


def test_windows_of_the_fleet_are_the_default() -> None:
    """Without windows of its own the strategy looks at the shortest."""
    assert STRATEGY.windows_of(a_fleet()) == WINDOWS[:1]
