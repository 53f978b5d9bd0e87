"""Reads of owners and of workloads of any kind."""

from datetime import UTC, datetime
from typing import Any

import pytest
from binder.worlds import World
from builders import NOW
from kube_objects import a_pod, owned_by

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.objects.workload import CustomStatus, CustomWorkload, Scale, ScaleSpec, ScaleStatus
from equipoise.runtime.kubernetes.client import PODS, Resource, scale_of

ETCD = Resource(group="coreos.com", version="v1", plural="etcds", kind="Etcd", model=CustomWorkload)


def _custom(world: World, *, ready: int | None = 10, scale: bool = True, **metadata: Any) -> None:
    """web-1 belongs to an Etcd of ten replicas, an unknown kind."""
    world.kube.put(PODS, a_pod("web-1", metadata={"owner_references": owned_by("Etcd", "main", "coreos.com")}))
    meta = ObjectMeta(name="main", namespace="shop", uid="uid-main", **metadata)
    world.kube.put(ETCD, CustomWorkload(metadata=meta, status=CustomStatus(ready_replicas=ready)))
    world.kube.put(
        scale_of(ETCD),
        Scale(
            metadata=ObjectMeta(name="main", namespace="shop"),
            spec=ScaleSpec(replicas=10),
            status=ScaleStatus(replicas=10),
        ),
    )
    if scale:
        world.kube.scalable["coreos.com", "Etcd"] = ETCD


async def test_a_pod_of_a_scalable_custom_kind_is_evicted(world: World) -> None:
    """Its replicas are those of the scale subresource; the Event is on the custom object too."""
    _custom(world)
    assert await world.outcome_of("web-1") == "evicted"
    workload = world.ledger.entries[0].workload
    assert workload is not None
    assert (workload.kind, workload.group, workload.name) == ("Etcd", "coreos.com", "main")
    assert [(event.regarding.kind, event.regarding.api_version) for event in world.kube.events] == [
        ("Pod", "v1"),
        ("Etcd", "coreos.com/v1"),
    ]


async def test_limits_of_a_custom_kind_follow_its_scale(world: World) -> None:
    """Two of ten may be missing, the third may not."""
    _custom(world, ready=8)
    assert await world.outcome_of("web-1") == "rejected_limit"
    assert world.outcomes[0].limit == "unavailablePerWorkload"


CUSTOM: dict[str, tuple[dict[str, Any], str]] = {
    "no scale subresource": ({"scale": False}, "no scale subresource"),
    "readiness not reported": ({"ready": None}, "status.readyReplicas"),
    "opted out": ({"annotations": {"equipoise.dev/evict": "false"}}, "equipoise.dev/evict"),
    "being deleted": ({"deletion_timestamp": datetime.fromtimestamp(NOW, UTC)}, "being deleted"),
}


@pytest.mark.parametrize("name", CUSTOM)
async def test_other_custom_kinds_are_protected(world: World, name: str) -> None:
    """By what the kind does not report, and by everything that protects others."""
    fields, expected = CUSTOM[name]
    _custom(world, **fields)
    assert await world.outcome_of("web-1") == "rejected_policy"
    assert expected in world.outcomes[0].detail


async def test_a_custom_kind_that_may_not_be_read_is_protected(world: World) -> None:
    """The outcome names the permission to grant."""
    _custom(world)
    world.kube.refuse("get", resource="etcds")
    assert await world.outcome_of("web-1") == "rejected_policy"
    assert "grant `get`" in world.outcomes[0].detail


async def test_only_the_controller_among_several_owners_counts(world: World) -> None:
    """The kinds of the others need not be known."""
    owners = [OwnerReference(kind="Config", name="c", uid="c"), *owned_by("ReplicaSet", "web-rs")]
    world.kube.put(PODS, a_pod("web-1", metadata={"owner_references": owners}))
    assert await world.outcome_of("web-1") == "evicted"
