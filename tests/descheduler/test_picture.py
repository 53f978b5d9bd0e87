"""What is watched and heard becomes loads that can be trusted, or none."""

from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_workload, a_workload_utilization
from descheduler.cluster import a_node_object, a_pod_object, a_ready, a_workload_object, moment, terminating

from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Protection
from equipoise.contracts.eviction.protection import Rules
from equipoise.contracts.fit import FitPod
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.objects import NodeTaint, ObjectMeta, Pod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.descheduler.decisions.evaluation.cluster_builder import Picture, Remembered, Watched
from equipoise.descheduler.decisions.evaluation.node_conditions import source_refusal, target_refusal
from equipoise.descheduler.decisions.evaluation.node_usage import Measures
from equipoise.descheduler.state.cluster import FleetNode
from equipoise.descheduler.state.latest_messages import Heard
from equipoise.descheduler.state.pending_moves import Flight, after_outcome
from equipoise.descheduler.state.pod_lifetimes import PodStays

LOAD = LoadSettings()
OWNERS: dict[Workload, objects.WorkloadObject] = {
    a_workload("web-1", kind="ReplicaSet"): a_workload_object(
        "web-1",
        metadata=ObjectMeta(
            name="web-1",
            namespace="shop",
            owner_references=[
                objects.OwnerReference(api_version="apps/v1", kind="Deployment", name="web", controller=True)
            ],
        ),
    ),
    a_workload("web"): a_workload_object("web"),
}


def a_pod(name: str = "web-1", node: str = "node-a", placed_at: float = NOW - 86_400, **fields: Any) -> Pod:
    return a_pod_object(name, node, placed_at + 7 * 86_400, **fields)


def picture(
    *pods: Pod,
    utilization: NodeUtilization | None = None,
    flights: list[Flight] | None = None,
    stays: PodStays | None = None,
    skew: float = 0.0,
    now: float = NOW,
) -> dict[str, FleetNode]:
    """node-a and node-b as strategies will see them; node-a is measured, unless said otherwise."""
    if stays is None:
        stays = PodStays()
        for pod in pods:
            stays.changed(None, pod, usage=Resources(), now=now)
    watched = Watched(
        nodes=[a_node_object(name, now) for name in ("node-a", "node-b")],
        pods=list(pods),
        namespaces={"shop": objects.Namespace(metadata=ObjectMeta(name="shop"))},
        workloads=OWNERS,
    )
    measures = Measures(
        nodes={"node-a": utilization or a_node_utilization(cpu=8.0), "node-b": a_node_utilization("node-b", cpu=1.0)},
        workloads={a_workload(): a_workload_utilization(cpu=2.0)},
        stays=stays,
        settings=LOAD,
        skew=skew,
    )
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    remembered = Remembered(flights={flight.id: flight for flight in flights or []})
    nodes = Picture(watched, measures, remembered, rules, now=now).nodes(settling=300)
    return {node.name: node for node in nodes}


def test_a_node_as_it_is_measured() -> None:
    """Pods that ran through every window change nothing."""
    utilization = a_node_utilization(cpu=8.0, pods={"uid-web-1": Resources(cpu=1.5, memory=GIB)})
    node = picture(a_pod(placed_at=NOW - 200_000), utilization=utilization)["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.8)
    assert node.unknown == ""
    (pod,) = node.pods
    assert (pod.usage.cpu, pod.workload, pod.protection) == (1.5, a_workload(), "")


def test_a_young_pod_is_added_and_stays() -> None:
    """A pod placed half a window ago adds half of what its workload uses; its own mean is not yet its usage."""
    utilization = a_node_utilization(cpu=8.0, pods={"uid-web-1": Resources(cpu=0.9, memory=GIB)})
    node = picture(a_pod(placed_at=NOW - 150), utilization=utilization)["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.9)
    assert node.pods[0].usage == Resources()


def test_a_pod_measured_in_part_is_not_measured() -> None:
    """Nobody is moved on half a measurement."""
    utilization = a_node_utilization(cpu=8.0, pods={"uid-web-1": Resources(cpu=1.5)})

    assert picture(a_pod(placed_at=NOW - 200_000), utilization=utilization)["node-a"].pods[0].usage == Resources()


def test_a_terminating_pod_is_taken_off() -> None:
    """It is about to leave, so its share of the mean will too."""
    node = picture(terminating(a_pod(placed_at=NOW - 200_000), NOW))["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.6)


def test_a_pod_that_left_is_taken_off() -> None:
    """With what it was last measured to use, for the share of the window in which it still ran."""
    stays, pod = PodStays(), a_pod(placed_at=NOW - 200_000)
    stays.changed(None, pod, usage=Resources(), now=NOW - 100_000)
    stays.changed(pod, None, usage=Resources(cpu=4.0, memory=GIB), now=NOW - 150)

    node = picture(stays=stays)["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("utilization", "why"),
    [
        (a_node_utilization(sampled_at=NOW - 130), "its newest sample is 130.0 s old"),
        (a_node_utilization(sampled_at=NOW + 60), "its newest sample is -60.0 s old"),
        (a_node_utilization(uid="uid-of-the-node-before"), "what was measured is another node of that name"),
        (a_node_utilization(windows={}), "no value over 5m"),
    ],
)
def test_unknown_nodes(utilization: NodeUtilization, why: str) -> None:
    """Stale, future, foreign and missing values are no load."""
    node = picture(utilization=utilization)["node-a"]

    assert node.unknown == why
    assert node.load("5m") == Resources()


def test_a_prometheus_in_another_time_makes_everything_unknown() -> None:
    """When clocks differ too much, no age is known."""
    assert all(node.unknown for node in picture(skew=11.0).values())


def a_flight(**fields: Any) -> Flight:
    fit = FitPod(uid="uid-web-1", namespace="shop", name="web-1", requests={"cpu": 2.0})
    defaults: dict[str, Any] = {
        "id": "intent",
        "pod_uid": "uid-web-1",
        "node": "node-a",
        "target": "node-b",
        "workload": a_workload(),
        "relief": Resources(cpu=2.0, memory=GIB),
        "until": NOW + 600,
        "fit": fit,
    }
    return Flight(**(defaults | fields))


def test_a_move_under_way_counts_at_both_ends() -> None:
    """Off its source, on its target with its requests, and not proposed again."""
    nodes = picture(a_pod(placed_at=NOW - 200_000), flights=[a_flight()])

    assert nodes["node-a"].projected("5m").cpu == pytest.approx(6.0)
    assert nodes["node-b"].projected("5m").cpu == pytest.approx(3.0)
    assert nodes["node-b"].fit.requested == {"cpu": 2.0}
    assert nodes["node-a"].leaving == 1
    assert nodes["node-a"].pods[0].protection == "its move is under way"


def test_what_left_is_not_taken_off_twice() -> None:
    """Once the pod is terminating or gone, the correction of the mean takes it off its source."""
    leaving = picture(terminating(a_pod(placed_at=NOW - 200_000), NOW), flights=[a_flight(evicted_at=NOW)])
    gone = picture(flights=[a_flight(evicted_at=NOW)])

    assert leaving["node-a"].projected("5m").cpu == pytest.approx(6.0)
    assert gone["node-a"].projected("5m").cpu == pytest.approx(8.0)
    assert gone["node-b"].projected("5m").cpu == pytest.approx(3.0)


def test_a_refused_move_sets_its_target_free() -> None:
    """What was kept for a replacement is kept no longer once the eviction was refused."""
    kept = {"intent": a_flight()}
    refused = after_outcome(kept, an_outcome(intent_id="intent"), patience=600, now=NOW)

    pod = a_pod(placed_at=NOW - 200_000)
    before = picture(pod, flights=list(kept.values()))["node-b"]
    after = picture(pod, flights=list(refused.values()))["node-b"]

    assert (before.projected("5m").cpu, len(before.fit.pods)) == (pytest.approx(3.0), 1)
    assert (after.projected("5m").cpu, len(after.fit.pods)) == (pytest.approx(1.0), 0)


def an_outcome(**fields: Any) -> EvictionOutcome:
    defaults: dict[str, Any] = {
        "outcome": Outcome.REJECTED_LIMIT,
        "namespace": "shop",
        "pod": "web-1",
        "pod_uid": "uid-web-1",
        "node": "node-a",
        "target": "node-b",
        "expected_reduction": Resources(cpu=2.0, memory=GIB),
        "reason": "node is overutilized",
        "decided_at": NOW,
        "settled_at": NOW,
    }
    return EvictionOutcome(**(defaults | fields))


def with_metadata(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))


def test_what_decides_the_order_is_read() -> None:
    """Costs and Koordinator's labels; a cost that is no number is none."""
    costs = {
        "controller.kubernetes.io/pod-deletion-cost": "7",
        "scheduling.koordinator.sh/eviction-cost": "-3",
    }
    labels = {"app": "web", "koordinator.sh/priority-class": "koord-batch"}
    (pod,) = picture(with_metadata(a_pod(), annotations=costs, labels=labels))["node-a"].pods
    (plain,) = picture(with_metadata(a_pod(), annotations=dict.fromkeys(costs, "much")))["node-a"].pods

    assert (pod.deletion_cost, pod.eviction_cost, pod.priority_class) == (7, -3, "batch")
    assert (plain.deletion_cost, plain.eviction_cost) == (0, 0)


def test_what_production_uses() -> None:
    """Production pods that stay, measured or not, and whatever is on its way here; those on their way out do not."""
    usage = Resources(cpu=1.5, memory=GIB)
    utilization = a_node_utilization(cpu=8.0, pods={f"uid-{name}": usage for name in ("web-1", "web-2", "web-3")})
    old = NOW - 200_000
    batch = {"app": "web", "koordinator.sh/priority-class": "koord-batch"}
    nodes = picture(
        with_metadata(a_pod("web-1", placed_at=old)),
        with_metadata(a_pod("web-2", placed_at=old), labels=batch),
        terminating(a_pod("web-3", placed_at=old), NOW),
        a_pod("web-4", placed_at=NOW - 10),
        a_pod("web-5", placed_at=old),
        utilization=utilization,
        flights=[a_flight(pod_uid="uid-web-5")],
    )

    assert list(nodes["node-a"].production_usages()) == [usage, Resources()]
    assert list(nodes["node-b"].production_usages()) == [Resources(cpu=2.0, memory=GIB)]
    assert nodes["node-a"].going == 1
    assert nodes["node-a"].pod_count() == 3
    assert nodes["node-b"].pod_count() == 1


def test_daemons_go_with_their_node() -> None:
    """A node may be emptied though they are there."""
    owner = objects.OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", controller=True)
    (daemon,) = picture(with_metadata(a_pod(), owner_references=[owner]))["node-a"].pods
    (web,) = picture(a_pod())["node-a"].pods

    assert (daemon.belongs_to_node, web.belongs_to_node) == (True, False)


def test_nominated_pods_take_room() -> None:
    """A pod that preempted others has its place already."""
    nominated = a_pod("waiting", node="")
    nominated = msgspec.structs.replace(
        nominated, status=msgspec.structs.replace(nominated.status, nominated_node_name="node-b", phase="Pending")
    )

    assert len(picture(nominated)["node-b"].fit.pods) == 1


def test_an_owner_that_is_not_known_protects() -> None:
    """A ReplicaSet that was not listed yet may belong to anything."""
    pod = a_pod(app="unlisted")

    assert picture(pod)["node-a"].pods[0].protection == "its workload is not known"


def test_what_is_seen_to_happen_has_its_exact_time() -> None:
    """The API server tells whole seconds, a compressed window is not much longer."""
    stays, waiting, bound = PodStays(), a_pod(node=""), a_pod()
    pending = msgspec.structs.replace(waiting, status=objects.PodStatus(phase="Pending"))
    starting = msgspec.structs.replace(bound, status=objects.PodStatus(phase="Pending"))
    stays.changed(None, pending, usage=Resources(), now=NOW)
    stays.changed(pending, starting, usage=Resources(), now=NOW + 0.25)
    stays.changed(starting, bound, usage=Resources(), now=NOW + 0.75)

    stay = stays.stay(bound, Resources())

    assert stay is not None
    assert (stay.placed_at, stay.running_since) == (NOW + 0.25, NOW + 0.75)


def test_finished_pods_have_left() -> None:
    """A pod that ran to its end uses nothing, though it is still listed."""
    stays, pod = PodStays(), a_pod()
    done = msgspec.structs.replace(pod, status=objects.PodStatus(phase="Succeeded"))
    stays.changed(None, pod, usage=Resources(), now=NOW)
    stays.changed(pod, done, usage=Resources(cpu=1.0), now=NOW + 5)
    stays.changed(done, None, usage=Resources(), now=NOW + 50)

    assert [(departure.node, departure.gone_at) for departure in stays.departures()] == [("node-a", NOW + 5)]
    assert list(picture(done)["node-a"].pods) == []
    stays.forget(before=NOW + 5)
    assert list(stays.departures()) == []


def tainted(key: str) -> objects.Node:
    return a_node_object("node-a", NOW, spec=objects.NodeSpec(taints=[NodeTaint(key=key, effect="NoSchedule")]))


def with_ready(condition: objects.Condition) -> objects.Node:
    return a_node_object("node-a", NOW, status=objects.NodeStatus(conditions=[condition]))


def young(**metadata: Any) -> objects.Node:
    return a_node_object("node-a", NOW, metadata=ObjectMeta(name="node-a", **metadata))


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (young(creation_timestamp=moment(NOW - 299)), "node is younger than 300 s"),
        (young(deletion_timestamp=moment(NOW)), "node is being deleted"),
        (with_ready(a_ready("False", NOW - 9_999)), "node is not Ready"),
        (with_ready(a_ready("True", NOW - 299)), "node was not Ready within the last 300 s"),
        (a_node_object("node-a", NOW, status=objects.NodeStatus()), "node is not Ready"),
        (tainted("ToBeDeletedByClusterAutoscaler"), "node is being removed by an autoscaler"),
        (tainted("karpenter.sh/disrupted"), "node is being removed by an autoscaler"),
    ],
)
def test_nodes_that_are_neither_source_nor_target(node: objects.Node, why: str) -> None:
    """New, leaving and shaky nodes are left alone."""
    assert source_refusal(node, now=NOW, settling=300).startswith(why)
    assert target_refusal(node, now=NOW, settling=300).startswith(why)


@pytest.mark.parametrize(
    "node",
    [
        a_node_object("node-a", NOW, spec=objects.NodeSpec(unschedulable=True)),
        tainted("DeletionCandidateOfClusterAutoscaler"),
    ],
)
def test_nodes_that_are_no_target_only(node: objects.Node) -> None:
    """A cordoned node may be relieved, but not filled."""
    assert source_refusal(node, now=NOW, settling=300) == ""
    assert target_refusal(node, now=NOW, settling=300)


def test_older_words_are_dropped() -> None:
    """A late message of a collector that was replaced does not undo the new one's."""
    heard = Heard()
    heard.node(a_node_utilization(cpu=1.0, epoch=2, sequence=1))
    heard.node(a_node_utilization(cpu=9.0, epoch=1, sequence=99))

    assert heard.nodes["node-a"].epoch == 2

    heard.forget(nodes={"node-b"}, before=NOW)
    assert not heard.nodes
