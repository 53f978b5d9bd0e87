"""Pods, nodes and frameworks for the tests of the scheduling library."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, NodeStatus, Taint
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec, PodStatus
from equipoise.contracts.kubernetes.objects.workload import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from equipoise.scheduling.framework.framework import POINTS, Framework
from equipoise.scheduling.framework.plugin import Plugin
from equipoise.scheduling.model.pod_info import PodInfo


def a_node(
    name: str = "node-1",
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    cordoned: bool = False,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    **resources: str,
) -> Node:
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), **resources}
    return Node(
        metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
        spec=NodeSpec(taints=list(taints), unschedulable=cordoned),
        status=NodeStatus(allocatable=amounts, capacity=amounts),
    )


def a_pod(
    name: str = "pod-1",
    requests: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    priority: int = 0,
    started: float | None = None,
    terminating: bool = False,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PodInfo:
    """`started`: seconds since 1970."""
    start = None if started is None else datetime.fromtimestamp(started, UTC)
    container = Container(name="main", resources=ResourceRequirements(requests=dict(requests or {})))
    return PodInfo(
        Pod(
            metadata=ObjectMeta(
                name=name,
                namespace=namespace,
                uid=f"uid-{name}",
                labels=dict(labels or {}),
                deletion_timestamp=datetime.fromtimestamp(0, UTC) if terminating else None,
            ),
            spec=PodSpec(**({"containers": [container], "priority": priority} | spec)),
            status=PodStatus(**({"start_time": start} | dict(status or {}))),
        )
    )


def a_budget(allowed: int, *disrupted: str, namespace: str = "default", **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="budget", namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
        ),
    )


def a_framework(*plugins: Plugin, **weights: int) -> Framework:
    """Each plugin at every extension point that it implements, in this order."""
    points = {point: [each for each in plugins if isinstance(each, kinds)] for point, kinds in POINTS.items()}
    return Framework(points, weights)
