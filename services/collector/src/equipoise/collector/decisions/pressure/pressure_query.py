"""Queries for pressure, and their PromQL. The metrics have the same names in every installation.

The kernel counts the time in which at least one process of a cgroup waited (`some` in its files), so the rate of the
counter is a share of time, at most 1. node-exporter has the counters of the machine, cAdvisor those of all cgroups,
also of the root cgroup, from Kubernetes 1.34 on.
"""

from typing import Literal, NamedTuple, get_args

import msgspec

from equipoise.collector.decisions.profiles.pod_cgroups import CONTAINERS, WHOLE_POD
from equipoise.collector.decisions.profiles.query_profile import Matchers, milliseconds, one_of, selector
from equipoise.collector.decisions.query import NodeMatcher, PodSeries, Subject

PressureResource = Literal["cpu", "memory", "io"]
PRESSURE_RESOURCES: tuple[PressureResource, ...] = get_args(PressureResource)

Measure = PressureResource | Literal["total", "newest", "throttled", "disk", "series"]
"""What a query is about. `cpu`, `memory`, `io`: the share of time in which a process waited. Of nodes, `total` is the
newest value of the counter of CPU in seconds, and `newest` the time of this sample. Of pods, `throttled` is the share
of periods in which a limit stopped them, `disk` the bytes per second that they read and write, and `series` one sample
of each node and scrape."""

NODE_MEASURES: tuple[Measure, ...] = (*PRESSURE_RESOURCES, "total", "newest")
POD_MEASURES: tuple[Measure, ...] = (*PRESSURE_RESOURCES, "throttled", "disk")

NEAR_ZERO = 0.01
"""Shares of time of pods up to this one are left out by the source: nearly all pods wait for nothing."""

LEAST_DISK = float(2**20)
"""Bytes per second. Pods that use disks less are left out by the source."""

_CGROUP_LABELS = "container, id, image, name, cpu"
"""The labels that distinguish the cgroups of one pod."""

_METRICS_OF_PODS = (
    "container_pressure_cpu_waiting_seconds_total",
    "container_cpu_cfs_periods_total",
    "container_fs_reads_bytes_total",
)
"""Each node with values of a pod has one of these."""


class PressureCounter(NamedTuple):
    """The counters of one kind of exporter: `{}` in the name is replaced by the resource."""

    metric: str
    conditions: tuple[str, ...] = ()

    def select(self, resource: str, matchers: Matchers) -> str:
        return selector(self.metric.format(resource), matchers, *self.conditions)


NODE_EXPORTER = PressureCounter("node_pressure_{}_waiting_seconds_total")
ROOT_CGROUP = PressureCounter("container_pressure_{}_waiting_seconds_total", ('id="/"',))
OF_NODES = (NODE_EXPORTER, ROOT_CGROUP)
"""The exporters of nodes, in the order in which they are asked. The next one is asked about the remaining nodes."""


class PressureQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query about all nodes or all pods, over the window that ends at `at`."""

    subject: Subject
    measure: Measure = "cpu"
    length: float
    """Seconds."""

    at: float
    min_samples: int = 2
    """Shares of nodes with fewer raw samples in the window are left out."""

    exporter: PressureCounter = NODE_EXPORTER
    pod_series: PodSeries = "pods"
    nodes: NodeMatcher | None = None
    """The nodes whose series are queried; None: all."""

    def about(self, measure: Measure) -> "PressureQuery":
        return msgspec.structs.replace(self, measure=measure)

    def promql(self, matchers: Matchers) -> str:
        if self.nodes is not None:
            matchers = {**matchers, self.nodes.label: self.nodes.values}
        return self._of_pods(matchers) if self.subject == "pod" else self._of_nodes(matchers)

    def _of_nodes(self, matchers: Matchers) -> str:
        window = milliseconds(self.length)
        if self.measure in ("total", "newest"):
            counter = self.exporter.select("cpu", matchers)
            return counter if self.measure == "total" else f"timestamp({counter})"
        counter = self.exporter.select(self.measure, matchers)
        return f"rate({counter}[{window}]) and count_over_time({counter}[{window}]) >= {self.min_samples}"

    def _of_pods(self, matchers: Matchers) -> str:
        def rate(metric: str, *conditions: str) -> str:
            return f"rate({selector(metric, matchers, *conditions)}[{milliseconds(self.length)}])"

        if self.measure == "series":
            metrics = one_of("__name__", _METRICS_OF_PODS)
            series = selector("", matchers, metrics, 'pod!=""')
            return f"count without ({_CGROUP_LABELS}, namespace, pod, uid, device) ({series})"
        if self.measure == "throttled":
            throttled, periods = (
                rate(f"container_cpu_cfs_{name}periods_total", 'pod!=""') for name in ("throttled_", "")
            )
            return f"max without ({_CGROUP_LABELS}) ({throttled} / {periods}) > {NEAR_ZERO:g}"
        if self.measure == "disk":
            read, written = (rate(f"container_fs_{name}_bytes_total", *CONTAINERS) for name in ("reads", "writes"))
            return f"sum without ({_CGROUP_LABELS}, device) ({read} + {written}) > {LEAST_DISK:.0f}"
        # A pod waits at least as long as each of its containers: they are used where its own series are dropped.
        conditions = WHOLE_POD if self.pod_series == "pods" else ('pod!=""',)
        waiting = rate(ROOT_CGROUP.metric.format(self.measure), *conditions)
        return f"max without ({_CGROUP_LABELS}) ({waiting}) > {NEAR_ZERO:g}"
