"""Watched objects become placements."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, preferring

from equipoise.collector.decisions.pod_times import trimmed
from equipoise.collector.state.placement import MAX_GONE, USAGE_ROUNDS, ClusterPlacement
from equipoise.contracts.bus.decoding import refusal
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.nodes.taints import DEFAULT_TOLERATIONS
from equipoise.contracts.kubernetes.objects.metadata import (
    Condition,
    ObjectMeta,
    OwnerReference,
    ResourceRequirements,
    SelectorRequirement,
)
from equipoise.contracts.kubernetes.objects.node import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Taint,
)
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    NodeAffinity,
    Pod,
    PodSpec,
    PodStatus,
    Toleration,
)
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.pod_priority import PRIORITY_CLASS_LABEL, QOS, QOS_LABEL
from equipoise.contracts.messages.placement import NodePlacement, PlacedHint, PlacedPod
from equipoise.contracts.messages.values.resources import Resources


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def a_node(name: str = "a", uid: str = "", **fields: Any) -> Node:
    status = NodeStatus(
        allocatable={"cpu": "9500m", "memory": "60Gi", "pods": "110"},
        capacity={"cpu": "10", "memory": "64Gi", "pods": "110"},
        conditions=[Condition(type="Ready", status="True", last_transition_time=at(NOW - 900))],
    )
    meta = ObjectMeta(name=name, uid=uid or f"uid-{name}", creation_timestamp=at(NOW - 1000), labels={"pool": "x"})
    return Node(**({"metadata": meta, "status": status} | fields))


def a_pod(
    name: str = "web-1",
    node: str = "a",
    *,
    uid: str = "",
    phase: str = "Running",
    placed: float | None = NOW - 500,
    started: float | None = NOW - 498,
    ready: float | None = NOW - 495,
    deleted: float | None = None,
    owner: str = "web-6c9",
) -> Pod:
    conditions = [
        Condition(type=kind, status="True", last_transition_time=at(when))
        for kind, when in (("PodScheduled", placed), ("Ready", ready))
        if when is not None
    ]
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="shop", uid=uid or f"uid-{name}", creation_timestamp=at(NOW - 501),
            deletion_timestamp=None if deleted is None else at(deleted), labels={"pod-template-hash": "6c9"},
            owner_references=[OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=owner, controller=True)],
        ),
        spec=PodSpec(
            node_name=node, priority=7,
            containers=[Container(resources=ResourceRequirements(requests={"cpu": "500m", "memory": "1Gi"},
                                                                 limits={"cpu": "1", "memory": "2Gi"}))],
        ),
        status=PodStatus(
            phase=phase, qos_class="Burstable", conditions=conditions,
            start_time=None if started is None else at(started),
        ),
    )  # fmt: skip


def no_owner(_: Workload) -> OwnerReference | None:
    raise LookupError


def placements_with(*pods: Pod, now: float = NOW, **fields: Any) -> ClusterPlacement:
    placements = ClusterPlacement(
        **(
            {
                "windows": (300.0, 3_600.0),
                "start_timeout": 600.0,
                "owner_retention": 3_600.0,
                "owner_of": no_owner,
                "selector": {},
            }
            | fields
        )
    )
    placements.on_node(None, a_node())
    for pod in pods:
        placements.on_pod(None, pod, now)
    return placements


def pods_of(placements: ClusterPlacement, node: str = "a") -> dict[str, PlacedPod]:
    placement = placements.placement(node)
    assert placement is not None
    return {pod.name: pod for pod in placement.pods}


def test_owners_with_the_same_uid_may_be_different_workloads() -> None:
    """The API server accepts any UID in an owner reference."""
    pods = []
    for owner in ("web-6c9", "db-6c9"):
        pod = a_pod(f"{owner}-1", owner=owner)
        owners = [msgspec.structs.replace(each, uid="u") for each in pod.metadata.owner_references]
        pods.append(
            msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=owners))
        )
    workload_of = placements_with(*pods).workload_lookup()

    assert [workload_of(pod).name for pod in pods] == ["web", "db"]


def test_a_preempted_pod_has_the_time_of_its_preemption() -> None:
    """While it terminates and when it is gone; another kind of disruption is no preemption."""
    pod = a_pod()
    marks = {
        reason: Condition(type="DisruptionTarget", status="True", reason=reason, last_transition_time=at(NOW - 3))
        for reason in ("PreemptionByScheduler", "EvictionByEvictionAPI")
    }
    published = []
    for mark in marks.values():
        status = msgspec.structs.replace(pod.status, conditions=[*pod.status.conditions, mark])
        marked = trimmed(msgspec.structs.replace(pod, status=status))
        placements = placements_with(pod)
        placements.on_pod(pod, marked, NOW)
        before = pods_of(placements)["web-1"].preempted_at
        placements.on_pod(marked, None, NOW + 1)
        placement = placements.placement("a")
        assert placement is not None
        published.append((before, placement.gone[0].preempted_at))

    assert [(NOW - 3, NOW - 3), (None, None)] == published


def test_a_placement_holds_the_whole_node() -> None:
    """Labels, taints, readiness, sizes."""
    placements = placements_with()
    spec = NodeSpec(unschedulable=True, taints=[Taint(key="k", effect="NoSchedule")])
    placements.on_node(a_node(), a_node(spec=spec))
    placement = placements.placement("a")

    assert placement is not None
    assert ("uid-a", {"pool": "x"}, True, NOW - 900, True, NOW - 1000) == (
        placement.uid, placement.labels, placement.ready, placement.ready_since, placement.cordoned,
        placement.created_at,
    )  # fmt: skip
    assert [("k", "NoSchedule")] == [(taint.key, taint.effect) for taint in placement.taints]
    assert Resources(cpu=9.5, memory=60 * GIB) == placement.allocatable
    assert 110 == placement.pod_capacity
    assert {"a"} == placements.changed


def released(pod: Pod, **annotations: str) -> Pod:
    """The pod after its ReplicaSet has released it."""
    metadata = msgspec.structs.replace(pod.metadata, owner_references=[], labels={}, annotations=annotations)
    return trimmed(msgspec.structs.replace(pod, metadata=metadata))


def test_a_detached_pod_keeps_its_workload() -> None:
    """With its constraints, through later changes, until it is restored or gone."""
    disk = NodeSelectorTerm(match_expressions=[SelectorRequirement(key="disk", operator="Exists")])
    affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[disk])))
    owned = a_pod()
    tolerations = [Toleration(key="gpu", operator="Exists")]
    spec = msgspec.structs.replace(owned.spec, tolerations=tolerations, affinity=affinity)
    owned = msgspec.structs.replace(owned, spec=spec)
    before = trimmed(owned)
    placements = placements_with(before)
    attached = pods_of(placements)["web-1"]
    web = Workload(kind="Deployment", group="apps", namespace="shop", name="web")
    assert (attached.detached, attached.workload) == (False, web)

    for _ in range(2):
        placements.on_pod(before, released(owned), NOW)
        assert pods_of(placements)["web-1"] == msgspec.structs.replace(attached, detached=True)
    (tracked,) = placements.tracked("a")
    assert placements.workload_lookup()(tracked.pod) == web

    placements.on_pod(released(owned), before, NOW)
    assert pods_of(placements)["web-1"] == attached

    placements.on_pod(before, released(owned), NOW)
    placements.on_pod(released(owned), None, NOW + 1)
    placement = placements.placement("a")
    assert placement is not None
    assert [pod.workload for pod in placement.gone] == [web]
    assert placements.departed["shop", "web-1"][1] == web


def test_a_pod_whose_owner_cannot_be_read_any_more_keeps_its_workload_and_is_not_detached() -> None:
    placements = placements_with(trimmed(a_pod()))
    pod = released(a_pod())
    unreadable = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, unreadable="too long"))
    placements.on_pod(a_pod(), unreadable, NOW)

    placed = pods_of(placements)["web-1"]
    assert (placed.detached, placed.workload and placed.workload.name) == (False, "web")


def test_a_detached_pod_that_another_controller_adopts_belongs_to_that_one() -> None:
    placements = placements_with(trimmed(a_pod()))
    placements.on_pod(a_pod(), released(a_pod()), NOW)
    placements.on_pod(released(a_pod()), trimmed(a_pod(owner="other-6c9")), NOW)

    pod = pods_of(placements)["web-1"]
    assert (pod.detached, pod.workload and pod.workload.name) == (False, "other")


def test_the_annotation_of_a_detached_pod_is_not_believed() -> None:
    """Any tenant can write it. A pod whose owner was not watched has none, although an earlier pod had its name."""
    annotated = {DETACHED_HASH: "6c9"}
    for placements in (placements_with(), placements_with(trimmed(a_pod(uid="another")))):
        placements.on_pod(None, released(a_pod(), **annotated), NOW)
        (pod,) = [pod for pod in pods_of(placements).values() if pod.uid == "uid-web-1"] or [None]
        assert pod is not None
        assert (pod.detached, pod.workload) == (False, None)


def test_a_placement_holds_the_whole_pod() -> None:
    """Requests and limits, workload, times."""
    pod = pods_of(placements_with(trimmed(a_pod())))["web-1"]

    assert Workload(kind="Deployment", group="apps", namespace="shop", name="web") == pod.workload
    assert (NOW - 500, NOW - 495, False, "Burstable", 7) == (
        pod.placed_at, pod.running_since, pod.terminating, pod.qos, pod.priority,
    )  # fmt: skip
    assert (Resources(cpu=0.5, memory=GIB), Resources(cpu=1.0, memory=2 * GIB)) == (
        pod.requests,
        pod.limits,
    )


def test_a_terminating_pod_has_the_end_of_its_grace_period() -> None:
    """It may be hours away."""
    pods = pods_of(placements_with(trimmed(a_pod()), trimmed(a_pod("web-2", deleted=NOW + 3_600))))

    assert (pods["web-1"].terminating, pods["web-1"].terminates_at) == (False, None)
    assert (pods["web-2"].terminating, pods["web-2"].terminates_at) == (True, NOW + 3_600)


def a_hinted_pod(**fields: Any) -> Pod:
    """It prefers a and b, and avoids c."""
    pod = a_pod(**({"phase": "Pending", "started": None, "ready": None} | fields))
    host = "kubernetes.io/hostname"
    affinity = preferring((50, host, "In", ["host-a", "host-b"]), (30, host, "NotIn", ["host-c"]))
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, annotations={HINTED: "Deployment.web@812"}),
        spec=msgspec.structs.replace(pod.spec, affinity=affinity),
    )


def hints_of(*pods: Pod, hostname: str = "host-a") -> list[PlacedHint | None]:
    """Of web-1, after each of these events."""
    meta = ObjectMeta(name="a", uid="uid-a", labels={"kubernetes.io/hostname": hostname})
    placements, found = placements_with(), []
    placements.on_node(None, a_node(metadata=meta))
    for pod in pods:
        placements.on_pod(None, trimmed(pod), NOW)
        found.append(pods_of(placements)["web-1"].hint)
    return found


@pytest.mark.parametrize(("hostname", "weight"), [("host-a", 50), ("host-c", -30), ("a", 0)])
def test_a_placed_pod_has_the_hint_with_which_it_was_created(hostname: str, weight: int) -> None:
    """Its node is that of the label, not of the name. It remains when the pod runs, and its preferences are dropped."""
    running = a_hinted_pod(phase="Running")
    hint = PlacedHint(preferred=2, avoided=1, weight=weight)

    assert [hint, hint] == hints_of(a_hinted_pod(), running, hostname=hostname)
    assert trimmed(running).spec.affinity is None


def test_the_hint_of_a_pod_that_was_received_when_it_ran_is_unknown() -> None:
    """Another pod was created without one."""
    assert [None] == hints_of(a_hinted_pod(phase="Running"))
    assert [PlacedHint()] == hints_of(a_pod(phase="Pending"))


GPU = Toleration(key="gpu", operator="Exists")
POOL = SelectorRequirement(key="pool", operator="In", values=["gpu"])


def constrained(pod: Pod, *tolerations: Toleration, values: int = 1) -> Pod:
    """Tolerations besides those that Kubernetes adds, a label of its node, and as many values of another one."""
    zone = SelectorRequirement(key="zone", operator="In", values=[f"zone-{number}" for number in range(values)])
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[zone])])
    spec = msgspec.structs.replace(
        pod.spec,
        tolerations=[*DEFAULT_TOLERATIONS, *tolerations],
        node_selector={"pool": "gpu"},
        affinity=Affinity(node_affinity=NodeAffinity(required=required)),
    )
    return trimmed(msgspec.structs.replace(pod, spec=spec))


def test_a_placement_holds_what_decides_where_a_pod_can_run() -> None:
    """Tolerations without those that every pod has; node selector and required affinity, as one selector."""
    pod = pods_of(placements_with(constrained(a_pod(), GPU)))["web-1"]

    zone = SelectorRequirement(key="zone", operator="In", values=["zone-0"])
    assert (GPU,) == pod.tolerations
    assert NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[POOL, zone])]) == pod.node_selector


def test_a_placement_does_not_hold_the_constraints_of_daemonsets() -> None:
    """Each of their pods has its own node, and many tolerations."""
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", controller=True)
    pod = a_pod()
    metadata = msgspec.structs.replace(pod.metadata, owner_references=[owner])
    found = pods_of(placements_with(constrained(msgspec.structs.replace(pod, metadata=metadata), GPU)))["web-1"]

    assert ((), None) == (found.tolerations, found.node_selector)


def test_a_placement_does_not_hold_constraints_that_are_too_long() -> None:
    """250 pods with the longest ones fit in a message of 1 MiB."""
    tolerations = [Toleration(key=f"key-{number}", operator="Exists") for number in range(100)]
    found = pods_of(placements_with(constrained(a_pod(), *tolerations, values=200)))["web-1"]
    assert ((), None) == (found.tolerations, found.node_selector)

    pods = [constrained(a_pod(f"web-{number}"), *tolerations[:25], values=80) for number in range(250)]
    placement = placements_with(*pods).placement("a")
    assert placement is not None
    assert all(pod.tolerations and pod.node_selector for pod in placement.pods)
    assert len(msgspec.json.encode(placement)) < 2**20


def test_an_owner_that_arrives_after_its_pod_is_used() -> None:
    """The workload is looked up when the message is made: the watch of ReplicaSets may lag behind."""
    owners: dict[str, OwnerReference] = {}
    placements = placements_with(a_pod(), owner_of=lambda workload: owners[workload.name])
    owners["web-6c9"] = OwnerReference(api_version="argoproj.io/v1alpha1", kind="Rollout", name="web", controller=True)
    workload = pods_of(placements)["web-1"].workload

    assert workload is not None
    assert "Rollout" == workload.kind


def test_events_received_at_once_have_precise_times() -> None:
    """The API's times are whole seconds; an event received within two seconds has the time of its arrival."""
    whole = float(int(NOW))
    seen = whole + 0.7
    placements = placements_with(a_pod(placed=whole, started=None, ready=None, phase="Pending"), now=seen)
    assert seen == pods_of(placements)["web-1"].placed_at
    placements.on_pod(None, a_pod(placed=whole, started=whole, ready=whole + 1), whole + 1.3)

    pod = pods_of(placements)["web-1"]
    assert (seen, whole + 1.3) == (pod.placed_at, pod.running_since)


@pytest.mark.parametrize(
    ("pod", "placed", "running"),
    [
        (a_pod(placed=None), NOW - 498, NOW - 495),
        (a_pod(placed=None, started=None, ready=None), NOW - 501, NOW),
        (a_pod(ready=None), NOW - 500, NOW - 498),
        (a_pod(started=NOW - 9_000, ready=NOW - 60), NOW - 500, NOW - 9_000),
        (a_pod(phase="Pending"), NOW - 500, None),
    ],
    ids=["no condition", "no time at all", "not ready", "ready again", "pending"],
)
def test_times_come_from_the_object_when_the_event_was_missed(pod: Pod, placed: float, running: float | None) -> None:
    """A later return to Ready is not the start."""
    published = pods_of(placements_with(pod))["web-1"]

    assert (placed, running) == (published.placed_at, published.running_since)


def test_a_later_event_does_not_change_the_start() -> None:
    """The known time is kept."""
    placements = placements_with(a_pod())
    placements.on_pod(a_pod(), a_pod(ready=NOW), NOW)

    assert NOW - 495 == pods_of(placements)["web-1"].running_since


@pytest.mark.parametrize(
    "end",
    [
        lambda placements: placements.on_pod(a_pod(), None, NOW),
        lambda placements: placements.on_pod(a_pod(), a_pod(phase="Succeeded"), NOW),
        lambda placements: placements.on_pod(a_pod(), a_pod(uid="other", phase="Pending"), NOW),
    ],
    ids=["deleted", "finished", "replaced by a namesake"],
)
def test_a_pod_that_left_is_listed_as_gone(end: Any) -> None:
    """With its last measured usage, so that subscribers can subtract it."""
    placements = placements_with(a_pod())
    placements.record_usage({"uid-web-1": Resources(cpu=1.5)})
    placements.record_usage({})
    end(placements)
    placement = placements.placement("a")

    assert placement is not None
    assert "uid-web-1" not in {pod.uid for pod in placement.pods}
    (gone,) = placement.gone
    assert (NOW - 495, NOW, Resources(cpu=1.5)) == (gone.running_since, gone.gone_at, gone.usage)
    assert gone.workload is not None


def test_a_pod_that_never_ran_is_not_listed_as_gone() -> None:
    """No mean contains it."""
    placements = placements_with(a_pod(phase="Pending"))
    placements.on_pod(a_pod(phase="Pending"), None, NOW)
    placement = placements.placement("a")

    assert placement is not None
    assert ([], []) == (placement.pods, placement.gone)


def test_the_usage_of_a_pod_without_recent_measurements_is_unknown() -> None:
    """It is deleted after some rounds."""
    placements = placements_with(a_pod())
    placements.record_usage({"uid-web-1": Resources(cpu=1.5)})
    for _ in range(USAGE_ROUNDS):
        placements.record_usage({})
    placements.on_pod(a_pod(), None, NOW)
    placement = placements.placement("a")

    assert placement is not None
    assert [Resources()] == [gone.usage for gone in placement.gone]


def test_gone_pods_are_pruned_when_no_window_contains_them() -> None:
    """A short job is negligible in long windows."""
    placements = placements_with(a_pod(), a_pod("job", started=NOW - 20, ready=None))
    for name in ("web-1", "job"):
        placements.on_pod(a_pod(name), None, NOW)

    def gone(now: float) -> set[str]:
        placements.prune_gone("a", now)
        placement = placements.placement("a")
        assert placement is not None
        return {pod.name for pod in placement.gone}

    assert {"web-1", "job"} == gone(NOW + 1)
    assert {"web-1"} == gone(NOW + 300)
    assert set() == gone(NOW + 3_600)


def test_the_number_of_gone_pods_is_limited() -> None:
    """A message of a node with very many short pods stays small; the latest are listed."""
    placements = placements_with()
    for number in range(MAX_GONE + 5):
        placements.on_pod(None, a_pod(f"p{number}"), NOW)
        placements.on_pod(a_pod(f"p{number}"), None, NOW + number / 1000)
    placements.prune_gone("a", NOW + 1)
    placement = placements.placement("a")

    assert placement is not None
    assert MAX_GONE == len(placement.gone)
    assert f"p{MAX_GONE + 4}" == placement.gone[-1].name


def test_a_deleted_node_is_published_as_removed() -> None:
    """A new node of the same name has no gone pods. The removal has a creation time: it may arrive after that node."""
    placements = placements_with(a_pod())
    published = placements.placement("a")
    placements.on_pod(a_pod(), None, NOW)
    placements.on_node(a_node(), None)
    removed = placements.placement("a")
    placements.on_node(None, a_node(uid="new"))
    recreated = placements.placement("a")

    assert removed is not None
    assert published is not None
    assert (True, "uid-a", published.created_at) == (removed.removed, removed.uid, removed.created_at)
    assert recreated is not None
    assert ("new", [], False) == (recreated.uid, recreated.gone, recreated.removed)


def test_only_nodes_of_the_selector_have_a_placement() -> None:
    """A node that loses the label is removed."""
    placements = placements_with(selector={"pool": "x"})
    placements.on_node(a_node(), a_node(metadata=ObjectMeta(name="a", uid="uid-a")))
    placement = placements.placement("a")

    assert placement is not None
    assert placement.removed
    placements.on_node(None, a_node("b", metadata=ObjectMeta(name="b")))
    assert placements.placement("b") is None


def test_the_workloads_of_departed_pods_are_kept() -> None:
    """Their samples of the last hours belong to these workloads."""
    placements = placements_with(a_pod())
    placements.on_pod(a_pod(), None, NOW)
    _, workload, node = placements.departed["shop", "web-1"]
    placements.prune(NOW + 3_601)

    assert ("web", "a") == (workload and workload.name, node)
    assert {} == placements.departed


def test_a_departed_pod_whose_name_returns_is_kept_from_its_last_departure() -> None:
    """As with the pods of a StatefulSet. Others that left before are pruned earlier."""
    placements = placements_with(a_pod("db-0"), a_pod("db-1"))
    placements.on_pod(a_pod("db-0"), None, NOW)
    placements.on_pod(a_pod("db-1"), None, NOW + 1_000)
    placements.on_pod(None, a_pod("db-0", uid="again"), NOW + 1_500)
    placements.on_pod(a_pod("db-0", uid="again"), None, NOW + 2_000)
    placements.prune(NOW + 1_000 + 3_601)

    assert {("shop", "db-0")} == placements.departed.keys()


def test_invalid_quantities_are_unknown() -> None:
    """An object that no API server would accept does not stop the collector."""
    status = NodeStatus(allocatable={"cpu": "much", "pods": "x"}, capacity={})
    placements = placements_with()
    placements.on_node(None, a_node(status=status))
    placement = placements.placement("a")

    assert placement is not None
    assert (Resources(), Resources(), False) == (placement.allocatable, placement.capacity, placement.ready)


@pytest.mark.parametrize(
    ("labels", "expected"), [({}, "prod"), ({"koordinator.sh/priority-class": "koord-batch"}, "batch")]
)
def test_placement_carries_the_priority_class(labels: dict[str, str], expected: str) -> None:
    """Readers of placement see no labels of pods: Koordinator's are read here."""
    pod = a_pod()
    labeled = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))

    assert pods_of(placements_with(trimmed(labeled)))["web-1"].priority_class == expected


def batch_pod(requests: dict[str, str], **fields: Any) -> PlacedPod:
    """With labels of another class, which count less than the resources that it requests."""
    pod = a_pod()
    metadata = msgspec.structs.replace(pod.metadata, labels={PRIORITY_CLASS_LABEL: "koord-prod"} | fields)
    resources = ResourceRequirements(requests=requests, limits=requests)
    spec = msgspec.structs.replace(pod.spec, containers=[Container(resources=resources)] * 2)
    changed = trimmed(msgspec.structs.replace(pod, metadata=metadata, spec=spec))
    placement = placements_with(changed).placement("a")
    assert placement is not None
    return placement.pods[0]


def test_a_pod_that_requests_amounts_of_a_band_is_of_that_band() -> None:
    pod = batch_pod({"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1Gi"})
    assert pod.priority_class == "batch"
    assert pod.reclaimed_requests == pod.reclaimed_limits == Resources(cpu=3.0, memory=2 * GIB)
    assert pod.requests == pod.limits == Resources()


def test_a_pod_with_cores_of_its_own_is_exclusive() -> None:
    assert batch_pod({"cpu": "1"}, **{QOS: "LSE"}).exclusive
    assert batch_pod({"cpu": "1"}, **{QOS_LABEL: "LSE"}).exclusive
    assert not batch_pod({"cpu": "1"}, **{QOS_LABEL: "LSR"}).exclusive


def published(placements: ClusterPlacement) -> NodePlacement:
    found = placements.placement("a")
    assert found is not None
    return found


def unreadable_pod(**metadata: str) -> Pod:
    pod = a_pod("bad")
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **metadata))


def test_the_placement_of_a_node_says_which_object_cannot_be_read() -> None:
    """The node itself, or one of its pods: it is listed, and the sum of the requests is not known."""
    placement = placements_with()
    assert published(placement).unreadable == ""
    bad = unreadable_pod(unreadable="status.startTime: not a time")
    placement.on_pod(None, trimmed(bad), NOW)
    assert [pod.name for pod in published(placement).pods] == ["bad"]
    assert published(placement).unreadable == (
        "what its pod shop/bad requests is not known: status.startTime: not a time"
    )
    placement.on_pod(bad, trimmed(unreadable_pod()), NOW)
    assert published(placement).unreadable == ""
    node = a_node()
    metadata = msgspec.structs.replace(node.metadata, unreadable="status: Expected `object`")
    placement.on_node(node, msgspec.structs.replace(node, metadata=metadata))
    assert published(placement).unreadable == "status: Expected `object`"


def test_a_request_that_no_machine_has_is_unknown_and_not_zero() -> None:
    resources = ResourceRequirements(requests={"cpu": "1e308", "memory": "1Gi"})
    pod = a_pod()
    pod = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=[Container(resources=resources)])
    )
    placement = placements_with(trimmed(pod))
    assert published(placement).unreadable.startswith(
        "what its pod shop/web-1 requests is not known: cpu is '1e308': no machine has more than"
    )
    assert published(placement).pods[0].requests == Resources()


def test_a_pod_that_a_message_cannot_contain_is_named_and_does_not_hide_the_others() -> None:
    """It is listed with its name alone, and its node is no target. Later it may be as others."""
    pod = a_pod("odd")
    odd = trimmed(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=2**60)))
    placement = placements_with(trimmed(a_pod()))
    with pytest.raises(ValueError, match=r"priority"):
        placement.on_pod(None, odd, NOW)

    found = published(placement)
    assert refusal(found) == ""
    assert [each.name for each in found.pods] == ["web-1", "odd"]
    assert found.unreadable.startswith("what its pod shop/odd requests is not known: ")
    placement.on_pod(odd, trimmed(pod), NOW)
    assert published(placement).unreadable == ""
    assert published(placement).pods[1].priority == 7


LATER = NOW + 31_536_000


def test_times_that_a_clock_which_is_ahead_has_written_are_those_of_arrival() -> None:
    """Of the API server or a kubelet: otherwise the pod would be new, and its usage added to every mean, until then."""
    placements = placements_with(a_pod(placed=LATER, started=LATER, ready=LATER))
    placed = pods_of(placements)["web-1"]
    assert (placed.placed_at, placed.running_since) == (NOW, NOW)


def test_pods_of_the_time_in_which_this_clock_was_ahead_began_and_left_when_it_was_set_back() -> None:
    """Otherwise they would be new until then, and gone ones would be published until then."""
    running, gone = a_pod("web-1", placed=None, started=None, ready=None), a_pod("web-2")
    placements = placements_with(running, gone, now=LATER)
    placements.prune(LATER)
    placements.on_pod(gone, None, LATER)
    placements.changed.clear()

    placements.prune(NOW)
    placement = placements.placement("a")
    assert placement is not None
    [pod], [left] = placement.pods, placement.gone
    assert (pod.placed_at <= NOW, pod.running_since) == (True, NOW)
    assert left.gone_at == NOW
    assert placements.changed == {"a"}
    assert [at for at, _, _ in placements.departed.values()] == [NOW]
    placements.prune(NOW + 3_601)
    placements.prune_gone("a", NOW + 3_601)
    assert not placements.departed
    assert not placements.nodes_with_gone_pods
