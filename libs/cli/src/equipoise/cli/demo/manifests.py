"""A trace as Kubernetes objects: nodes, Deployments with usage curves, PodDisruptionBudgets, a DaemonSet."""

from typing import Any

from equipoise.lab.model.trace import Trace, TraceWorkload
from equipoise.testbed.objects import constant_usage_annotations, usage_annotations

Document = dict[str, Any]

NAMESPACE = "shop"
EXCLUDED_NAMESPACE = "payments"
BURST_NAMESPACE = "launch"
DAEMON_SET = "node-agent"
BURST = "newcomer"

BUDGETS = 4
"""Every fourth workload has a PodDisruptionBudget."""


def namespace_documents() -> list[Document]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (NAMESPACE, EXCLUDED_NAMESPACE, BURST_NAMESPACE)
    ]


def node_documents(trace: Trace) -> list[Document]:
    return [_node(node.name, node.cpu_milli, node.memory_mib) for node in trace.nodes]


def _node(name: str, cpu_milli: int, memory_mib: int) -> Document:
    amounts = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi", "pods": "110"}
    # A real machine throttles its pods when all cores are busy; the usage of fake pods is just added up. Usage above
    # the node's capacity would be invalid, so unknown, and the hottest nodes would never be relieved.
    machine = amounts | {"cpu": f"{2 * cpu_milli}m"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": machine},
    }


def workload_documents(trace: Trace, *, epoch: int, step_seconds: int) -> list[Document]:
    """All workloads, as Deployments. Step 0 of the curves begins at Unix second `epoch`."""
    documents = [_daemon_set()]
    for index, (workload, replicas) in enumerate(zip(trace.workloads, trace.replicas().tolist(), strict=True)):
        curves = trace.cpu_milli[index].tolist(), trace.memory_mib[index].tolist()
        documents.append(_deployment(workload, replicas, usage_annotations(*curves, step_seconds, epoch)))
        if index % BUDGETS == 0:
            documents.append(_budget(workload))
    return documents


def burst_document(trace: Trace, pods: int) -> Document:
    """A new workload, without any measurement, that uses 8 % of the cluster's CPU, about what it requests."""
    cpu_milli = round(0.08 * sum(node.cpu_milli for node in trace.nodes) / pods)
    memory_mib = round(0.015 * sum(node.memory_mib for node in trace.nodes) / pods)
    newcomer = TraceWorkload(
        name=BURST,
        namespace=BURST_NAMESPACE,
        request_cpu_milli=round(1.1 * cpu_milli),
        request_memory_mib=memory_mib,
    )
    return _deployment(newcomer, pods, constant_usage_annotations(cpu_milli, memory_mib))


def _deployment(workload: TraceWorkload, replicas: int, usage: dict[str, str]) -> Document:
    labels = {"app": workload.name}
    resources: Document = {
        "requests": {"cpu": f"{workload.request_cpu_milli}m", "memory": f"{workload.request_memory_mib}Mi"}
    }
    if workload.limit_cpu_milli is not None:
        resources["limits"] = {"cpu": f"{workload.limit_cpu_milli}m"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": usage},
                "spec": _pod_spec(resources),
            },
        },
    }


def _pod_spec(resources: Document) -> Document:
    return {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "pause", "resources": resources}],
    }


def _daemon_set() -> Document:
    labels = {"app": DAEMON_SET}
    resources = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMON_SET, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": constant_usage_annotations(100.0, 64.0)},
                "spec": _pod_spec(resources),
            },
        },
    }


def _budget(workload: TraceWorkload) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": workload.name}}},
    }
