"""The cluster once planned moves are done, as kube-scheduler's filters see it."""

import msgspec
import numpy as np
from builders import GIB
from descheduler.cluster_states import a_node, a_pod, changed_node, changed_pod, node_fit, pod_info

from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.objects.pod import Affinity, PodAffinity, PodAffinityTerm


def test_room_is_what_is_not_requested() -> None:
    pods = [a_pod("one", info=pod_info("one", {"cpu": 2.5, "memory": 4 * GIB})), a_pod("two")]
    fit = node_fit([a_node("a", pods), a_node("b")])

    assert np.allclose(fit.room, [[7.4, 59.875 * GIB, 108], [10.0, 64 * GIB, 110]])


def test_the_requested_share_of_nothing_is_1() -> None:
    """No pod with a request fits on such a node."""
    small = changed_node(a_node("small"), allocatable={"cpu": 0.0})
    fit = node_fit([a_node("a", [a_pod("one", info=pod_info("one", {"cpu": 2.5}))]), small])

    assert np.allclose(fit.requested, [[0.25, 0.0], [1.0, 0.0]])


def test_a_moved_pod_takes_room_on_its_target_only() -> None:
    pod, other = (a_pod(name, info=pod_info(name, {"cpu": 8.0})) for name in ("one", "two"))
    nodes = [a_node("a", [pod]), a_node("b", [other]), a_node("c")]
    (pod,), (other,) = nodes[0].pods, nodes[1].pods
    fit = node_fit(nodes)

    fit.move(pod, 2)

    assert [fit.refuses(other, position) for position in range(3)] == [False, False, True]
    assert fit.refusals(other).reasons(np.arange(3)) == {"Insufficient cpu": 1}
    fit.move(pod, 0)
    assert [fit.refuses(other, position) for position in range(3)] == [True, False, False]


def test_constraints_are_independent_of_requests() -> None:
    tainted = changed_node(a_node("tainted"), taints=[Taint(key="x", effect="NoSchedule")])
    full = changed_node(a_node("full"), allocatable={"cpu": 0.05})
    fit = node_fit([tainted, full])
    pod = a_pod()

    assert fit.constraint_refusals(pod).tolist() == [True, False]
    assert fit.refusals(pod).refused.tolist() == [True, True]
    assert (fit.refuses(pod, 1), fit.refuses(pod, 1, constraints=True)) == (True, False)


def test_a_node_must_also_suit_a_pod_that_runs_until_its_replacement_is_ready() -> None:
    """Apart from itself: its own zone takes no replacement as long as the pod runs there."""
    web = LabelSelector(match_labels={"app": "web"})
    apart = PodAffinity(required=[PodAffinityTerm(topology_key="zone", label_selector=web)])
    info = pod_info("web-1", labels={"app": "web", TEMPLATE_HASH: "h1"}, affinity=Affinity(pod_anti_affinity=apart))
    zones = {"source": "one", "near": "one", "far": "two"}
    pod = a_pod("web-1", info=info)
    fit = node_fit(
        [changed_node(a_node(name, [pod][: name == "source"]), labels={"zone": zone}) for name, zone in zones.items()]
    )
    pod = msgspec.structs.replace(pod, node="source")
    assert fit.refusals(pod).refused.tolist() == [False, False, False]
    without_gap = msgspec.structs.replace(pod, without_gap=True)
    assert fit.refusals(without_gap).refused.tolist() == [True, True, False]
    assert fit.preferred(without_gap).tolist() == [2]


def test_only_the_asked_nodes_are_counted() -> None:
    """By reason."""
    picky = changed_pod(a_pod(), node_selector={"disk": "ssd"})
    fit = node_fit([changed_node(a_node("a"), labels={"disk": "ssd"}), a_node("b"), a_node("c")])

    assert fit.refusals(picky).reasons(np.array([0, 2])) == {"node(s) didn't match Pod's node affinity/selector": 1}


def test_the_node_that_kube_scheduler_prefers_has_the_fewest_requests() -> None:
    """Whatever is used there; the pod itself does not count on its node."""
    pod, other = (a_pod(name, info=pod_info(name, {"cpu": 4.0, "memory": GIB})) for name in ("one", "two"))
    nodes = [
        a_node("a", [pod]),
        a_node("b", [other]),
        changed_node(a_node("c"), taints=[Taint(key="x", effect="NoSchedule")]),
    ]
    fit = node_fit(nodes)

    assert fit.preferred(nodes[0].pods[0]).tolist() == [0]


def test_a_node_is_outscored_if_the_points_of_a_target_are_less_than_its_distance_to_the_best() -> None:
    """Nodes that refuse the pod are not: there is another reason for them."""
    pod, other = (a_pod(name, info=pod_info(name, {"cpu": 5.0, "memory": 32 * GIB})) for name in ("one", "two"))
    nodes = [
        a_node("source", [pod]),
        a_node("empty"),
        a_node("half", [other]),
        changed_node(a_node("tainted"), taints=[Taint(key="x", effect="NoSchedule")]),
    ]

    def outscored(points: int) -> list[bool]:
        found: list[bool] = node_fit(nodes, target_points=points).outscored(nodes[0].pods[0]).tolist()
        return found

    # The total of `half` is lower by 50: LeastAllocated scores it 0, and the others 50.
    assert outscored(50) == [False, False, True, False]
    assert outscored(51) == [False, False, False, False]


def test_a_node_is_outscored_by_one_with_an_equal_total() -> None:
    """kube-scheduler chooses one of them at random. The only feasible node is not outscored."""
    pod = a_pod("one")

    equal = node_fit([a_node("source", [pod]), a_node("other")], target_points=0)
    alone = node_fit([a_node("source", [pod])], target_points=0)

    assert equal.outscored(pod).tolist() == [True, True]
    assert alone.outscored(pod).tolist() == [False]
