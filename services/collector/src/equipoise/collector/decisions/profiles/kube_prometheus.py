"""node-exporter and cAdvisor, with the labels of kube-prometheus-stack.

The usage of nodes is read from node-exporter, because the chart drops cAdvisor's cgroups without a pod, including the
root cgroup. Used memory is total − free − inactive file, as the kubelet computes the working set of a node. The pool of
huge pages is subtracted, because neither the allocatable memory of a node nor the working set of a pod includes it.
"""

from equipoise.collector.decisions.profiles.pod_cgroups import PodCgroups
from equipoise.collector.decisions.profiles.query_profile import QueryProfile
from equipoise.collector.decisions.profiles.raw import CpuCounter, HugePages, MemoryGauge

BUSY_MODES = 'mode=~"user|nice|system|irq|softirq|steal"'
"""Steal is time in which a virtual machine wanted to run and did not: the node can give it to no pod (decision 44).
iowait is not included because it uses no CPU, and guest because `user` already includes it."""

ONE_PART = ('cpu="0"', 'mode="user"')

NODE_CPU = CpuCounter(
    metric="node_cpu_seconds_total",
    conditions=(BUSY_MODES,),
    parts=("cpu", "mode"),
    one_part=ONE_PART,
    of_each_core=('mode="user"',),
)
NODE_WORKING_SET = MemoryGauge(
    metric="node_memory_MemTotal_bytes",
    minus=("node_memory_MemFree_bytes", "node_memory_Inactive_file_bytes"),
    minus_huge_pages=HugePages(
        total="node_memory_Hugetlb_bytes",
        count="node_memory_HugePages_Total",
        size="node_memory_Hugepagesize_bytes",
        present="node_memory_MemFree_bytes",
    ),
)
POD_CPU = PodCgroups(metric="container_cpu_usage_seconds_total", kind="counter")
POD_WORKING_SET = PodCgroups(metric="container_memory_working_set_bytes", kind="gauge")

KUBE_PROMETHEUS = QueryProfile(
    cpu={"node": NODE_CPU, "pod": POD_CPU},
    memory={
        "workingSet": {"node": NODE_WORKING_SET, "pod": POD_WORKING_SET},
        "anonymous": {
            "node": MemoryGauge(metric="node_memory_AnonPages_bytes"),
            "pod": PodCgroups(metric="container_memory_rss", kind="gauge"),
        },
    },
)
