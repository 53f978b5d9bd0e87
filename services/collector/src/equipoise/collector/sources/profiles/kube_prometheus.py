"""node-exporter, cAdvisor and kube-state-metrics, labelled as kube-prometheus-stack labels them.

Nodes come from node-exporter: the chart drops cAdvisor's cgroups without a pod, and with them the root cgroup. Its
series name their node by `instance`, an address and port; kube_node_info says whose address that is. Memory in use is
total − free − inactive file, which is how the kubelet itself finds a node's working set.

Pods come from the cgroup that cAdvisor shows for the pod as a whole. It holds its containers and the sandbox once, it
is one series per pod, and its counter goes on when a container starts anew. Series of containers and of the sandbox
have an image or a name; the kubelet's own page has the containers of the same metric once more, with neither.
"""

from collections.abc import Mapping

from equipoise.collector.decisions.query import Subject
from equipoise.collector.sources.profiles.profile import MemoryKind, Profile, Usage
from equipoise.collector.sources.profiles.raw import Counter, Gauge

NODE_INFO = "kube_node_info"

BUSY = 'mode=~"user|nice|system|irq|softirq"'
"""Waiting for a disk uses no cpu, and what the hypervisor stole was not ours; guests are counted as user already."""

ONE_PART = ('cpu="0"', 'mode="user"')

WHOLE_POD = ('container=""', 'image=""', 'name=""', 'pod!=""')

_SPACED = ('namespace="kube-system"',)
"""Of these there are some on nearly every node, and few in all."""

NODE_CPU = Counter(metric="node_cpu_seconds_total", conditions=(BUSY,), parts=("cpu", "mode"), witness=ONE_PART)
NODE_WORKING_SET = Gauge(
    metric="node_memory_MemTotal_bytes", less=("node_memory_MemFree_bytes", "node_memory_Inactive_file_bytes")
)
POD_CPU = Counter(metric="container_cpu_usage_seconds_total", conditions=WHOLE_POD, spaced=_SPACED)
POD_MEMORY: Mapping[MemoryKind, Usage] = {
    "workingSet": Gauge(metric="container_memory_working_set_bytes", conditions=WHOLE_POD),
    "anonymous": Gauge(metric="container_memory_rss", conditions=WHOLE_POD),
}

_NODE_MEMORY: Mapping[MemoryKind, Usage] = {
    "workingSet": NODE_WORKING_SET,
    "anonymous": Gauge(metric="node_memory_AnonPages_bytes"),
}


def _memory(kind: MemoryKind) -> Mapping[Subject, Usage]:
    return {"node": _NODE_MEMORY[kind], "pod": POD_MEMORY[kind]}


KUBE_PROMETHEUS = Profile(
    cpu={"node": NODE_CPU, "pod": POD_CPU},
    memory={"workingSet": _memory("workingSet"), "anonymous": _memory("anonymous")},
    node_info=NODE_INFO,
)
