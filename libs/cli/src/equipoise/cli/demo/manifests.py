"""A trace as Kubernetes objects: nodes, Deployments whose pods carry their usage curves, budgets, a DaemonSet."""

from typing import Any

from equipoise.cli.demo.trace import Trace, TraceWorkload
from equipoise.testbed.usage import constant_usage_annotations, usage_annotations

Document = dict[str, Any]

NAMESPACE = "shop"
EXCLUDED_NAMESPACE = "payments"
BURST_NAMESPACE = "launch"
DAEMON_SET = "node-agent"
BURST = "newcomer"


def namespace_documents() -> list[Document]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (NAMESPACE, EXCLUDED_NAMESPACE, BURST_NAMESPACE)
    ]


def node_documents(trace: Trace) -> list[Document]:
    return [_node(node.name, node.cpu_milli, node.memory_mib) for node in trace.nodes]


def _node(name: str, cpu_milli: int, memory_mib: int) -> Document:
    amounts = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi", "pods": "110"}
    # A real machine slows its pods down when all cores are busy; a fake one just adds up what they say. Usage above its
    # cores would be an impossible reading, so unknown, and its hottest nodes would stay for ever.
    machine = amounts | {"cpu": f"{2 * cpu_milli}m"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": machine},
    }


def workload_documents(trace: Trace, *, epoch: int, step_seconds: int) -> list[Document]:
    """Everything that runs before Equipoise joins. Step 0 of the curves begins at Unix second `epoch`."""
    documents = [_daemon_set()]
    for workload in trace.workloads:
        usage = usage_annotations(workload.cpu_milli, workload.memory_mib, step_seconds, epoch)
        namespace = EXCLUDED_NAMESPACE if workload.excluded else NAMESPACE
        documents.append(_deployment(workload, namespace, usage))
        if workload.protected_by_budget:
            documents.append(_budget(workload.name, namespace))
    return documents


def burst_document(trace: Trace, pods: int) -> Document:
    """A workload that was never measured, and uses about what it asks for: together 8 % of the fleet's CPU."""
    cpu_milli = round(0.08 * sum(node.cpu_milli for node in trace.nodes) / pods)
    memory_mib = round(0.015 * sum(node.memory_mib for node in trace.nodes) / pods)
    newcomer = TraceWorkload(
        name=BURST,
        replicas=pods,
        request_cpu_milli=round(1.1 * cpu_milli),
        request_memory_mib=memory_mib,
        cpu_milli=(float(cpu_milli),),
        memory_mib=(float(memory_mib),),
    )
    return _deployment(newcomer, BURST_NAMESPACE, constant_usage_annotations(float(cpu_milli), float(memory_mib)))


def _deployment(workload: TraceWorkload, namespace: str, usage: dict[str, str]) -> Document:
    labels = {"app": workload.name}
    resources: Document = {
        "requests": {"cpu": f"{workload.request_cpu_milli}m", "memory": f"{workload.request_memory_mib}Mi"}
    }
    if workload.limit_cpu_milli is not None:
        resources["limits"] = {"cpu": f"{workload.limit_cpu_milli}m"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name, "namespace": namespace},
        "spec": {
            "replicas": workload.replicas,
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


def _budget(name: str, namespace: str) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    }
