"""Pods that wait for room, and full nodes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from builders import GIB, NOW
from descheduler.cluster_states import a_node, a_pod, changed_node, pod_info

from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerStatus, Pod, PodSpec, PodStatus
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.scheduling.model.pod_info import PodInfo

FULL = {"cpu": 4.0, "memory": 16 * GIB, "pods": 110.0}
"""The amounts of a small node."""


def condition(kind: str, reason: str, *, status: str, waited: float | None) -> Condition:
    """`waited`: seconds since the condition changed; None: unknown."""
    since = None if waited is None else datetime.fromtimestamp(NOW - waited, UTC)
    return Condition(type=kind, status=status, reason=reason, last_transition_time=since)


@cache  # the tests of the laws build thousands
def resizing_info(
    name: str,
    cpu: str,
    *,
    has: str = "500m",
    reason: str = "Deferred",
    waited: float | None = 600.0,
    node: str = "node-a",
    reported: bool = True,
    generation: int = 2,
    priority: int = 0,
    status: str = "True",
) -> PodInfo:
    """A pod of 1 GiB with `has` cores that wants `cpu`. `reported`: whether the kubelet reports what it has."""
    held = {"cpu": has, "memory": "1Gi"}
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"}))
    reports = ContainerStatus(name="main", resources=ResourceRequirements(requests=held), allocated_resources=held)
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", generation=generation),
            spec=PodSpec(node_name=node, containers=[container], priority=priority),
            status=PodStatus(
                phase="Running",
                conditions=[condition("PodResizePending", reason, status=status, waited=waited)],
                container_statuses=(reports,) if reported else (),
            ),
        )
    )


def resizing_pod(name: str, cpu: str, *, node: str = "node-a", protection: str = "", **fields: Any) -> MovablePod:
    """The same as a pod that may move; other `fields` are those of `resizing_info`."""
    info = resizing_info(name, cpu, node=node, **fields)
    return a_pod(name, cpu=0.2, memory=GIB / 4, info=info, priority=info.priority, protection=protection)


def unschedulable_info(
    name: str,
    requests: Mapping[str, float],
    *,
    waited: float | None = 600.0,
    reason: str = "Unschedulable",
    **spec: Any,
) -> PodInfo:
    """A pod that kube-scheduler could not place."""
    pod = pod_info(name, requests, **spec).pod
    conditions = [condition("PodScheduled", reason, status="False", waited=waited)]
    return PodInfo(Pod(metadata=pod.metadata, spec=pod.spec, status=PodStatus(phase="Pending", conditions=conditions)))


@cache
def _sized_info(name: str, cpu: float, memory: float) -> PodInfo:
    return pod_info(name, {"cpu": cpu, "memory": memory})


def sized_pod(name: str, cpu: float, memory: float = GIB, **fields: Any) -> MovablePod:
    """A pod that requests these amounts, and uses a tenth of them."""
    return a_pod(name, cpu=cpu / 10, memory=memory / 10, info=_sized_info(name, cpu, memory), **fields)


def small_node(
    name: str, pods: Sequence[MovablePod] = (), *, allocatable: Mapping[str, float] = FULL, **fields: Any
) -> ClusterNode:
    """A node of 4 cores."""
    return changed_node(a_node(name, pods, **fields), allocatable=allocatable)
