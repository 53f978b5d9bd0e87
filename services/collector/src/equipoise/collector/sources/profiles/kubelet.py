"""The kubelets' own resource metrics, from /metrics/resource: one series per node, pod and resource."""

from equipoise.collector.sources.profiles.profile import Profile
from equipoise.collector.sources.profiles.raw import Counter, Gauge

NODE_CPU = "node_cpu_usage_seconds_total"
NODE_MEMORY = "node_memory_working_set_bytes"
POD_CPU = "pod_cpu_usage_seconds_total"
POD_MEMORY = "pod_memory_working_set_bytes"

KUBELET = Profile(
    # Nodes and pods are on one page: what is known of the nodes' spacing holds for pods.
    cpu={"node": Counter(metric=NODE_CPU), "pod": Counter(metric=POD_CPU, spaced=None)},
    memory={"workingSet": {"node": Gauge(metric=NODE_MEMORY), "pod": Gauge(metric=POD_MEMORY)}},
)
