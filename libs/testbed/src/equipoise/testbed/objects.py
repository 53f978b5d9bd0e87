"""Manifests of fake nodes and of plain workloads, as dicts for `Cluster.apply`."""

from collections.abc import Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]


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
    """One container that requests what is given; `spec` completes the pod's, `annotations` hold its usage."""
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


def _workload(kind: str, name: str, namespace: str, template: Manifest, spec: Mapping[str, Any]) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    }
