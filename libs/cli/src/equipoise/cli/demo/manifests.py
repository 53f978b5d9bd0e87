"""A trace as Kubernetes objects: nodes, Deployments with usage curves, PodDisruptionBudgets, a DaemonSet."""

from equipoise.lab.model.trace import Trace, TraceWorkload
from equipoise.testbed.objects import (
    Manifest,
    constant_usage_annotations,
    daemon_set,
    deployment,
    namespace,
    node,
    pod_disruption_budget,
    pod_template,
    usage_annotations,
)

NAMESPACE = "shop"
EXCLUDED_NAMESPACE = "payments"
BURST_NAMESPACE = "launch"
DAEMON_SET = "node-agent"
DAEMON_SET_CPU_MILLI = 100
BURST = "newcomer"

BUDGETS = 4
"""Every fourth workload has a PodDisruptionBudget."""

_SPEC = {"terminationGracePeriodSeconds": 1}


def namespace_documents() -> list[Manifest]:
    return [namespace(name) for name in (NAMESPACE, EXCLUDED_NAMESPACE, BURST_NAMESPACE)]


def node_documents(trace: Trace) -> list[Manifest]:
    """The nodes of the trace.

    A real machine throttles its pods when all cores are busy, but the usage of fake pods is only summed. A sum above
    the node's capacity would be invalid and therefore unknown, so that no pod would be moved off the hottest nodes. For
    this reason the capacity is twice the allocatable CPU.
    """
    documents = []
    for trace_node in trace.nodes:
        manifest = node(
            trace_node.name,
            cpu=f"{trace_node.cpu_milli}m",
            memory=f"{trace_node.memory_mib}Mi",
            labels={"kubernetes.io/os": "linux"},
        )
        manifest["status"]["capacity"] = manifest["status"]["allocatable"] | {"cpu": f"{2 * trace_node.cpu_milli}m"}
        documents.append(manifest)
    return documents


def workload_documents(trace: Trace, *, epoch: int, step_seconds: int, max_unavailable: int = 1) -> list[Manifest]:
    """All workloads, as Deployments. Step 0 of the curves begins at Unix second `epoch`.

    `max_unavailable`: that of all budgets; 0: they allow no eviction.
    """
    agent = pod_template(
        DAEMON_SET,
        cpu="50m",
        memory="64Mi",
        annotations=constant_usage_annotations(DAEMON_SET_CPU_MILLI, 64.0),
        spec=_SPEC,
    )
    priorities = sorted({workload.priority for workload in trace.workloads} - {0})
    documents = [*map(_priority_class, priorities), daemon_set(DAEMON_SET, agent, namespace=NAMESPACE)]
    for index, (workload, replicas) in enumerate(zip(trace.workloads, trace.replicas().tolist(), strict=True)):
        curves = trace.cpu_milli[index].tolist(), trace.memory_mib[index].tolist()
        documents.append(_deployment(workload, replicas, usage_annotations(*curves, step_seconds, epoch)))
        if index % BUDGETS == 0:
            name, namespace = workload.name, workload.namespace
            budget = pod_disruption_budget(name, name, max_unavailable=max_unavailable, namespace=namespace)
            documents.append(budget)
    return documents


def burst_document(trace: Trace, pods: int) -> Manifest:
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


def _deployment(workload: TraceWorkload, replicas: int, usage: dict[str, str]) -> Manifest:
    request = {"cpu": f"{workload.request_cpu_milli}m", "memory": f"{workload.request_memory_mib}Mi"}
    template = pod_template(workload.name, **request, annotations=usage, spec=_SPEC)
    if workload.limit_cpu_milli is not None:
        template["spec"]["containers"][0]["resources"]["limits"] = {"cpu": f"{workload.limit_cpu_milli}m"}
    if workload.priority:
        template["spec"] = template["spec"] | {"priorityClassName": _priority_name(workload.priority)}
    return deployment(workload.name, template, replicas=replicas, namespace=workload.namespace)


def _priority_class(priority: int) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _priority_name(priority)},
        "value": priority,
    }


def _priority_name(priority: int) -> str:
    return f"priority-{priority}"
