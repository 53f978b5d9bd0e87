"""node-exporter, cAdvisor and kube-state-metrics, with the labels of kube-prometheus-stack.

Nodes come from node-exporter: the chart drops cAdvisor's cgroups without a pod, and with them the root cgroup. Its
series name their node by `instance`, an address and port; kube_node_info maps addresses to nodes. Used memory is total
− free − inactive file, which is how the kubelet itself computes a node's working set.

Pods come from the cgroup that cAdvisor shows for the whole pod. It includes its containers and the sandbox once, it is
one series per pod, and its counter continues when a container restarts. Series of containers and of the sandbox have an
image or a name; the kubelet's own page has the containers of the same metric again, with neither.
"""

from collections.abc import Mapping

from equipoise.collector.decisions.profiles.query_profile import MemoryKind, QueryProfile, UsageQueries
from equipoise.collector.decisions.profiles.raw import CpuCounter, MemoryGauge
from equipoise.collector.decisions.query import Subject

NODE_INFO = "kube_node_info"

BUSY_MODES = 'mode=~"user|nice|system|irq|softirq"'
"""Waiting for a disk uses no cpu, and stolen time was used by others; guests are counted as user already."""

ONE_PART = ('cpu="0"', 'mode="user"')

WHOLE_POD = ('container=""', 'image=""', 'name=""', 'pod!=""')

_SPACING = ('namespace="kube-system"',)
"""Nearly every node has some of these pods, and they are few in total."""

NODE_CPU = CpuCounter(
    metric="node_cpu_seconds_total", conditions=(BUSY_MODES,), parts=("cpu", "mode"), one_part=ONE_PART
)
NODE_WORKING_SET = MemoryGauge(
    metric="node_memory_MemTotal_bytes", minus=("node_memory_MemFree_bytes", "node_memory_Inactive_file_bytes")
)
POD_CPU = CpuCounter(metric="container_cpu_usage_seconds_total", conditions=WHOLE_POD, spacing_conditions=_SPACING)
POD_MEMORY: Mapping[MemoryKind, UsageQueries] = {
    "workingSet": MemoryGauge(metric="container_memory_working_set_bytes", conditions=WHOLE_POD),
    "anonymous": MemoryGauge(metric="container_memory_rss", conditions=WHOLE_POD),
}

_NODE_MEMORY: Mapping[MemoryKind, UsageQueries] = {
    "workingSet": NODE_WORKING_SET,
    "anonymous": MemoryGauge(metric="node_memory_AnonPages_bytes"),
}


def _memory(kind: MemoryKind) -> Mapping[Subject, UsageQueries]:
    return {"node": _NODE_MEMORY[kind], "pod": POD_MEMORY[kind]}


KUBE_PROMETHEUS = QueryProfile(
    cpu={"node": NODE_CPU, "pod": POD_CPU},
    memory={"workingSet": _memory("workingSet"), "anonymous": _memory("anonymous")},
    node_info=NODE_INFO,
)
