"""The kubelets' own resource metrics, from /metrics/resource: one series per node, pod and resource.

The timestamp of a sample is the time of its measurement. cAdvisor measures the node every 10 s, and each pod every 10
to 20 s, at random (`jitter` in its housekeeping). If Prometheus scrapes more often than every 20 s, pods have fewer
samples than their node.
"""

from equipoise.collector.decisions.profiles.query_profile import QueryProfile
from equipoise.collector.decisions.profiles.raw import CpuCounter, MemoryGauge

NODE_CPU = "node_cpu_usage_seconds_total"
NODE_MEMORY = "node_memory_working_set_bytes"
POD_CPU = "pod_cpu_usage_seconds_total"
POD_MEMORY = "pod_memory_working_set_bytes"

KUBELET = QueryProfile(
    cpu={"node": CpuCounter(metric=NODE_CPU), "pod": CpuCounter(metric=POD_CPU)},
    memory={
        "workingSet": {
            "node": MemoryGauge(metric=NODE_MEMORY),
            "pod": MemoryGauge(metric=POD_MEMORY),
        }
    },
)
