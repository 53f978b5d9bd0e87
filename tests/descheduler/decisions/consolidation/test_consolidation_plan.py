"""Which nodes the cluster can do without."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW
from descheduler.cluster_states import (
    pod_info,
)
from descheduler.consolidated import BY_DAY, BY_NIGHT, HOURS, LONG_AGO, World, three_nodes
from hypothesis import given, note, settings
from hypothesis import strategies as st

from equipoise.contracts.configuration.prices import NodePrice, PriceTable
from equipoise.contracts.configuration.settings import FurtherThresholds, ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation, NodeGroup
from equipoise.descheduler.decisions.consolidation.plan import ConsolidationPlan, NodeObstacle
from equipoise.descheduler.decisions.planning.pools import Requirement, Selector
from equipoise.descheduler.state.consolidation.expected_days import ExpectedDays
from equipoise.descheduler.state.consolidation.planner import consolidation_plan
from equipoise.descheduler.state.consolidation.trial import EmptyingTrial, NodeToEmpty
from equipoise.descheduler.state.projection import Projection

WITHOUT_MARGIN = Consolidation(margin=0.0)
NOT_EDGE = Consolidation(
    margin=0.0,
    node_selector=Selector(match_expressions=(Requirement(key="pool", operator="NotIn", values=("edge",)),)),
)


def names(plan: ConsolidationPlan) -> list[str]:
    return [each.node.name for each in plan.nodes]


def test_nodes_go_as_long_as_the_others_stay_below_the_threshold() -> None:
    """Six cores of ten are below 65 %, with all pods on one node."""
    plan = consolidation_plan(three_nodes(2.0).cluster(), WITHOUT_MARGIN)

    assert names(plan) == ["node-0", "node-1"]
    assert [target.name for each in plan.nodes for _, target in each.moves] == ["node-2", "node-2"]
    assert plan.hottest_before is not None
    assert plan.hottest_after is not None
    assert (plan.hottest_before.load, plan.hottest_after.load) == (pytest.approx(0.2), pytest.approx(0.6))


LIMITS = Thresholds(resources={"network": FurtherThresholds(high=70), "gpu": FurtherThresholds(high=70)})


def test_a_further_resource_that_no_node_has_changes_no_plan() -> None:
    cluster = three_nodes(2.0).cluster()
    limited = msgspec.structs.replace(cluster, thresholds=LIMITS, further=("network", "gpu"))

    assert names(consolidation_plan(limited, WITHOUT_MARGIN)) == names(consolidation_plan(cluster, WITHOUT_MARGIN))


def test_a_further_resource_that_is_hot_or_unknown_now_is_named() -> None:
    """It has no day: its present load counts."""
    cluster = three_nodes(2.0).cluster()
    capacity = Resources(cpu=10.0, memory=64 * GIB, further={"network": 100.0})
    loads = {"node-0": {"network": 90.0}, "node-1": {"network": 10.0}, "node-2": {}}
    nodes = [
        msgspec.structs.replace(
            node,
            base=capacity,
            resources={"network": ""},
            usage={
                window: msgspec.structs.replace(usage, further=loads[node.name]) for window, usage in node.usage.items()
            },
        )
        for node in cluster.nodes
    ]
    plan = consolidation_plan(
        msgspec.structs.replace(cluster, nodes=nodes, thresholds=LIMITS, further=("network",)), WITHOUT_MARGIN
    )

    assert plan.above == {"node-0": "90.0% network now"}
    assert plan.staying["node-2"] == NodeObstacle(why="its usage of network is not known", unknown=True)


def test_the_forecast_of_every_hour_decides_and_not_the_mean() -> None:
    """The means are the same: pods with a peak by day and by night share a node, two with the same peak do not."""
    same, different = World(), World()
    for world, shapes in ((same, (BY_DAY, BY_DAY)), (different, (BY_DAY, BY_NIGHT))):
        for number, shape in enumerate(shapes):
            world.node(f"node-{number}")
            world.pod(f"pod-{number}", f"node-{number}", 4.0 * shape)

    assert names(consolidation_plan(same.cluster(), WITHOUT_MARGIN)) == []
    assert names(consolidation_plan(different.cluster(), WITHOUT_MARGIN)) == ["node-0"]


def test_the_errors_of_profiles_are_added_to_the_forecast_of_targets() -> None:
    """Two pods of three cores are at 60 %. With an error of half a core each they would be at 70 %."""
    world = three_nodes(3.0)
    assert len(consolidation_plan(world.cluster(), WITHOUT_MARGIN).nodes) == 1

    for number in range(3):
        world.error(f"pod-{number}", 0.5)
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert names(plan) == []
    assert plan.bound == "load"


def test_an_error_that_is_not_recorded_is_a_quarter_of_the_pods_day() -> None:
    world = three_nodes(3.0)
    for number in range(3):
        world.error(f"pod-{number}", None)
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert (names(plan), plan.unrecorded) == ([], 3)
    assert consolidation_plan(three_nodes(3.0).cluster(), WITHOUT_MARGIN).unrecorded == 0


def test_a_node_goes_whole_or_not_at_all() -> None:
    """One of its two pods fits on no single node, although all of them together have room."""
    world = World()
    for name in ("one", "other", "small"):
        world.node(name)
    for name in ("one", "other"):
        world.pod(f"kept-{name}", name, 4.0, protection="its annotation protects it")
    world.pod("a", "small", 0.2)
    world.pod("b", "small", 3.0)
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert names(plan) == []
    assert plan.staying["small"].bound == "load"
    assert "shop/b would bring any node with room for it above a threshold" in plan.staying["small"].why


def test_a_node_that_stays_leaves_the_others_as_they_were() -> None:
    """Its first pod fits, and its second one does not: the first one is taken back."""
    world = World()
    for name in ("full", "small"):
        world.node(name)
    world.pod("busy", "full", 6.0)
    world.pod("a", "small", 0.4)
    world.pod("b", "small", 0.3)
    cluster = world.cluster()
    days = ExpectedDays(cluster, Projection(cluster, "5m"))
    small = cluster.nodes[1]
    amounts = [each for pod in small.pods if not isinstance(each := days.of_pod(pod), str)]
    trial = EmptyingTrial(cluster, days, np.array([True, False]), [])
    found = trial.empty(NodeToEmpty(node=small, index=1, pods=small.pods, amounts=amounts))

    assert isinstance(found, NodeObstacle)
    assert (trial.expected == days.expected).all()


def test_a_node_without_pods_of_its_own_goes_without_a_move() -> None:
    """Pods of DaemonSets and static pods end with their node."""
    world = three_nodes()
    world.node("empty")
    world.pod("daemon", "empty", 0.5, belongs_to_node=True, protection="pod of a DaemonSet")
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert names(plan)[0] == "empty"
    assert plan.nodes[0].moves == ()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"created": NOW - 60}, "younger than 1h"),
        ({"created": NOW + 60}, "younger than 1h"),
        ({"created": None}, "its age is not known"),
        ({"unknown": "no sample"}, "no sample"),
        ({"source_refusal": "node is not Ready"}, "node is not Ready"),
        ({"target_refusal": "node is cordoned"}, "node is cordoned"),
        ({"labels": {"node-role.kubernetes.io/control-plane": ""}}, "control plane"),
        ({"taints": [Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")]}, "control plane"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}, "forbids its removal"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "forbids its removal"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "yes"}}, "forbids its removal"),
        ({"labels": {"pool": "edge"}}, "nodeSelector of consolidation does not select it"),
    ],
)
def test_nodes_that_must_stay_are_no_candidates(fields: Mapping[str, Any], why: str) -> None:
    """Although it is empty."""
    world = three_nodes(6.0)
    world.node("other", **fields)
    plan = consolidation_plan(world.cluster(), NOT_EDGE)

    assert "other" not in names(plan)
    assert why in plan.staying["other"].why


def test_a_node_whose_day_is_not_measured_whole_is_neither_emptied_nor_filled() -> None:
    """One hour is missing. It is unknown, not idle."""
    world = three_nodes(2.0)
    world.measured["node-0"] = HOURS != 3
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert names(plan) == ["node-1"]
    assert [target.name for each in plan.nodes for _, target in each.moves] == ["node-2"]
    assert plan.staying["node-0"].why == "its day is not measured yet"


def test_a_pod_whose_day_is_not_measured_whole_stays() -> None:
    world = three_nodes(2.0)
    for number in range(3):
        world.measured[f"pod-{number}"] = HOURS != 3

    assert names(consolidation_plan(world.cluster(), WITHOUT_MARGIN)) == []


def test_a_pod_that_may_not_move_keeps_its_node() -> None:
    """It is named, with the reason."""
    world = three_nodes(1.0)
    world.pod("db", "node-0", 0.1, protection="it uses local storage")
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert names(plan) == ["node-1", "node-2"]
    assert plan.staying["node-0"].why == "shop/db stays: it uses local storage"


def test_a_cooldown_keeps_no_node() -> None:
    """It delays a move, for minutes: a limit that is exhausted now does not mean that the cluster needs its nodes."""
    world = three_nodes(1.0)
    world.pod("web", "node-0", 0.1, protection="limits.evictionsPerCluster is exhausted", postponed=True)
    for name in ("node-1", "node-2"):
        world.pod(f"guard-{name}", name, 0.1, protection="its annotation protects it")

    assert names(consolidation_plan(world.cluster(), WITHOUT_MARGIN)) == ["node-0"]


def test_a_node_to_which_a_pod_is_coming_stays() -> None:
    """The expected replacement of a pending move occupies it, and a nominated pod does."""
    world = three_nodes(1.0)
    cluster = world.cluster()
    first = cluster.nodes[0]
    coming = msgspec.structs.replace(first, occupying=[*first.occupying, pod_info("coming", {"cpu": 0.1})])
    plan = consolidation_plan(msgspec.structs.replace(cluster, nodes=[coming, *cluster.nodes[1:]]), WITHOUT_MARGIN)

    assert "node-0" not in names(plan)
    assert plan.staying["node-0"].why == "a pod is expected on it"


def test_a_group_keeps_its_minimum_number_of_nodes() -> None:
    world = World()
    for number in range(4):
        world.node(f"node-{number}", labels={"pool": "web"})
        world.pod(f"pod-{number}", f"node-{number}", 0.5)
    group = NodeGroup(node_selector=Selector(match_labels={"pool": "web"}), min_nodes=3)
    plan = consolidation_plan(world.cluster(), Consolidation(margin=0.0, groups=(group,)))

    assert len(plan.nodes) == 1
    assert "its group has its minimum number of nodes" in {obstacle.why for obstacle in plan.staying.values()}


def test_nodes_that_save_the_most_per_moved_pod_go_first() -> None:
    """Half the price with a quarter of the pods comes first. Nodes without a price come last."""
    world = World()
    for name, kind, pods in (("cheap", "small", 1), ("dear", "large", 4), ("unpriced", "other", 1), ("kept", "", 0)):
        world.node(name, labels={"node.kubernetes.io/instance-type": kind})
        for number in range(pods):
            world.pod(f"{name}-{number}", name, 0.2)
    world.pod("guard", "kept", 0.1, protection="its annotation protects it")
    prices = PriceTable(
        currency="EUR",
        nodes=(NodePrice(instance_type="small", per_hour=0.1), NodePrice(instance_type="large", per_hour=0.2)),
    )
    plan = consolidation_plan(world.cluster(), Consolidation(margin=0.0, prices=prices))

    assert names(plan) == ["cheap", "dear", "unpriced"]
    assert [each.price for each in plan.nodes] == [0.1, 0.2, None]


def test_a_node_that_is_being_emptied_comes_first_and_gets_no_pod() -> None:
    """It has the taint, and so it is no target although its load is the lowest."""
    world = three_nodes(1.0)
    world.node("begun", taints=[consolidation_taint(NOW)], target_refusal="it is being emptied")
    world.pod("last", "begun", 0.1)
    world.pod("second", "begun", 0.1)
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert names(plan)[0] == "begun"
    assert "begun" not in {target.name for each in plan.nodes for _, target in each.moves}


def test_the_requests_that_would_let_three_nodes_more_go_are_estimated() -> None:
    """Four nodes of 10 cores with 9 cores requested on each: with 10 of 40 cores offered, a quarter."""
    world = World()
    for number in range(4):
        world.node(f"node-{number}")
        world.pod(f"pod-{number}", f"node-{number}", 0.1, info=pod_info(f"pod-{number}", {"cpu": 9.0, "memory": GIB}))
    plan = consolidation_plan(world.cluster(), WITHOUT_MARGIN)

    assert (names(plan), plan.bound) == ([], "requests")
    assert plan.requests["cpu"] == (pytest.approx(36.0), pytest.approx(9.0))


def test_nodes_above_a_threshold_without_any_change_are_named() -> None:
    world = three_nodes(1.0)
    world.node("hot")
    world.pod("busy", "hot", 9.0 * BY_DAY)

    assert consolidation_plan(world.cluster(), WITHOUT_MARGIN).above == {"hot": "90.0% cpu at 08:00 UTC"}


def test_production_pods_keep_a_target_below_the_threshold_of_production() -> None:
    """Two pods of 2 cores are at 40 % of the node, and above 30 % of production."""
    thresholds = Thresholds(
        high=ResourceThresholds(cpu=65, memory=80),
        low=ResourceThresholds(cpu=45, memory=60),
        prod_high=ResourceThresholds(cpu=30),
    )
    world = World()
    for number in range(2):
        world.node(f"node-{number}")
        world.pod(f"pod-{number}", f"node-{number}", 2.0, priority=9_500)

    assert len(consolidation_plan(world.cluster(), WITHOUT_MARGIN).nodes) == 1
    assert not consolidation_plan(world.cluster(thresholds=thresholds), WITHOUT_MARGIN).nodes


cores_by_hour = st.tuples(st.floats(0.0, 4.0), st.floats(0.0, 4.0)).map(
    lambda levels: levels[0] * BY_DAY + levels[1] * BY_NIGHT
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to six nodes, some of which must stay."""
    world = World()
    for node in range(draw(st.integers(1, 6))):
        name = f"node-{node}"
        kind = draw(st.sampled_from(["small", "large", ""]))
        world.node(
            name,
            created=draw(st.sampled_from([LONG_AGO, LONG_AGO, LONG_AGO, NOW])),
            unknown=draw(st.sampled_from(["", "", "", "", "no sample"])),
            target_refusal=draw(st.sampled_from(["", "", "", "", "node is cordoned"])),
            labels={"node.kubernetes.io/instance-type": kind},
        )
        for number in range(draw(st.integers(0, 4))):
            pod = f"{name}-{number}"
            requests = {"cpu": draw(st.floats(0.1, 5.0)), "memory": draw(st.floats(0.1, 30.0)) * GIB}
            world.pod(
                pod,
                name,
                draw(cores_by_hour),
                memory=draw(st.floats(0.1, 20.0)),
                info=pod_info(pod, requests),
                protection=draw(st.sampled_from(["", "", "", "", "", "", "it is protected"])),
                belongs_to_node=draw(st.sampled_from([False, False, False, True])),
            )
            world.error(pod, draw(st.none() | st.floats(0.0, 1.0)))
    return world


PRICES = PriceTable(
    currency="EUR",
    nodes=(NodePrice(instance_type="small", per_hour=0.1), NodePrice(instance_type="large", per_hour=0.4)),
)


@settings(deadline=None, max_examples=60)
@given(world=worlds(), margin=st.floats(0.0, 20.0))
def test_no_target_exceeds_its_threshold_minus_the_margin_in_any_hour(world: World, margin: float) -> None:
    """With the errors of all its pods, computed from the pods themselves."""
    cluster = world.cluster()
    plan = consolidation_plan(cluster, Consolidation(margin=margin))
    assert cluster.days is not None
    arrived: dict[str, list[MovablePod]] = {}
    for each in plan.nodes:
        for pod, target in each.moves:
            arrived.setdefault(target.name, []).append(pod)
    for node in cluster.nodes:
        pods = [*node.pods, *arrived.get(node.name, [])]
        if node.name not in arrived:
            continue
        day = sum((world.days[pod.workload] for pod in pods if pod.workload), start=np.zeros((2, SLOTS)))
        error = sum((cluster.days.error_of_pod(pod.workload, pod.usage) for pod in pods), start=np.zeros(2))
        load = (day + error[:, np.newaxis]) / np.array([[10.0], [64 * GIB]])
        note(f"{node.name}: {load.max(axis=1)}")
        assert (load[0] <= 0.65 - margin / 100 + 1e-9).all()
        assert (load[1] <= 0.80 - margin / 100 + 1e-9).all()
        for resource, offered in (("cpu", 10_000), ("memory", 64 * GIB)):
            assert sum(pod.info.request(resource) for pod in pods) <= offered


@settings(deadline=None, max_examples=60)
@given(world=worlds())
def test_nodes_go_whole_and_no_pod_moves_twice(world: World) -> None:
    """Every pod that does not end with its node moves to a node that stays, and may receive pods."""
    cluster = world.cluster()
    plan = consolidation_plan(cluster, WITHOUT_MARGIN)
    gone = set(names(plan))
    for each in plan.nodes:
        moved = [pod for pod, _ in each.moves]
        assert {pod.uid for pod in moved} == {pod.uid for pod in each.node.pods if not pod.belongs_to_node}
        assert not any(pod.protection for pod in moved)
        assert not each.node.unknown
        assert not each.node.target_refusal
        for _, target in each.moves:
            assert target.name not in gone
            assert not target.unknown
            assert not target.target_refusal
    assert gone | plan.staying.keys() == {node.name for node in cluster.nodes}
    assert not gone & plan.staying.keys()


@settings(deadline=None, max_examples=60)
@given(world=worlds(), margins=st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 50.0)))
def test_more_margin_never_has_more_nodes(world: World, margins: tuple[float, float]) -> None:
    cluster = world.cluster()
    fewer, more = (len(consolidation_plan(cluster, Consolidation(margin=margin)).nodes) for margin in sorted(margins))

    assert more <= fewer


@settings(deadline=None, max_examples=60)
@given(world=worlds())
def test_nodes_are_in_the_order_of_what_they_save_per_moved_pod(world: World) -> None:
    """Nodes without a pod to move come first, and those without a price last."""
    plan = consolidation_plan(world.cluster(), Consolidation(margin=0.0, prices=PRICES))
    saved = [(each.price or 0.0) / len(each.moves) for each in plan.nodes if each.moves]

    assert saved == sorted(saved, reverse=True)
    assert [bool(each.moves) for each in plan.nodes] == sorted(bool(each.moves) for each in plan.nodes)
