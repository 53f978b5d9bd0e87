"""Manifests of fake nodes and of plain workloads, as dicts for `Cluster.apply`, and the usage of fake pods.

Usage is a curve in annotations, which kwok evaluates at every scrape with the expressions in `kwok.yaml`. The
annotations are part of the pod template, so a replay needs no API writes, and a replacement pod has the same curve.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]

PREFIX = "usage.testbed/"
MAXIMUM_BYTES = 256 * 1024  # Kubernetes' limit on all annotations of one object


def node(
    name: str,
    *,
    cpu: float | str = 16,
    memory: str = "64Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> Manifest:
    size = {"cpu": str(cpu), "memory": memory, "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"allocatable": size, "capacity": size},
    }


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod_template(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "128Mi",
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Manifest:
    """A pod template with one container that requests `cpu` and `memory`. `spec`: further fields of the pod.
    `annotations`: the usage of the pod."""
    return {
        "metadata": {"labels": {"app": name}, "annotations": dict(annotations or {})},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "fake",
                    "resources": {"requests": {"cpu": cpu, "memory": memory}},
                }
            ],
            **(spec or {}),
        },
    }


def deployment(name: str, template: Manifest, *, replicas: int = 1, namespace: str = "default") -> Manifest:
    return _workload("Deployment", name, namespace, template, {"replicas": replicas})


def stateful_set(name: str, template: Manifest, *, replicas: int = 1, namespace: str = "default") -> Manifest:
    return _workload(
        "StatefulSet",
        name,
        namespace,
        template,
        {"replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel"},
    )


def daemon_set(name: str, template: Manifest, *, namespace: str = "default") -> Manifest:
    return _workload("DaemonSet", name, namespace, template, {})


def pod(name: str, template: Manifest, *, namespace: str = "default") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name, "namespace": namespace},
        "spec": template["spec"],
    }


def pod_disruption_budget(
    name: str, app: str, *, max_unavailable: int | str = 1, namespace: str = "default"
) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": app}}},
    }


def eviction(name: str, *, namespace: str = "default", uid: str | None = None) -> Manifest:
    """The body of a POST to `…/pods/<name>/eviction`."""
    options = {} if uid is None else {"deleteOptions": {"preconditions": {"uid": uid}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        **options,
    }


def usage_annotations(
    cpu_milli: Sequence[float], memory_mib: Sequence[float], step_seconds: int, epoch: int
) -> dict[str, str]:
    """Annotations with a cyclic usage curve for *each container* of a pod. Step 0 begins at Unix second `epoch`."""
    if not cpu_milli or len(cpu_milli) != len(memory_mib):
        raise ValueError(
            f"a usage curve needs as many steps of cpu ({len(cpu_milli)}) as of memory ({len(memory_mib)}), "
            "and at least one"
        )
    if step_seconds < 1:
        raise ValueError(f"a usage curve needs steps of at least 1 second, not {step_seconds}")
    annotations = {
        f"{PREFIX}epoch": str(epoch),
        f"{PREFIX}step-seconds": str(step_seconds),
        f"{PREFIX}period-seconds": str(step_seconds * len(cpu_milli)),
    }
    for step, (cpu, memory) in enumerate(zip(cpu_milli, memory_mib, strict=True)):
        annotations[f"{PREFIX}cpu-{step}"] = f"{_decimal(cpu)}m"
        annotations[f"{PREFIX}memory-{step}"] = f"{_decimal(memory)}Mi"
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > MAXIMUM_BYTES:
        raise ValueError(f"a usage curve of {len(cpu_milli)} steps takes {size} bytes, over {MAXIMUM_BYTES}")
    return annotations


def constant_usage_annotations(cpu_milli: float, memory_mib: float) -> dict[str, str]:
    """Annotations with a constant usage of each container. A usage curve takes precedence."""
    return {
        "kwok.x-k8s.io/usage-cpu": f"{_decimal(cpu_milli)}m",
        "kwok.x-k8s.io/usage-memory": f"{_decimal(memory_mib)}Mi",
    }


def _decimal(value: float) -> str:
    """The number with at most three decimals and no exponent: 1e+06Mi is not a valid Quantity."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _workload(kind: str, name: str, namespace: str, template: Manifest, spec: Mapping[str, Any]) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    }
