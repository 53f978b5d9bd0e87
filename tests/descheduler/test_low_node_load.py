"""Hot nodes give pods away, to nodes that can hold them."""

import json
from pathlib import Path
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

from equipoise.contracts.fit import FitNode
from equipoise.contracts.messages import Resources, Taint
from equipoise.contracts.settings import Marks, Thresholds
from equipoise.descheduler.classification import excess_text
from equipoise.descheduler.fleet import Fleet, FleetNode, IntentLimits, MovablePod
from equipoise.descheduler.marks import Deviation
from equipoise.descheduler.pod_order import in_order
from equipoise.descheduler.strategies.low_node_load import LowNodeLoad

CASES = json.loads((Path(__file__).parents[1] / "data" / "low_node_load_cases.json").read_text())
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


@pytest.mark.parametrize("case", CASES["reasons"], ids=[case["id"] for case in CASES["reasons"]])
def test_reasons_read_as_people_know_them(case: dict[str, Any]) -> None:
    """Koordinator's words without its scope ("node cpu usage"), as its users see them in Events."""
    base = Resources(cpu=case["allocatable"]["cpu_m"] / 1000, memory=case["allocatable"]["memory_b"])
    usage = Resources(cpu=case["usage"]["cpu_m"] / 1000, memory=case["usage"]["memory_b"])
    node = a_node(base=base, usage={"5m": usage})

    text = excess_text(node, "5m", {name: value / 100 for name, value in case["high_percent"].items()})

    assert text == case["text"].replace("node cpu", "cpu").replace("node memory", "memory")


@pytest.mark.parametrize("case", CASES["deviation"], ids=[case["id"] for case in CASES["deviation"]])
def test_deviation_marks(case: dict[str, Any]) -> None:
    """Marks follow the mean; whoever is beyond them is hot or idle."""
    span = Deviation(high=Marks(cpu=case["high_span"]), low=Marks(cpu=case["low_span"]), floor=0)
    fleet = a_fleet(*(a_loaded_node(name, percent / 100) for name, percent in case["percent"].items()))

    found = states(fleet, LowNodeLoad(deviation=span))

    assert [name for name, state in found.items() if state == "idle"] == case["under"]
    assert [name for name, state in found.items() if state == "hot"] == case["over"]


def test_deviation_sees_empty_nodes_beside_many_warm_ones() -> None:
    """Nodes below the mean's mark become sources as far as it takes to fill those that are idle."""
    warm = [a_loaded_node(f"warm-{i}", 0.48) for i in range(9)]
    fleet = a_fleet(*warm, a_loaded_node("empty", 0.02))
    strategy = LowNodeLoad(deviation=Deviation(high=Marks(cpu=8), low=Marks(cpu=8)))

    assert moves(fleet, strategy)
    assert not moves(a_fleet(*warm, a_loaded_node("near", 0.40)), strategy)


def test_deviation_does_not_swap_hot_and_idle() -> None:
    """A move that would leave its target hotter than its source was levels nothing, though no mark forbids it."""
    strategy = LowNodeLoad(deviation=Deviation(high=Marks(cpu=8), low=Marks(cpu=8)))

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


# Who leaves, and when it is enough


@pytest.mark.parametrize("case", CASES["pod_order"], ids=[case["id"] for case in CASES["pod_order"]])
def test_the_pod_that_covers_the_excess_leaves_first(case: dict[str, Any]) -> None:
    """Only resources that are over count; the pod that just covers the excess comes before a far bigger one."""
    excess = case.get("excess") or {
        unit: case["node_usage"][unit] - case["node_high"][unit] for unit in ("cpu_m", "memory_b")
    }
    pods = [a_pod(pod["name"], cpu=pod["cpu_m"], memory=pod["memory_b"]) for pod in case["pods"]]

    ordered = in_order(
        pods,
        base=Resources(cpu=1.0, memory=1.0),
        excess={"cpu": excess["cpu_m"], "memory": excess["memory_b"]},
        weights=case["weights"],
    )

    assert [pod.name for pod in ordered] == case["evict_order"]


def test_who_matters_less_leaves_first() -> None:
    """Priority, then QoS class, then deletion cost, then usage, then age."""
    pods = [
        a_pod("important", priority=10),
        a_pod("guaranteed", qos="Guaranteed"),
        a_pod("costly", deletion_cost=5),
        a_pod("old", cpu=2.0),
        a_pod("young", cpu=2.0, created_at=NOW),
        a_pod("small", cpu=1.0),
        a_pod("best-effort", qos="BestEffort"),
    ]

    ordered = in_order(pods, base=Resources(cpu=10.0, memory=GIB), excess={"cpu": 0.5}, weights={"cpu": 1.0})

    expected = ["best-effort", "young", "old", "small", "costly", "guaranteed", "important"]
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

    assert moves(a_fleet(hot, cool), LowNodeLoad(target_mark=50)) == []
    assert len(moves(a_fleet(hot, cool), LowNodeLoad(target_mark=60))) == 1
    assert len(moves(a_fleet(hot, cool), LowNodeLoad(target_mark=100))) == 2


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


def test_a_source_may_be_closed() -> None:
    """A node that is going away is emptied by somebody else."""
    fleet = a_fleet(a_loaded_node("hot", 0.9, source_refusal="node is being deleted"), a_loaded_node("idle", 0.1))

    assert not moves(fleet)
    assert STRATEGY.plan(fleet, names(fleet)).why == "node is being deleted"


# The peers' whole runs


def a_case_fleet(case: dict[str, Any]) -> Fleet:
    """A case of the peers. Their node counts as hot by the number of its pods, too; ours by what it uses."""
    nodes = []
    for node in case["nodes"]:
        pods = [a_case_pod(pod, case) for pod in case["pods"] if pod["node"] == node["name"]]
        allocatable = {"cpu": node["cpu_m"] / 1000, "memory": float(node["memory_b"]), "pods": float(node["pods"])}
        nodes.append(
            a_node(
                node["name"],
                pods,
                base=Resources(cpu=allocatable["cpu"], memory=allocatable["memory"]),
                target_refusal="node is cordoned" if node["cordoned"] else "",
                fit=FitNode(name=node["name"], allocatable=allocatable, pods=[pod.fit for pod in pods]),
            )
        )
    limits = msgspec.structs.replace(UNLIMITED, per_evaluation=case["limit"] or 1_000)
    thresholds = Thresholds(high=Marks(cpu=case["high"]), low=Marks(cpu=case["low"]))
    return a_fleet(*nodes, thresholds=thresholds, limits=limits)


def a_case_pod(pod: dict[str, Any], case: dict[str, Any]) -> MovablePod:
    stays = pod["static"] or pod["local_storage"] or pod["owner"] in ("DaemonSet", None)
    stays = stays or pod["priority"] >= 2_000_000_000 or pod["namespace"] in case["excluded"]
    made = a_pod(
        pod["name"],
        cpu=pod["cpu_m"] / 1000,
        memory=pod["memory_b"],
        priority=pod["priority"],
        protection="it must stay" if stays else "",
    )
    requests = {"cpu": pod["cpu_m"] / 1000, "memory": float(pod["memory_b"])}
    return msgspec.structs.replace(made, fit=msgspec.structs.replace(made.fit, requests=requests))


FEWER_THAN_THE_PEERS = {"lnl-02": 3, "lnl-06": 3}
"""They go on until the number of pods is below its mark as well; a number of pods is no load."""


@pytest.mark.parametrize("case", CASES["outcomes"], ids=[case["id"] for case in CASES["outcomes"]])
def test_as_many_leave_as_with_the_peers(case: dict[str, Any]) -> None:
    """The peers' runs, with a margin of 0 as they have none."""
    found = moves(a_case_fleet(case), LowNodeLoad(margin=0))

    assert len(found) == FEWER_THAN_THE_PEERS.get(case["id"], case["evicted"])
    assert all(target == "n2" for _, target in found)


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
