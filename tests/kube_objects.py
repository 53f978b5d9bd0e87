"""Pods and what owns them, as the API server has them: running, ready, nothing rolling out."""

from datetime import UTC, datetime
from typing import Any

from builders import NOW

from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, OwnerReference, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec, PodStatus
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus


def owned_by(kind: str, name: str, group: str = "apps") -> list[OwnerReference]:
    return [
        OwnerReference(
            api_version=f"{group}/v1" if group else "v1", kind=kind, name=name, uid=f"uid-{name}", controller=True
        )
    ]


def a_pod(name: str = "web-1", *, owner: str = "web", node: str = "node-a", **fields: Any) -> Pod:
    """A running, ready pod of Deployment `owner` in namespace shop, with one request."""
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": "500m", "memory": "1Gi"}))
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": {"app": owner},
        "owner_references": owned_by("ReplicaSet", f"{owner}-rs"),
    }
    spec = {"node_name": node, "containers": [container]}
    status = {
        "phase": "Running",
        "conditions": [Condition(type="Ready", status="True")],
        "start_time": datetime.fromtimestamp(NOW - 90_000, UTC),
    }
    return Pod(
        metadata=ObjectMeta(**(metadata | fields.pop("metadata", {}))),
        spec=PodSpec(**(spec | fields.pop("spec", {}))),
        status=PodStatus(**(status | fields.pop("status", {}))),
    )


def a_deployment(
    name: str = "web", replicas: int = 10, *, spec_replicas: int | None = None, **status: Any
) -> WorkloadObject:
    """`replicas` pods, all ready and of the newest template; `spec_replicas`: how many there should be, if others."""
    counts = {
        "replicas": replicas,
        "ready_replicas": replicas,
        "updated_replicas": replicas,
        "available_replicas": replicas,
        "observed_generation": 1,
    }
    return WorkloadObject(
        kind="Deployment",
        metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", generation=1),
        spec=WorkloadSpec(replicas=replicas if spec_replicas is None else spec_replicas),
        status=WorkloadStatus(**(counts | status)),
    )


def a_replica_set(name: str = "web", replicas: int = 10) -> WorkloadObject:
    return WorkloadObject(
        kind="ReplicaSet",
        metadata=ObjectMeta(
            name=f"{name}-rs", namespace="shop", uid=f"uid-{name}-rs", owner_references=owned_by("Deployment", name)
        ),
        spec=WorkloadSpec(replicas=replicas),
        status=WorkloadStatus(replicas=replicas, ready_replicas=replicas),
    )


def a_lease(
    namespace: str, *, created: float = NOW - 1_000, renewed: float | None = NOW - 5, holder: str = "d-1"
) -> Lease:
    """The Lease of a descheduler that leads: each installation has one."""
    metadata = ObjectMeta(
        name="equipoise-descheduler", namespace=namespace, creation_timestamp=datetime.fromtimestamp(created, UTC)
    )
    renew_time = None if renewed is None else datetime.fromtimestamp(renewed, UTC)
    return Lease(metadata=metadata, spec=LeaseSpec(holder_identity=holder, renew_time=renew_time))
