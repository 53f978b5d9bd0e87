"""The kubelets' own resource metrics, from /metrics/resource: one series per node, pod and resource."""

from equipoise.collector.decisions.profiles.query_profile import QueryProfile
from equipoise.collector.decisions.profiles.raw import CpuCounter, MemoryGauge

NODE_CPU = "node_cpu_usage_seconds_total"
NODE_MEMORY = "node_memory_working_set_bytes"
POD_CPU = "pod_cpu_usage_seconds_total"
POD_MEMORY = "pod_memory_working_set_bytes"

KUBELET = QueryProfile(
    # Nodes and pods are on one page, so the spacing of the nodes' samples is that of the pods' samples too.
    cpu={"node": CpuCounter(metric=NODE_CPU), "pod": CpuCounter(metric=POD_CPU, has_spacing=False)},
    memory={
        "workingSet": {
            "node": MemoryGauge(metric=NODE_MEMORY),
            "pod": MemoryGauge(metric=POD_MEMORY, has_spacing=False),
        }
    },
)
