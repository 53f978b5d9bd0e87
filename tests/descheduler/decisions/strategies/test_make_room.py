"""make_room: moves pods away from a node on which another pod waits for room."""

from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload
from descheduler.cluster_states import a_cluster, changed_node, names, node_object
from descheduler.waiting import FULL, resizing_info, resizing_pod, sized_pod, small_node, unschedulable_info

from equipoise.contracts.configuration.moves import LEVELS
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, IntentLimits, MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.strategies import name_of
from equipoise.descheduler.decisions.strategies.make_room import MakeRoom
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.scheduling.model.pod_info import PodInfo

STRATEGY = MakeRoom()


def plan(cluster: ClusterView, strategy: MakeRoom = STRATEGY) -> MovePlan:
    return strategy.plan(cluster, ())


def moves(cluster: ClusterView, strategy: MakeRoom = STRATEGY) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in plan(cluster, strategy).moves]


def refusal(cluster: ClusterView, pod: str = "shop/web", strategy: MakeRoom = STRATEGY) -> str:
    return next((refused.why for refused in plan(cluster, strategy).refused if refused.pod == pod), "")


def full_node(*others: MovablePod, web: MovablePod | None = None, **fields: Any) -> ClusterNode:
    """node-a, on which the resize of web to 1.5 cores is deferred: 500m of 4 cores are missing, by default."""
    pods = others or (sized_pod("large", 2.0), sized_pod("half", 0.5), sized_pod("other-half", 0.5))
    return small_node("node-a", [web or resizing_pod("web", "1500m"), *pods], **fields)


def test_it_is_off_by_default() -> None:
    chosen = [strategy for level in (None, *LEVELS) for strategy in DeschedulerSettings().chosen_strategies(level)]
    assert "make_room" not in map(name_of, chosen)


def test_one_pod_that_frees_enough_leaves_the_node_of_a_deferred_resize() -> None:
    cluster = a_cluster(full_node(), small_node("node-b"))

    (move,) = plan(cluster).moves
    assert (move.pod.name, move.target) == ("half", "node-b")
    assert move.reason == "makes room for the resize of shop/web: 500m CPU missing"
    assert move.makes_room_for == "shop/web"
    assert move.trigger == "uid-web.2"


def test_the_fewest_pods_move_then_those_without_a_gap_then_the_cheapest() -> None:
    def first(**fields: dict[str, Any]) -> list[str]:
        pods = [sized_pod(name, 0.5, **fields.get(name, {})) for name in ("a", "b", "c")]
        return [pod for pod, _ in moves(a_cluster(full_node(sized_pod("d", 1.5), *pods), small_node("node-b")))]

    cheap = Resources(cpu=0.1, memory=GIB / 20)
    assert first() == ["a"]
    assert first(b={"usage": cheap}) == ["b"]
    assert first(b={"usage": cheap}, c={"without_gap": True}) == ["c"]
    assert first(b={"created_at": NOW - 600}) == ["b"]
    assert first(a={"deletion_cost": 1}, b={"eviction_cost": 1}) == ["c"]


def test_two_pods_leave_together_if_one_does_not_free_enough() -> None:
    quarters = [sized_pod(f"quarter-{number}", 0.25) for number in range(12)]
    cluster = a_cluster(full_node(*quarters), small_node("node-b"))

    assert len(moves(cluster)) == 2
    assert moves(cluster, MakeRoom(max_pods=1)) == []
    assert refusal(cluster, strategy=MakeRoom(max_pods=1)) == (
        "500m CPU missing for its resize: no pod of node-a can be moved to free it"
    )


def test_no_pod_of_a_set_moves_if_one_of_them_may_not() -> None:
    """One of two would leave its node for nothing."""
    quarters = [sized_pod(f"quarter-{number}", 0.25) for number in range(12)]
    limits = IntentLimits(per_evaluation=10, per_node=1, per_workload=10)
    one_workload = [msgspec.structs.replace(pod, workload=a_workload(name="same")) for pod in quarters]
    one_each = IntentLimits(per_evaluation=10, per_node=10, per_workload=1)

    assert not moves(a_cluster(full_node(*quarters), small_node("node-b"), limits=limits))
    assert not moves(a_cluster(full_node(*one_workload), small_node("node-b"), limits=one_each))
    assert not moves(a_cluster(full_node(*quarters), small_node("node-b", [sized_pod("x", 3.75)])))


def test_the_second_pod_of_a_set_fits_beside_the_first() -> None:
    """Each of them alone would fit on node-b."""
    quarters = [sized_pod(f"quarter-{number}", 0.25) for number in range(12)]
    nodes = [small_node(name, [sized_pod(f"on-{name}", 3.75)]) for name in ("node-b", "node-c")]

    assert sorted(target for _, target in moves(a_cluster(full_node(*quarters), *nodes))) == ["node-b", "node-c"]


def test_a_pod_with_a_pending_move_is_not_moved_again() -> None:
    """What it frees is not enough: another pod leaves, too."""
    node = full_node(web=resizing_pod("web", "2"), going=["uid-half"])
    assert moves(a_cluster(node, small_node("node-b"))) == [("large", "node-b")]


def test_other_resizing_pods_of_the_node_stay() -> None:
    """A move would restart them: in-place resizes avoid just that."""
    others = [resizing_pod(name, "600m", generation=1) for name in ("x", "y", "z")]
    node = full_node(*others, sized_pod("protected", 1.5, protection="it is not ready"))

    assert moves(a_cluster(node, small_node("node-b"))) == []


def test_only_what_the_first_resize_misses_is_freed_if_not_all_of_them_can_be() -> None:
    """Kubelets retry each resize by itself, those of high priority first. The others count with what they have."""
    first = resizing_pod("first", "1500m", priority=10)
    second = resizing_pod("web", "3")
    node = small_node("node-a", [first, second, sized_pod("half", 1.0), sized_pod("large", 2.0, protection="no")])

    cluster = a_cluster(node, small_node("node-b"))
    (move,) = plan(cluster).moves
    assert (move.pod.name, move.reason) == ("half", "makes room for the resize of shop/first: 1000m CPU missing")


def test_several_resizes_of_a_node_are_served_by_one_pod_if_it_frees_enough() -> None:
    both = [resizing_pod("first", "750m", priority=10), resizing_pod("web", "750m")]
    node = small_node("node-a", [*both, sized_pod("half", 0.5), sized_pod("large", 2.5)])

    cluster = a_cluster(node, small_node("node-b"))
    assert moves(cluster) == [("half", "node-b")]
    assert refusal(cluster).startswith("its node has room for its resize")


def test_each_resize_that_gets_room_counts_for_those_after_it() -> None:
    both = [resizing_pod("first", "1", priority=10), resizing_pod("web", "1")]
    others = [sized_pod("a", 0.5), sized_pod("b", 0.5), sized_pod("c", 2.0, protection="it is not ready")]

    planned = plan(a_cluster(small_node("node-a", [*both, *others]), small_node("node-b"))).moves

    assert [(move.pod.name, move.makes_room_for) for move in planned] == [("a", "shop/first"), ("b", "shop/web")]


def test_unreported_amounts_count_in_full() -> None:
    """What the pod has is not known, so the difference to what it wants is not taken off."""
    first = resizing_pod("first", "1500m", priority=10)
    second = resizing_pod("web", "2", reported=False)
    node = small_node("node-a", [first, second, sized_pod("half", 0.5), sized_pod("one", 1.0)])

    (move,) = plan(a_cluster(node, small_node("node-b"))).moves
    assert move.pod.name == "one"


def test_a_pod_with_an_infeasible_resize_is_moved_to_a_larger_node() -> None:
    web = resizing_pod("web", "6", reason="Infeasible")
    small, large = small_node("node-b"), small_node("node-c", allocatable={**FULL, "cpu": 8.0})
    busy = small_node("node-d", [sized_pod("busy", 3.0)], allocatable={**FULL, "cpu": 8.0})

    (move,) = plan(a_cluster(small_node("node-a", [web]), small, large, busy)).moves
    assert (move.pod.name, move.target) == ("web", "node-c")
    assert move.reason == "makes room for the resize of shop/web: 2000m CPU more than its node has"
    assert move.pod.info.requests["cpu"] == 6_000, "its replacement is expected with the new size"

    none = a_cluster(small_node("node-a", [web]), small, busy)
    assert moves(none) == []
    assert "its resize needs a larger node: no target: Insufficient cpu (2 nodes)" in refusal(none)


def test_a_pod_that_its_node_could_hold_is_not_moved_because_its_resize_is_infeasible() -> None:
    """The kubelet also refuses resizes of static pods, and of pods with exclusive CPUs."""
    web = resizing_pod("web", "2", reason="Infeasible")
    cluster = a_cluster(small_node("node-a", [web]), small_node("node-c", allocatable={**FULL, "cpu": 8.0}))

    assert moves(cluster) == []
    assert "for another reason" in refusal(cluster)


@pytest.mark.parametrize(
    ("web", "why"),
    [
        ({"waited": 10.0}, "it has waited for room for less than 1m (minWait)"),
        ({"waited": None}, "it is not known how long it has waited for room"),
        ({"reason": "Someday"}, "its resize is pending for a reason that is not known (Someday)"),
        ({"reason": ""}, "its resize is pending for a reason that is not known (none)"),
    ],
)
def test_nothing_moves_for_a_resize_that_is_not_understood_or_new(web: dict[str, Any], why: str) -> None:
    cluster = a_cluster(full_node(web=resizing_pod("web", "1500m", **web)), small_node("node-b"))

    assert moves(cluster) == []
    assert refusal(cluster) == why


def test_nothing_moves_for_a_condition_that_is_false() -> None:
    cluster = a_cluster(full_node(web=resizing_pod("web", "1500m", status="False")), small_node("node-b"))

    assert plan(cluster).why == "no pod waits for room"


def test_nothing_moves_while_room_is_being_made() -> None:
    """By moves that are pending, or by a pod that terminates."""
    node = full_node()
    terminating = sized_pod("half", 0.5)
    shape = terminating.info.deleted()
    ending = msgspec.structs.replace(
        node, occupying=[shape if info.uid == shape.uid else info for info in node.occupying]
    )
    for leaving in (msgspec.structs.replace(node, going=["uid-half"]), ending):
        cluster = a_cluster(leaving, small_node("node-b"))
        assert moves(cluster) == []
        assert "once pods that are leaving have ended" in refusal(cluster)


@pytest.mark.parametrize("key", ["uid-web.2", "uid-web"])
def test_nothing_moves_twice_for_the_same_resize(key: str) -> None:
    cluster = a_cluster(full_node(), small_node("node-b"), triggers={key: "pods were moved for it"})

    assert moves(cluster) == []
    assert refusal(cluster) == "pods were moved for it"


def test_without_generations_the_desired_amounts_identify_a_resize() -> None:
    """Before Kubernetes 1.34, pods have no generation."""

    def trigger(cpu: str) -> str:
        web = resizing_pod("web", cpu, generation=0)
        (move,) = plan(a_cluster(full_node(web=web), small_node("node-b"))).moves
        return move.trigger

    assert trigger("1500m") == "uid-web.cpu=1500,memory=1073741824"
    assert trigger("1500m") != trigger("1400m")


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (full_node(unknown="no fresh data"), "no fresh data"),
        (full_node(source_refusal="node is being deleted"), "node is being deleted"),
        (
            msgspec.structs.replace(full_node(), object=node_object("node-a", {})),
            "its allocatable cpu and memory are not known",
        ),
    ],
)
def test_nothing_leaves_a_node_that_is_refused_or_unknown(node: ClusterNode, why: str) -> None:
    cluster = a_cluster(node, small_node("node-b"))

    assert moves(cluster) == []
    assert refusal(cluster) == why


def test_nothing_leaves_a_node_of_which_a_pod_requests_an_unknown_amount() -> None:
    """What is missing would be read too low."""
    node = full_node()
    pod = node.occupying[1].pod
    unreadable = PodInfo(
        msgspec.structs.replace(pod, metadata=ObjectMeta(name="x", namespace="shop", uid="uid-x", unreadable="cpu: -1"))
    )
    cluster = a_cluster(msgspec.structs.replace(node, occupying=[*node.occupying, unreadable]), small_node("node-b"))

    assert moves(cluster) == []
    assert refusal(cluster) == "what its pod shop/x requests is not known: cpu: -1"


def test_a_pod_of_higher_priority_moves_only_without_a_gap() -> None:
    def of(**fields: Any) -> list[tuple[str, str]]:
        info = PodInfo(msgspec.structs.replace(
            sized_pod("half", 0.5).info.pod,
            spec=msgspec.structs.replace(sized_pod("half", 0.5).info.pod.spec, priority=5),
        ))  # fmt: skip
        half = msgspec.structs.replace(sized_pod("half", 0.5, **fields), priority=5, info=info)
        return moves(
            a_cluster(full_node(half, sized_pod("large", 2.5, protection="it is not ready")), small_node("node-b"))
        )

    assert of() == []
    assert of(without_gap=True) == [("half", "node-b")]


def test_targets_stay_below_their_thresholds() -> None:
    loaded = small_node("node-b", base=Resources(cpu=4.0, memory=16 * GIB))
    loaded = msgspec.structs.replace(loaded, usage=dict.fromkeys(loaded.usage, Resources(cpu=2.59, memory=GIB)))
    thresholds = Thresholds(high=ResourceThresholds(cpu=65, memory=80), low=ResourceThresholds(cpu=45, memory=60))
    cluster = a_cluster(full_node(), loaded, thresholds=thresholds)

    assert moves(cluster) == []
    assert moves(msgspec.structs.replace(cluster, thresholds=Thresholds(high=ResourceThresholds(cpu=80, memory=80))))


def test_a_node_names_the_resizes_that_are_pending_on_it() -> None:
    cluster = a_cluster(full_node(), small_node("node-b", unknown="no fresh data"))

    assert [(each.state, each.why) for each in STRATEGY.classify(cluster)] == [
        ("between", "resizes are pending: shop/web (Deferred)"), ("unknown", "no fresh data")
    ]  # fmt: skip


WITH_PODS = MakeRoom(unschedulable=True)


def two_nodes(*unscheduled: PodInfo, **fields: Any) -> ClusterView:
    """1 core is free on each node."""
    nodes = [
        small_node("node-a", [sized_pod("a-1", 2.0), sized_pod("a-2", 1.0)]),
        small_node("node-b", [sized_pod("b-1", 2.5), sized_pod("b-2", 0.5, GIB / 2)]),
    ]
    return a_cluster(*nodes, unscheduled=list(unscheduled), **fields)


def test_room_for_an_unschedulable_pod_is_made_on_request_where_it_disrupts_the_least() -> None:
    cluster = two_nodes(unschedulable_info("big", {"cpu": 1.5, "memory": GIB}))

    assert moves(cluster) == []
    (move,) = plan(cluster, WITH_PODS).moves
    assert (move.pod.name, move.target) == ("b-2", "node-a")
    assert move.reason == "makes room for shop/big, which fits on no node: 500m CPU missing"


def test_no_room_is_made_on_a_node_that_refuses_the_pod_for_another_reason() -> None:
    cluster = two_nodes(unschedulable_info("big", {"cpu": 1.5, "memory": GIB}))
    tainted = changed_node(cluster.nodes[1], taints=[Taint(key="x", effect="NoSchedule")])
    cluster = msgspec.structs.replace(cluster, nodes=[cluster.nodes[0], tainted])

    assert moves(cluster, WITH_PODS) == []
    assert refusal(cluster, "shop/big", WITH_PODS) == "no node would have room for it with 2 pods moved at most"


@pytest.mark.parametrize(
    "pod",
    [
        unschedulable_info("big", {"cpu": 1.5}, reason="SchedulingGated"),
        unschedulable_info("big", {"cpu": 1.5}, waited=10.0),
        unschedulable_info("big", {"cpu": 1.5}, waited=None),
        unschedulable_info("big", {"cpu": 3.9}),
        unschedulable_info("big", {"cpu": 1.5}, labels={"scheduling.x-k8s.io/pod-group": "gang"}),
        unschedulable_info("big", {"cpu": 0.5}),
    ],
)
def test_no_room_is_made_for_pods_that_wait_for_something_else(pod: PodInfo) -> None:
    assert moves(two_nodes(pod), WITH_PODS) == []


def test_the_shape_of_a_pod_with_a_pending_resize_has_both_sizes() -> None:
    """kube-scheduler counts a deferred resize in full, and an infeasible one not at all (kubernetes#135107)."""
    info = resizing_info("web", "2")

    assert info.requests["cpu"] == 2_000
    assert info.with_pending_resize("Infeasible").requests["cpu"] == 500
    assert info.with_pending_resize("Infeasible").with_pending_resize("Deferred").requests["cpu"] == 2_000


def test_the_moved_pod_of_an_infeasible_resize_leaves_the_sums_of_its_node_unchanged_while_it_is_tried() -> None:
    web = resizing_pod("web", "6", reason="Infeasible")
    cluster = a_cluster(small_node("node-a", [web]), small_node("node-b"))
    (node, _), fit = cluster.nodes, cluster.fit(cluster.nodes)
    before = fit.room.tolist()

    fit.refusals(msgspec.structs.replace(web, node="node-a", info=web.info.with_pending_resize("Deferred")))

    assert fit.room.tolist() == before
    assert names(cluster) == {node.name, "node-b"}
