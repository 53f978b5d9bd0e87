"""Single replicas in a trace, and a Service for each workload."""

from collections.abc import Mapping

import msgspec
import numpy as np

from equipoise.lab.model.trace import Trace, TracePod, TraceWorkload
from equipoise.testbed.objects import Manifest

FEW = 4
"""Every other workload with at most this many pods becomes workloads of one pod."""


def with_single_replicas(trace: Trace) -> Trace:
    """The trace with the same pods, usage and requests, of which many are the only one of their workload."""
    workloads: list[TraceWorkload] = []
    pods: list[TracePod] = []
    rows: list[int] = []
    replicas = trace.replicas()
    for index, workload in enumerate(trace.workloads):
        own = [pod for pod in trace.pods if pod.workload == index]
        single = replicas[index] <= FEW and index % 2 == 0
        for number, part in enumerate([[pod] for pod in own] if single else [own]):
            pods += (msgspec.structs.replace(pod, workload=len(workloads)) for pod in part)
            name = f"{workload.name}-{number}" if single else workload.name
            workloads.append(msgspec.structs.replace(workload, name=name))
            rows.append(index)
    return msgspec.structs.replace(
        trace,
        workloads=tuple(workloads),
        pods=tuple(pods),
        cpu_milli=np.array(trace.cpu_milli[rows]),
        memory_mib=np.array(trace.memory_mib[rows]),
    )


def wanted_endpoints(trace: Trace) -> dict[str, int]:
    """The number of ready endpoints that the Service of each workload has, by `namespace/name`."""
    replicas = trace.replicas().tolist()
    return {
        f"{workload.namespace}/{workload.name}": number
        for workload, number in zip(trace.workloads, replicas, strict=True)
        if number
    }


def service_documents(wanted: Mapping[str, int]) -> list[Manifest]:
    """Services by `namespace/name`, each of the workload with its name. Headless: their number is not limited by
    addresses."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]},
        }
        for namespace, _, name in (service.partition("/") for service in wanted)
    ]
