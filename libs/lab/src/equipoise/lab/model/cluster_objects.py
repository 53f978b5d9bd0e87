"""The nodes and pods of a trace as the objects of Kubernetes that kube-scheduler reads."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.kubernetes.labels import HOSTNAME, REGION, ZONE
from equipoise.contracts.kubernetes.objects.metadata import (
    LabelSelector,
    Object,
    ObjectMeta,
    OwnerReference,
    ResourceRequirements,
)
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import (
    Container,
    Pod,
    PodSpec,
    SchedulingGroup,
    TopologySpreadConstraint,
)
from equipoise.contracts.kubernetes.objects.workload import (
    ReplicationController,
    ReplicationControllerSpec,
    WorkloadObject,
    WorkloadSpec,
)
from equipoise.lab.model.trace import TraceNode, TraceWorkload
from equipoise.scheduling.model.pod_info import PodInfo

APP, KIND, REVISION = "app", "kind", "pod-template-hash"
"""Labels of the pods: name and kind of their workload, and the revision of a Deployment."""

WORKLOAD = "workload"
"""Label of the pods: kind and name in one, so that a selector can select pods of several workloads."""

_OWNERS = {
    "Deployment": ("apps/v1", "ReplicaSet"),
    "ReplicaSet": ("apps/v1", "ReplicaSet"),
    "StatefulSet": ("apps/v1", "StatefulSet"),
    "ReplicationController": ("v1", "ReplicationController"),
}
"""(API version, kind) of the owner of the pods, for workloads that kube-scheduler spreads even without a Service."""


def node_labels(node: TraceNode) -> dict[str, str]:
    zones = {ZONE: node.zone, REGION: node.region}
    return {HOSTNAME: node.name} | {key: value for key, value in zones.items() if value}


def node_object(node: TraceNode) -> Node:
    size = {"cpu": f"{node.cpu_milli}m", "memory": f"{node.memory_mib}Mi", "pods": str(node.pods)}
    size |= _quantities(node.extended_resources)
    return Node(
        metadata=ObjectMeta(name=node.name, uid=node.name, labels=node_labels(node)),
        spec=NodeSpec(taints=list(node.taints)),
        status=NodeStatus(allocatable=size, capacity=size),
    )


def pod_template(workload: TraceWorkload, revision: int = 0) -> PodInfo:
    """A pod of the workload, of which `PodInfo.replica` makes copies. A request of 0 in the trace means no request."""
    requests = _quantities(workload.extended_resources)
    if workload.request_cpu_milli:
        requests["cpu"] = f"{workload.request_cpu_milli}m"
    if workload.request_memory_mib:
        requests["memory"] = f"{workload.request_memory_mib}Mi"
    owners = []
    if workload.kind in _OWNERS:
        version, kind = _OWNERS[workload.kind]
        name = _owner_name(workload, revision)
        owners.append(OwnerReference(api_version=version, kind=kind, name=name, uid=name, controller=True))
    return PodInfo(
        Pod(
            metadata=ObjectMeta(
                name=workload.name,
                namespace=workload.namespace,
                labels=_labels(workload, revision),
                owner_references=owners,
            ),
            spec=PodSpec(
                containers=[Container(name="main", resources=ResourceRequirements(requests=requests))],
                tolerations=list(workload.tolerations),
                topology_spread_constraints=_spread_constraints(workload),
                priority=workload.priority,
                preemption_policy=workload.preemption_policy,
                scheduling_group=SchedulingGroup(pod_group_name=workload.gang) if workload.gang else None,
            ),
        )
    )


def detached(pod: PodInfo) -> PodInfo:
    """The pod after its ReplicaSet has released it, because it lacks the label of the revision. An annotation has the
    value."""
    metadata = pod.pod.metadata
    labels = dict(metadata.labels)
    recorded = {DETACHED_HASH: labels.pop(REVISION)}
    metadata = msgspec.structs.replace(metadata, labels=labels, annotations=recorded, owner_references=[])
    return PodInfo(msgspec.structs.replace(pod.pod, metadata=metadata)).replica(pod.name, pod.uid)


def owner_of_pods(workload: TraceWorkload, revision: int = 0) -> Object | None:
    """The owner of the pods, whose selector kube-scheduler uses to spread them; None if it does not spread them."""
    if workload.kind not in _OWNERS:
        return None
    _, kind = _OWNERS[workload.kind]
    metadata = ObjectMeta(name=_owner_name(workload, revision), namespace=workload.namespace)
    labels = _labels(workload, revision)
    if kind == "ReplicationController":
        return ReplicationController(kind=kind, metadata=metadata, spec=ReplicationControllerSpec(selector=labels))
    return WorkloadObject(kind=kind, metadata=metadata, spec=WorkloadSpec(selector=LabelSelector(match_labels=labels)))


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _owner_name(workload: TraceWorkload, revision: int) -> str:
    return f"{workload.name}-{revision}" if workload.kind == "Deployment" else workload.name


def pod_labels(workload: TraceWorkload) -> dict[str, str]:
    """The labels that selectors in a trace may use: pods of every revision have them."""
    return {APP: workload.name, KIND: workload.kind}


def workload_label(workload: TraceWorkload) -> str:
    return f"{workload.kind}/{workload.name}"


def _spread_constraints(workload: TraceWorkload) -> list[TopologySpreadConstraint]:
    own = LabelSelector(match_labels=pod_labels(workload))
    return [
        msgspec.structs.replace(constraint, label_selector=constraint.label_selector or own)
        for constraint in workload.topology_spread
    ]


def _labels(workload: TraceWorkload, revision: int) -> dict[str, str]:
    labels = pod_labels(workload) | {WORKLOAD: workload_label(workload)}
    if workload.kind == "Deployment":
        labels[REVISION] = str(revision)
    return labels
