"""What is watched and received becomes loads that are known, or unknown."""

import gc
import weakref
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_gone_pod, a_node_utilization, a_placement, a_workload, an_intent
from descheduler.cluster import terminating
from descheduler.cluster_states import a_cluster, pod_info
from descheduler.outcomes import after, an_outcome, dry_run_moves
from descheduler.snapshots import (
    LONG_AGO,
    a_pod,
    a_snapshot,
    cluster_of,
    evaluation_settings,
    nodes_of,
    owners_of,
    placed,
)
from hypothesis import given
from hypothesis import strategies as st
from scheduling.storage import a_claim, a_volume, uses

from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodStatus
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.messages.consolidation import NodeBeingEmptied
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.placement import GonePod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.unreadable.known_amounts import with_named_amounts
from equipoise.descheduler.decisions.cluster import ClusterView, PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingState
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.descheduler.state.moves.pending_moves import PendingMoves, TrackedMove, planned
from equipoise.descheduler.state.projection import Projection


def nodes_with(utilization: NodeUtilization, *pods: Pod, **fields: Any) -> dict[str, ClusterNode]:
    snapshot = a_snapshot(*pods, **fields)
    snapshot = msgspec.structs.replace(snapshot, nodes={**snapshot.nodes, "node-a": utilization})
    return {node.name: node for node in ClusterBuilder(snapshot, evaluation_settings()).cluster().nodes}


# Usage


def test_pods_that_ran_through_every_window_need_no_correction() -> None:
    """The node's load is the measured one, and so is the pod's usage."""
    utilization = a_node_utilization(cpu=8.0, pods={"uid-web-1": Resources(cpu=1.5, memory=GIB)})
    node = nodes_with(utilization, a_pod(placed_at=LONG_AGO))["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.8)
    assert node.unknown == ""
    (pod,) = node.pods
    assert (pod.usage.cpu, pod.workload, pod.protection) == (1.5, a_workload(), "")


def test_a_recent_pod_is_added_to_the_load() -> None:
    """Started half a window ago it adds half of its workload's usage: the collector has no usage of its own yet."""
    node = nodes_of(a_pod(placed_at=NOW - 150))["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.9)
    assert node.pods[0].usage == Resources()


def test_a_pod_measured_in_one_resource_is_not_measured() -> None:
    """No pod is moved without knowing both."""
    utilization = a_node_utilization(cpu=8.0, pods={"uid-web-1": Resources(cpu=1.5)})

    assert nodes_with(utilization, a_pod(placed_at=LONG_AGO))["node-a"].pods[0].usage == Resources()


def test_a_terminating_pod_counts_except_for_what_else_has_to_leave() -> None:
    """It may run for hours: its node is hot, and no target. Nothing is evicted to replace what leaves anyway."""
    utilization = a_node_utilization(cpu=8.0, pods={"uid-web-1": Resources(cpu=6.0, memory=GIB)})
    node = nodes_with(utilization, terminating(a_pod(placed_at=LONG_AGO), NOW))["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.8)
    assert node.projected("5m").cpu == pytest.approx(2.0)
    assert node.terminating == Resources(cpu=6.0, memory=GIB)


def test_a_terminating_pod_that_is_not_measured_changes_nothing() -> None:
    """Its containers may have ended: then the mean falls by itself."""
    node = nodes_of(terminating(a_pod(placed_at=LONG_AGO), NOW))["node-a"]

    assert node.load("5m").cpu == pytest.approx(0.8)
    assert node.projected("5m").cpu == pytest.approx(8.0)


def test_a_pod_that_left_is_subtracted() -> None:
    """Its last measured usage, for the share of the window in which it still ran."""
    gone = GonePod(
        uid="uid-web-1", namespace="shop", name="web-1", workload=a_workload(), running_since=LONG_AGO,
        gone_at=NOW - 150, usage=Resources(cpu=4.0, memory=GIB),
    )  # fmt: skip
    placements = {"node-a": a_placement("node-a", gone=[gone]), "node-b": a_placement("node-b")}

    assert nodes_of(placements=placements)["node-a"].load("5m").cpu == pytest.approx(0.6)


@pytest.mark.parametrize("present", [4.0, 0.0])
def test_a_pod_that_left_hides_nothing_that_others_use(present: float) -> None:
    """Unmeasured, it subtracts nothing; measured at more than it used, no more than the others leave."""
    pod = a_pod(placed_at=LONG_AGO)
    gone = [
        a_gone_pod("job-1", NOW - 60, running_since=NOW - 200, requests=Resources(cpu=16.0)),
        a_gone_pod("job-2", NOW - 1, usage=Resources(cpu=16.0)),
    ]
    placements = {"node-a": a_placement("node-a", [placed(pod)], gone=gone), "node-b": a_placement("node-b")}
    utilization = a_node_utilization(cpu=8.0, pods={"uid-web-1": Resources(cpu=present, memory=GIB)})

    assert nodes_with(utilization, pod, placements=placements)["node-a"].load("5m").cpu == pytest.approx(present / 10)


def test_what_is_only_expected_of_a_node_is_known() -> None:
    """The part of its load of pods that are not measured; the other pod started in the middle of the window, too."""
    new, measured = a_pod("new", placed_at=NOW - 150), a_pod("web-1", placed_at=NOW - 150)
    pods = [
        msgspec.structs.replace(placed(pod), running_since=NOW - 150, requests=Resources(cpu=4.0, memory=GIB))
        for pod in (new, measured)
    ]
    placements = {"node-a": a_placement("node-a", pods), "node-b": a_placement("node-b")}
    utilization = a_node_utilization(cpu=5.0, pods={"uid-web-1": Resources(cpu=1.0, memory=GIB)})

    node = nodes_with(utilization, new, measured, placements=placements)["node-a"]

    assert (node.usage["5m"].cpu, node.expected["5m"].cpu) == (pytest.approx(6.5), pytest.approx(1.0))


def test_the_start_of_a_pod_is_that_of_its_placement() -> None:
    """The scorer and the binder correct the same load: a pod may start to use resources long after its start time."""
    pod = a_pod(placed_at=LONG_AGO)
    started = msgspec.structs.replace(placed(pod), running_since=NOW - 150, placed_at=NOW - 200)
    placements = {"node-a": a_placement("node-a", pods=[started]), "node-b": a_placement("node-b")}

    assert nodes_of(pod, placements=placements)["node-a"].load("5m").cpu == pytest.approx(0.9)


def test_a_node_without_a_placement_is_unknown() -> None:
    """Its load cannot be corrected."""
    assert nodes_of(placements={})["node-a"].unknown == "the collector has not published its placement"


def test_finished_pods_do_not_count() -> None:
    """A pod that completed uses nothing, though it is still listed."""
    done = msgspec.structs.replace(a_pod(), status=PodStatus(phase="Succeeded"))

    assert list(nodes_of(done)["node-a"].pods) == []


@pytest.mark.parametrize(
    ("utilization", "why"),
    [
        (a_node_utilization(sampled_at=NOW - 130), "its newest sample is 130.0 s old"),
        (a_node_utilization(sampled_at=NOW + 60), "its newest sample is -60.0 s old"),
        (
            a_node_utilization(uid="uid-of-the-node-before"),
            "its utilization is that of an earlier node of the same name",
        ),
        (a_node_utilization(windows={}), "no value over 5m"),
    ],
)
def test_outdated_future_foreign_and_missing_values_are_unknown(utilization: NodeUtilization, why: str) -> None:
    """Not a load of 0."""
    node = nodes_with(utilization)["node-a"]

    assert node.unknown == why
    assert node.load("5m") == Resources()


def test_no_load_is_known_when_the_clocks_differ_too_much() -> None:
    """The age of samples is unknown then."""
    cycle = UtilizationCycle(shard="all", cycle=1, expected=2, fresh=2, queried_at=NOW, skew=11.0)

    assert all(node.unknown for node in nodes_of(cycles=[cycle]).values())


# Pods


def with_metadata(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))


def test_costs_and_labels_of_pods_are_read() -> None:
    """A cost that is no number is 0."""
    costs = {
        "controller.kubernetes.io/pod-deletion-cost": "7",
        "scheduling.koordinator.sh/eviction-cost": "-3",
    }
    labels = {"app": "web", "koordinator.sh/priority-class": "koord-batch"}
    (pod,) = nodes_of(with_metadata(a_pod(), annotations=costs, labels=labels))["node-a"].pods
    (plain,) = nodes_of(with_metadata(a_pod(), annotations=dict.fromkeys(costs, "much")))["node-a"].pods

    assert (pod.deletion_cost, pod.eviction_cost, pod.priority_class) == (7, -3, "batch")
    assert (plain.deletion_cost, plain.eviction_cost) == (0, 0)


def test_daemons_belong_to_their_node() -> None:
    """A node may be emptied though they are there."""
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", controller=True)
    (daemon,) = nodes_of(with_metadata(a_pod(), owner_references=[owner]))["node-a"].pods
    (web,) = nodes_of(a_pod())["node-a"].pods

    assert (daemon.belongs_to_node, web.belongs_to_node) == (True, False)


def test_nominated_pods_count_on_their_node() -> None:
    """A pod that preempted others has its place already."""
    nominated = a_pod("waiting", node="")
    nominated = msgspec.structs.replace(
        nominated, status=msgspec.structs.replace(nominated.status, nominated_node_name="node-b", phase="Pending")
    )

    assert len(nodes_of(nominated)["node-b"].occupying) == 1


def test_an_unknown_owner_protects() -> None:
    """A ReplicaSet that was not listed yet may belong to anything."""
    assert nodes_of(a_pod(app="unlisted"))["node-a"].pods[0].protection == "its workload is not known"


# Pending moves


def a_move(**fields: Any) -> TrackedMove:
    defaults: dict[str, Any] = {
        "id": "intent",
        "namespace": "shop",
        "pod": "web-1",
        "pod_uid": "uid-web-1",
        "node": "node-a",
        "target": "node-b",
        "workload": a_workload(),
        "expected_reduction": Resources(cpu=2.0, memory=GIB),
        "until": NOW + 600,
        "info": pod_info("web-1", {"cpu": 2.0}),
    }
    return TrackedMove(**(defaults | fields))


def test_a_pending_move_counts_on_both_nodes() -> None:
    """It is subtracted from its source, added to its target with its requests, and not proposed again."""
    nodes = nodes_of(a_pod(placed_at=LONG_AGO), moves=[a_move()])

    assert nodes["node-a"].projected("5m").cpu == pytest.approx(6.0)
    assert nodes["node-b"].projected("5m").cpu == pytest.approx(3.0)
    assert nodes["node-b"].requested == {"cpu": 2.0}
    assert nodes["node-a"].leaving == 1
    assert nodes["node-a"].pods[0].protection == "it has a pending move"


def a_detached_pod() -> Pod:
    pod = a_pod(placed_at=LONG_AGO)
    metadata = msgspec.structs.replace(pod.metadata, owner_references=[], annotations={DETACHED_HASH: "h1"})
    return msgspec.structs.replace(pod, metadata=metadata)


@pytest.mark.parametrize("node", ["node-b", "node-c"])
def test_the_replacement_of_a_detached_pod_counts_once(node: str) -> None:
    """From the time at which it is on a node, which need not be the target. The pod still leaves its own node."""
    nodes = ("node-a", "node-b", "node-c")
    move = a_move(decided_at=NOW - 60, siblings=frozenset({"uid-web-1"}))
    expected = nodes_of(a_detached_pod(), nodes=nodes, moves=[move])
    placed_pod = a_pod("web-2", node=node, placed_at=NOW - 30)
    placed = nodes_of(a_detached_pod(), placed_pod, nodes=nodes, moves=[move])

    assert [len(expected[name].occupying) for name in nodes] == [1, 1, 0]
    assert [len(placed[name].occupying) for name in nodes] == [1, int(node == "node-b"), int(node == "node-c")]
    assert placed["node-b"].coming.cpu == pytest.approx(0.0)
    assert placed["node-a"].projected("5m").cpu == pytest.approx(6.0)


def test_another_new_pod_of_the_workload_is_no_replacement_of_a_pod_that_has_its_owner() -> None:
    """An eviction may still be waiting while the workload is scaled up."""
    scaled_up = a_pod("web-2", node="node-c", placed_at=NOW - 30)
    nodes = nodes_of(
        a_pod(placed_at=LONG_AGO), scaled_up, nodes=("node-a", "node-b", "node-c"), moves=[a_move(decided_at=NOW - 60)]
    )

    assert nodes["node-b"].projected("5m").cpu == pytest.approx(3.0)


def test_a_node_that_this_leader_empties_is_no_target() -> None:
    """Before it has the taint, too."""
    (node,) = (node for node in a_snapshot().watched.nodes if node.metadata.name == "node-b")
    emptied = NodeBeingEmptied(node="node-b", uid=node.metadata.uid, since=NOW, why="its pod fits")
    nodes = nodes_of(emptying=EmptyingState(nodes={emptied.uid: emptied}))

    assert (nodes["node-a"].being_emptied, nodes["node-b"].being_emptied) == (False, True)
    assert nodes["node-b"].target_refusal.startswith("node is being emptied by consolidation since")
    assert nodes["node-b"].source_refusal == ""


def test_a_pod_that_left_is_not_subtracted_twice() -> None:
    """Once it is terminating, as measured or as proposed; once it is gone, by the correction of the mean."""
    evicted = a_move(evicted_at=NOW)
    leaving = nodes_of(terminating(a_pod(placed_at=LONG_AGO), NOW), moves=[evicted])
    gone = nodes_of(moves=[evicted])

    assert leaving["node-a"].projected("5m").cpu == pytest.approx(6.0)
    assert gone["node-a"].projected("5m").cpu == pytest.approx(8.0)
    assert gone["node-b"].projected("5m").cpu == pytest.approx(3.0)


def test_a_refused_move_frees_its_target() -> None:
    """What was reserved for a replacement is available again."""
    kept = {"intent": a_move()}
    refused = after(kept, an_outcome(Outcome.REJECTED_LIMIT, intent_id="intent"))

    pod = a_pod(placed_at=LONG_AGO)
    before = nodes_of(pod, pending=kept)["node-b"]
    afterwards = nodes_of(pod, pending=refused)["node-b"]

    assert (before.projected("5m").cpu, len(before.occupying)) == (pytest.approx(3.0), 1)
    assert (afterwards.projected("5m").cpu, len(afterwards.occupying)) == (pytest.approx(1.0), 0)


def test_batch_work_requests_a_band_or_has_its_priority() -> None:
    """Of the pods that stay. A label alone makes none, and neither does the QoS class BestEffort."""
    usages = {f"uid-{number}": Resources(cpu=float(number), memory=GIB) for number in range(1, 7)}
    requests = ResourceRequirements(requests={"kubernetes.io/batch-cpu": "1k"})
    requesting = [Container(resources=requests)]
    labelled = {"app": "web", "koordinator.sh/priority-class": "koord-batch"}
    mid = {"app": "web", "koordinator.sh/priority-class": "koord-mid"}
    nodes = nodes_with(
        a_node_utilization(cpu=9.0, pods=usages),
        with_metadata(a_pod("1", placed_at=LONG_AGO, containers=requesting), labels=labelled),
        a_pod("2", placed_at=LONG_AGO, priority=3_500),
        with_metadata(a_pod("3", placed_at=LONG_AGO, containers=requesting), labels=mid),
        with_metadata(a_pod("4", placed_at=LONG_AGO), labels=labelled),
        terminating(a_pod("5", placed_at=LONG_AGO, priority=5_500), NOW),
        a_pod("6", placed_at=LONG_AGO, priority=5_500),
        moves=[a_move(pod_uid="uid-6")],
    )

    assert [usage.cpu for usage in nodes["node-a"].batch_work_usages()] == [1.0, 2.0]


def test_the_usage_of_production_includes_pods_that_arrive() -> None:
    """Production pods that stay, measured or not, and every pod that a pending move brings; not those that leave."""
    usage = Resources(cpu=1.5, memory=GIB)
    utilization = a_node_utilization(cpu=8.0, pods={f"uid-{name}": usage for name in ("web-1", "web-2", "web-3")})
    batch = {"app": "web", "koordinator.sh/priority-class": "koord-batch"}
    nodes = nodes_with(
        utilization,
        with_metadata(a_pod("web-1", placed_at=LONG_AGO)),
        with_metadata(a_pod("web-2", placed_at=LONG_AGO), labels=batch),
        terminating(a_pod("web-3", placed_at=LONG_AGO), NOW),
        a_pod("web-4", placed_at=NOW - 10),
        a_pod("web-5", placed_at=LONG_AGO),
        moves=[a_move(pod_uid="uid-web-5")],
    )

    assert list(nodes["node-a"].production_usages()) == [usage, Resources()]
    assert list(nodes["node-b"].production_usages()) == [Resources(cpu=2.0, memory=GIB)]
    assert list(nodes["node-a"].going) == ["uid-web-5"]
    assert nodes["node-a"].pod_count == 3
    assert nodes["node-b"].pod_count == 1


LAZY = ("usage", "pods", "production", "batch_work")


def everything(cluster: ClusterView) -> list[Any]:
    """All that a strategy may read of the nodes and their forecast."""
    assert cluster.days is not None
    return [
        (
            *(getattr(node, field) for field in node.__struct_fields__ if field not in LAZY),
            dict(node.usage),
            list(node.pods),
            list(node.production_usages()),
            list(node.batch_work_usages()),
            node.pod_count,
            cluster.days.of_nodes([node.name]).tolist(),
        )
        for node in cluster.nodes
    ] + [cluster.busy_workloads, cluster.in_flight]


def test_planned_moves_are_added_as_if_they_were_pending_from_the_start() -> None:
    """Nodes that they do not touch are not built again."""
    names = ("node-a", "node-b", "node-c", "node-d")
    pods = [a_pod(f"web-{number}", node=node) for number, node in enumerate(names)]
    before = [a_move(id="first", pod_uid="uid-web-0")]
    settings = evaluation_settings()
    builder = ClusterBuilder(a_snapshot(*pods, nodes=names, moves=before), settings)
    cluster = builder.cluster()
    was = everything(cluster)
    move = PodMove(pod=cluster.nodes[1].pods[0], target="node-c", reason="", sampled_at=NOW)

    room = cluster.fit(cluster.nodes).room.tolist()
    extended = builder.with_planned([move]).cluster()

    at_once = ClusterBuilder(a_snapshot(*pods, nodes=names, moves=[*before, planned(move)]), settings).cluster()
    assert everything(extended) == everything(at_once) != was
    rooms = [each.fit(each.nodes).room.tolist() for each in (extended, at_once)]
    assert rooms[0] == rooms[1] != room
    assert everything(cluster) == was
    assert cluster.fit(cluster.nodes).room.tolist() == room
    assert extended.nodes[3] is cluster.nodes[3]


def test_a_cluster_is_freed_without_the_garbage_collector() -> None:
    """With 5,000 nodes, a plan of a campaign needs twice the memory otherwise."""
    pods = [a_pod(f"web-{number}", node=node) for number, node in enumerate(("node-a", "node-b"))]
    builder = ClusterBuilder(a_snapshot(*pods, nodes=("node-a", "node-b")), evaluation_settings())
    first = builder.cluster()
    move = PodMove(pod=first.nodes[0].pods[0], target="node-b", reason="", sampled_at=NOW)
    extended = builder.with_planned([move])
    for cluster in (first, extended.cluster()):
        everything(cluster)
        cluster.fit(cluster.nodes)
    builders = [weakref.ref(builder), weakref.ref(extended)]

    gc.disable()
    try:
        del builder, extended, first, cluster, move
        assert [reference() for reference in builders] == [None, None]
    finally:
        gc.enable()


# Dry runs


def two_pods(pending: PendingMoves, **fields: Any) -> tuple[ClusterNode, ClusterNode]:
    """web-1 with 2 cores and web-2 with 3 on node-a, which uses nothing else; node-b is empty."""
    usages = {"uid-web-1": Resources(cpu=2.0, memory=GIB), "uid-web-2": Resources(cpu=3.0, memory=GIB)}
    pods = [a_pod(name, placed_at=LONG_AGO) for name in ("web-1", "web-2")]
    utilization = {
        "node-a": a_node_utilization(cpu=5.0, pods=usages), "node-b": a_node_utilization("node-b", cpu=0.0)
    }  # fmt: skip
    snapshot = msgspec.structs.replace(a_snapshot(*pods, pending=pending, **fields), nodes=utilization)
    source, target = ClusterBuilder(snapshot, evaluation_settings()).cluster().nodes
    return source, target


def test_a_pod_moved_in_a_dry_run_counts_on_its_target() -> None:
    """With its current usage in every window and with its requests; and it may not leave from there."""
    source, target = two_pods(dry_run_moves(an_intent()))

    assert [source.load(window).cpu for window in ("5m", "1d")] == pytest.approx([0.3, 0.3])
    assert [target.load(window).cpu for window in ("5m", "1d")] == pytest.approx([0.2, 0.2])
    assert [pod.name for pod in source.pods] == [pod.name for pod in source.occupying] == ["web-2"]
    assert [pod.name for pod in target.occupying] == ["web-1"]
    (pod,) = target.pods
    assert (pod.node, pod.protection) == ("node-b", "moved in a dry run, from node-a")


def test_an_unmeasured_pod_of_a_dry_run_counts_as_when_it_was_proposed() -> None:
    """Not as nothing."""
    nodes = nodes_of(a_pod(placed_at=LONG_AGO), pending=dry_run_moves(an_intent()))

    assert nodes["node-a"].usage["5m"].cpu == pytest.approx(7.0)
    assert nodes["node-b"].usage["5m"].cpu == pytest.approx(2.0)


def test_several_dry_runs_may_concern_the_same_nodes() -> None:
    """Each of them is subtracted and added."""
    source, target = two_pods(dry_run_moves(an_intent("web-1"), an_intent("web-2")))

    assert (source.load("5m").cpu, target.load("5m").cpu) == pytest.approx((0.0, 0.5))
    assert [pod.name for pod in target.pods] == ["web-1", "web-2"]


def test_the_usage_of_production_moves_in_a_dry_run() -> None:
    """From the source to the target."""
    source, target = two_pods(dry_run_moves(an_intent("web-1")))

    assert [usage.cpu for usage in source.production_usages()] == [3.0]
    assert [usage.cpu for usage in target.production_usages()] == [2.0]


def test_a_plan_continues_from_the_moves_of_dry_runs() -> None:
    """The projection of every strategy contains them."""
    nodes = two_pods(dry_run_moves(an_intent()))
    projection = Projection(a_cluster(*nodes), "5m")

    assert projection.load(nodes[1])["cpu"] == pytest.approx(0.2)


@pytest.mark.parametrize("intent", [an_intent("web-7"), an_intent(target="node-z"), an_intent(node="node-b")])
def test_an_outdated_dry_run_changes_nothing(intent: Any) -> None:
    """Its pod is gone or on another node, or its target does not exist."""
    assert everything_of(two_pods(dry_run_moves(intent))) == everything_of(two_pods({}))


def everything_of(nodes: tuple[ClusterNode, ClusterNode]) -> list[Any]:
    return [
        (dict(node.usage), list(node.pods), [pod.uid for pod in node.occupying], list(node.production_usages()))
        for node in nodes
    ]


@given(st.data())
def test_dry_runs_lose_and_create_nothing(data: st.DataObject) -> None:
    """Whatever they move, every pod is on one node, and all nodes together use what they used."""
    names = [f"node-{number}" for number in range(4)]
    cores = data.draw(st.lists(st.floats(0.0, 3.0), min_size=8, max_size=8))
    pods = [a_pod(f"app-{n}-x", node=names[n % 4], app=f"app-{n}", placed_at=LONG_AGO) for n in range(8)]
    usage = {pod.metadata.uid: Resources(cpu=cpu, memory=GIB) for pod, cpu in zip(pods, cores, strict=True)}
    utilization = {}
    for name in names:
        own = {pod.metadata.uid: usage[pod.metadata.uid] for pod in pods if pod.spec.node_name == name}
        used = sum(each.cpu or 0.0 for each in own.values())
        utilization[name] = a_node_utilization(name, cpu=used, memory=len(own) * GIB, pods=own)
    intents = []
    for number in data.draw(st.lists(st.integers(0, 7), max_size=8)):
        pod = pods[number]
        target = data.draw(st.sampled_from([name for name in names if name != pod.spec.node_name]))
        workload = a_workload(f"app-{number}")
        intents.append(
            an_intent(
                pod.metadata.name, node=pod.spec.node_name, workload=workload, target=target, id=f"{len(intents)}"
            )
        )
    moves = dry_run_moves(*intents)
    fields: dict[str, Any] = {"owners": owners_of(*(f"app-{n}" for n in range(8)))}
    snapshot = a_snapshot(*pods, nodes=names, pending=moves, **fields)
    settings = evaluation_settings()
    nodes = ClusterBuilder(msgspec.structs.replace(snapshot, nodes=utilization), settings).cluster().nodes

    assert sorted(pod.uid for node in nodes for pod in node.pods) == sorted(pod.metadata.uid for pod in pods)
    assert [[pod.uid for pod in node.pods] for node in nodes] == [
        [info.uid for info in node.occupying] for node in nodes
    ]
    assert sum(node.usage["5m"].cpu or 0.0 for node in nodes) == pytest.approx(sum(cores))
    moved = {pod.uid: node.name for node in nodes for pod in node.pods if pod.protection.startswith("moved")}
    assert moved == {move.pod_uid: move.target for move in moves.values()}


# Volumes


def with_volume(claim: PersistentVolumeClaim, *volumes: PersistentVolume) -> ClusterView:
    """A pod with the claim `data` on node-a."""
    pod = a_pod(placed_at=LONG_AGO)
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=uses("data")))
    snapshot = a_snapshot(pod)
    watched = msgspec.structs.replace(
        snapshot.watched,
        claims={("shop", "data"): claim},
        volumes={volume.metadata.name: volume for volume in volumes},
    )
    settings = evaluation_settings()
    rules = msgspec.structs.replace(settings.rules, protection=Protection(persistent_volumes=True))
    settings = msgspec.structs.replace(settings, rules=rules)
    return ClusterBuilder(msgspec.structs.replace(snapshot, watched=watched), settings).cluster()


def test_a_pod_moves_only_to_nodes_that_can_reach_its_volume() -> None:
    claim = a_claim(volume="pv", namespace="shop")
    cluster = with_volume(claim, a_volume("pv", node_labels={"kubernetes.io/hostname": ["node-a"]}, claim=claim))
    (pod,) = cluster.nodes[0].pods

    assert pod.protection == ""
    assert cluster.fit(cluster.nodes).refusals(pod).refused.tolist() == [False, True]


def test_a_pod_whose_volume_is_not_known_does_not_move() -> None:
    """Its claim has no volume, or the volume is not listed."""
    for claim in (a_claim(namespace="shop"), a_claim(volume="pv", namespace="shop")):
        (pod,) = with_volume(claim).nodes[0].pods

        assert pod.protection == "the nodes that can reach its volumes are not known"


# Objects that cannot be read


def marked(value: Any) -> Any:
    metadata = msgspec.structs.replace(value.metadata, unreadable="status: not read")
    return msgspec.structs.replace(value, metadata=metadata)


def watched_with(snapshot: Snapshot, **fields: Any) -> Snapshot:
    return msgspec.structs.replace(snapshot, watched=msgspec.structs.replace(snapshot.watched, **fields))


def protection_in(snapshot: Snapshot, node: str = "node-a") -> str:
    nodes = {each.name: each for each in ClusterBuilder(snapshot, evaluation_settings()).cluster().nodes}
    return nodes[node].pods[0].protection


def test_a_pod_that_cannot_be_read_is_protected_and_its_node_is_no_target() -> None:
    nodes = nodes_of(marked(a_pod("web-1", "node-a")), a_pod("web-2", "node-b"))
    assert nodes["node-a"].target_refusal == "what its pod shop/web-1 requests is not known: status: not read"
    assert nodes["node-a"].pods[0].protection == "the pod cannot be read: status: not read"
    assert (nodes["node-b"].target_refusal, nodes["node-b"].pods[0].protection) == ("", "")


def test_a_pod_whose_amounts_cannot_be_computed_is_one_that_cannot_be_read() -> None:
    container = Container(resources=ResourceRequirements(requests={"cpu": "nine"}))
    pod = a_pod("web-1", "node-a", containers=[container])
    nodes = nodes_of(pod)
    assert nodes["node-a"].target_refusal.startswith("what its pod shop/web-1 requests is not known: 'nine")
    assert "is not a Kubernetes quantity" in nodes["node-a"].pods[0].protection


def test_a_pod_to_which_the_rules_cannot_be_applied_is_protected_and_named() -> None:
    """Any error of a rule concerns that pod only."""
    bad, good = a_pod("web-1"), a_pod("web-2")
    no_text: Any = {"karpenter.sh/do-not-disrupt": 5}
    bad = msgspec.structs.replace(bad, metadata=msgspec.structs.replace(bad.metadata, annotations=no_text))
    cluster = cluster_of(bad, good)
    found = {pod.name: pod.protection for pod in cluster.nodes[0].pods}
    assert found["web-1"].startswith("the rules cannot be applied to it (AttributeError: ")
    assert found["web-2"] == ""
    assert cluster.failed == {"shop/web-1": found["web-1"]}


def test_a_node_that_cannot_be_read_is_no_source_and_no_target() -> None:
    snapshot = a_snapshot(a_pod("web-1", "node-a"))
    snapshot = watched_with(snapshot, nodes=[marked(node) for node in snapshot.watched.nodes])
    node = ClusterBuilder(snapshot, evaluation_settings()).cluster().nodes[0]
    assert node.target_refusal == node.source_refusal == "node cannot be read: status: not read"
    assert node.unknown == "it cannot be read: status: not read"


def test_a_budget_a_workload_and_a_namespace_that_cannot_be_read_protect() -> None:
    """The selector of such a budget is not known: it may select any pod of its namespace."""
    snapshot = a_snapshot(a_pod("web-1", "node-a"))
    budget = PodDisruptionBudget(metadata=ObjectMeta(name="budget", namespace="shop"))
    assert protection_in(watched_with(snapshot, budgets=[budget])) == ""
    assert "PodDisruptionBudget budget cannot be read" in protection_in(
        watched_with(snapshot, budgets=[marked(budget)])
    )
    workloads = {key: marked(value) for key, value in snapshot.watched.workloads.items()}
    assert "cannot be read: status: not read" in protection_in(watched_with(snapshot, workloads=workloads))
    namespaces = {key: marked(value) for key, value in snapshot.watched.namespaces.items()}
    assert "its namespace cannot be read" in protection_in(watched_with(snapshot, namespaces=namespaces))


def test_a_node_that_offers_nothing_is_unknown_with_a_reason() -> None:
    utilization = msgspec.structs.replace(a_node_utilization(cpu=8.0), base=Resources(cpu=0.0, memory=0.0))
    node = nodes_with(utilization, a_pod())["node-a"]
    assert node.load("5m") == Resources()
    assert node.unknown == "the node offers no cpu and no memory, or it is not known how much"


def test_a_limit_or_another_resource_that_cannot_be_read_keeps_a_node_a_target() -> None:
    """The pod is protected nevertheless."""
    resources = ResourceRequirements(requests={"example.com/stone": "9" * 5_000}, limits={"memory": "9Pi"})
    pod = with_named_amounts(a_pod("web-1", "node-a", containers=[Container(resources=resources)]))
    node = nodes_of(pod)["node-a"]
    assert node.target_refusal == ""
    assert "cannot be read" in node.pods[0].protection


def test_a_pod_that_is_only_nominated_leaves_its_node_a_target() -> None:
    """kube-scheduler has chosen the node: what it reads as a request counts."""
    resources = ResourceRequirements(requests={"memory": "9Pi"})
    pod = with_named_amounts(a_pod("web-1", "", containers=[Container(resources=resources)]))
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name="node-a"))
    node = nodes_of(pod)["node-a"]
    assert node.target_refusal == ""
    assert node.requested["memory"] == 9 * 2**50
