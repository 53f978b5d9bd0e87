"""Watched objects become placements."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW

from equipoise.collector.state.placement import MAX_GONE, USAGE_ROUNDS, ClusterPlacement
from equipoise.collector.state.pod_times import trimmed
from equipoise.contracts.kubernetes.objects import (
    Condition,
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    NodeTaint,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.resources import Resources


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


def nobody(_: Workload) -> OwnerReference | None:
    raise LookupError


def a_fleet(*pods: Pod, now: float = NOW, **fields: Any) -> ClusterPlacement:
    fleet = ClusterPlacement(
        **(
            {
                "windows": (300.0, 3_600.0),
                "start_timeout": 600.0,
                "owner_retention": 3_600.0,
                "owner_of": nobody,
                "selector": {},
            }
            | fields
        )
    )
    fleet.on_node(None, a_node())
    for pod in pods:
        fleet.on_pod(None, pod, now)
    return fleet


def pods_of(fleet: ClusterPlacement, node: str = "a") -> dict[str, PlacedPod]:
    placement = fleet.placement(node)
    assert placement is not None
    return {pod.name: pod for pod in placement.pods}


def test_a_preempted_pod_is_told_as_such() -> None:
    """Since when, while it ends and once it is gone; another kind of disruption is no preemption."""
    pod = a_pod()
    marks = {
        reason: Condition(type="DisruptionTarget", status="True", reason=reason, last_transition_time=at(NOW - 3))
        for reason in ("PreemptionByScheduler", "EvictionByEvictionAPI")
    }
    told = []
    for mark in marks.values():
        status = msgspec.structs.replace(pod.status, conditions=[*pod.status.conditions, mark])
        marked = trimmed(msgspec.structs.replace(pod, status=status))
        fleet = a_fleet(pod)
        fleet.on_pod(pod, marked, NOW)
        before = pods_of(fleet)["web-1"].preempted_at
        fleet.on_pod(marked, None, NOW + 1)
        placement = fleet.placement("a")
        assert placement is not None
        told.append((before, placement.gone[0].preempted_at))

    assert [(NOW - 3, NOW - 3), (None, None)] == told


def test_a_node_is_told_whole() -> None:
    """Labels, taints, readiness, sizes."""
    fleet = a_fleet()
    spec = NodeSpec(unschedulable=True, taints=[NodeTaint(key="k", effect="NoSchedule")])
    fleet.on_node(a_node(), a_node(spec=spec))
    placement = fleet.placement("a")

    assert placement is not None
    assert ("uid-a", {"pool": "x"}, True, NOW - 900, True, NOW - 1000) == (
        placement.uid, placement.labels, placement.ready, placement.ready_since, placement.cordoned,
        placement.created_at,
    )  # fmt: skip
    assert [("k", "NoSchedule")] == [(taint.key, taint.effect) for taint in placement.taints]
    assert Resources(cpu=9.5, memory=60 * GIB) == placement.allocatable
    assert 110 == placement.pod_capacity
    assert {"a"} == fleet.changed


def test_a_pod_is_told_whole() -> None:
    """What it asks for, whose it is, since when."""
    pod = pods_of(a_fleet(trimmed(a_pod())))["web-1"]

    assert Workload(kind="Deployment", group="apps", namespace="shop", name="web") == pod.workload
    assert (NOW - 500, NOW - 495, False, "Burstable", 7) == (
        pod.placed_at, pod.running_since, pod.terminating, pod.qos, pod.priority,
    )  # fmt: skip
    assert (Resources(cpu=0.5, memory=GIB), Resources(cpu=1.0, memory=2 * GIB)) == (
        pod.requests,
        pod.limits,
    )


def test_an_owner_seen_after_its_pod_counts() -> None:
    """The workload is looked up when it is told: the ReplicaSet's watch may lag behind the pod's."""
    owners: dict[str, OwnerReference] = {}
    fleet = a_fleet(a_pod(), owner_of=lambda workload: owners[workload.name])
    owners["web-6c9"] = OwnerReference(api_version="argoproj.io/v1alpha1", kind="Rollout", name="web", controller=True)
    workload = pods_of(fleet)["web-1"].workload

    assert workload is not None
    assert "Rollout" == workload.kind


def test_events_that_were_seen_have_fine_times() -> None:
    """The API's times end at whole seconds; an event heard within two seconds has the time of hearing."""
    whole = float(int(NOW))
    seen = whole + 0.7
    fleet = a_fleet(a_pod(placed=whole, started=None, ready=None, phase="Pending"), now=seen)
    assert seen == pods_of(fleet)["web-1"].placed_at
    fleet.on_pod(None, a_pod(placed=whole, started=whole, ready=whole + 1), whole + 1.3)

    pod = pods_of(fleet)["web-1"]
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
def test_times_that_were_not_seen(pod: Pod, placed: float, running: float | None) -> None:
    """From the best of what the object tells; a readiness that was lost and found says nothing of the start."""
    told = pods_of(a_fleet(pod))["web-1"]

    assert (placed, running) == (told.placed_at, told.running_since)


def test_known_times_stay() -> None:
    """A later event of the same pod does not move its start."""
    fleet = a_fleet(a_pod())
    fleet.on_pod(a_pod(), a_pod(ready=NOW), NOW)

    assert NOW - 495 == pods_of(fleet)["web-1"].running_since


@pytest.mark.parametrize(
    "end",
    [
        lambda fleet: fleet.on_pod(a_pod(), None, NOW),
        lambda fleet: fleet.on_pod(a_pod(), a_pod(phase="Succeeded"), NOW),
        lambda fleet: fleet.on_pod(a_pod(), a_pod(uid="other", phase="Pending"), NOW),
    ],
    ids=["deleted", "finished", "replaced by a namesake"],
)
def test_a_pod_that_left_is_told_as_gone(end: Any) -> None:
    """With its last measured usage, so that readers can take it off the means."""
    fleet = a_fleet(a_pod())
    fleet.record_usage({"uid-web-1": Resources(cpu=1.5)})
    fleet.record_usage({})
    end(fleet)
    placement = fleet.placement("a")

    assert placement is not None
    assert "uid-web-1" not in {pod.uid for pod in placement.pods}
    (gone,) = placement.gone
    assert (NOW - 495, NOW, Resources(cpu=1.5)) == (gone.running_since, gone.gone_at, gone.usage)
    assert gone.workload is not None


def test_a_pod_that_never_ran_leaves_nothing() -> None:
    """It is in no mean."""
    fleet = a_fleet(a_pod(phase="Pending"))
    fleet.on_pod(a_pod(phase="Pending"), None, NOW)
    placement = fleet.placement("a")

    assert placement is not None
    assert ([], []) == (placement.pods, placement.gone)


def test_usage_that_rounds_no_longer_see_is_forgotten() -> None:
    """A pod that was not measured for so long has an unknown usage, and none stays in memory."""
    fleet = a_fleet(a_pod())
    fleet.record_usage({"uid-web-1": Resources(cpu=1.5)})
    for _ in range(USAGE_ROUNDS):
        fleet.record_usage({})
    fleet.on_pod(a_pod(), None, NOW)
    placement = fleet.placement("a")

    assert placement is not None
    assert [Resources()] == [gone.usage for gone in placement.gone]


def test_gone_pods_are_forgotten_when_no_window_shows_them() -> None:
    """The longest window decides; a short job drops out of long windows at once."""
    fleet = a_fleet(a_pod(), a_pod("job", started=NOW - 20, ready=None))
    for name in ("web-1", "job"):
        fleet.on_pod(a_pod(name), None, NOW)

    def gone(now: float) -> set[str]:
        fleet.prune_gone("a", now)
        placement = fleet.placement("a")
        assert placement is not None
        return {pod.name for pod in placement.gone}

    assert {"web-1", "job"} == gone(NOW + 1)
    assert {"web-1"} == gone(NOW + 300)
    assert set() == gone(NOW + 3_600)


def test_gone_pods_are_bounded() -> None:
    """A node of very many short pods still fits into one message; the latest are told."""
    fleet = a_fleet()
    for number in range(MAX_GONE + 5):
        fleet.on_pod(None, a_pod(f"p{number}"), NOW)
        fleet.on_pod(a_pod(f"p{number}"), None, NOW + number / 1000)
    fleet.prune_gone("a", NOW + 1)
    placement = fleet.placement("a")

    assert placement is not None
    assert MAX_GONE == len(placement.gone)
    assert f"p{MAX_GONE + 4}" == placement.gone[-1].name


def test_a_deleted_node_is_told_as_removed() -> None:
    """And its successor of the same name starts without its gone pods."""
    fleet = a_fleet(a_pod())
    fleet.on_pod(a_pod(), None, NOW)
    fleet.on_node(a_node(), None)
    removed = fleet.placement("a")
    fleet.on_node(None, a_node(uid="new"))
    anew = fleet.placement("a")

    assert removed is not None
    assert (True, "uid-a") == (removed.removed, removed.uid)
    assert anew is not None
    assert ("new", [], False) == (anew.uid, anew.gone, anew.removed)


def test_only_nodes_of_the_selector_are_told() -> None:
    """A node that loses the label is removed."""
    fleet = a_fleet(selector={"pool": "x"})
    fleet.on_node(a_node(), a_node(metadata=ObjectMeta(name="a", uid="uid-a")))
    placement = fleet.placement("a")

    assert placement is not None
    assert placement.removed
    fleet.on_node(None, a_node("b", metadata=ObjectMeta(name="b")))
    assert fleet.placement("b") is None


def test_owners_of_pods_that_left_are_remembered() -> None:
    """Their samples of the last hours are still to be folded into their workload."""
    fleet = a_fleet(a_pod())
    fleet.on_pod(a_pod(), None, NOW)
    workload, node = fleet.departed["shop", "web-1"]
    fleet.prune(NOW + 3_601)

    assert ("web", "a") == (workload and workload.name, node)
    assert {} == fleet.departed


def test_the_owner_of_a_name_that_returns_is_remembered_from_when_it_left_last() -> None:
    """As a StatefulSet's pods do; and one who left before is not remembered for as long as that."""
    fleet = a_fleet(a_pod("db-0"), a_pod("db-1"))
    fleet.on_pod(a_pod("db-0"), None, NOW)
    fleet.on_pod(a_pod("db-1"), None, NOW + 1_000)
    fleet.on_pod(None, a_pod("db-0", uid="again"), NOW + 1_500)
    fleet.on_pod(a_pod("db-0", uid="again"), None, NOW + 2_000)
    fleet.prune(NOW + 1_000 + 3_601)

    assert {("shop", "db-0")} == fleet.departed.keys()


def test_quantities_that_are_none_are_unknown() -> None:
    """An object that no API server would let in does not stop the collector."""
    status = NodeStatus(allocatable={"cpu": "much", "pods": "x"}, capacity={})
    fleet = a_fleet()
    fleet.on_node(None, a_node(status=status))
    placement = fleet.placement("a")

    assert placement is not None
    assert (Resources(), Resources(), False) == (placement.allocatable, placement.capacity, placement.ready)


@pytest.mark.parametrize(
    ("labels", "expected"), [({}, "prod"), ({"koordinator.sh/priority-class": "koord-batch"}, "batch")]
)
def test_placement_carries_the_priority_class(labels: dict[str, str], expected: str) -> None:
    """Readers of placement see no labels of pods: Koordinator's are read here."""
    pod = a_pod()
    labeled = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))

    assert pods_of(a_fleet(trimmed(labeled)))["web-1"].priority_class == expected
