"""PromQL queries of a recording, and one element of their results.

The mean of a step counts only if samples cover the step. Otherwise a new pod would appear idle in its first minutes,
because rate() divides by the whole window.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from equipoise.collector.decisions.profiles.kube_prometheus import POD_CPU as CGROUPS_CPU
from equipoise.collector.decisions.profiles.kube_prometheus import POD_WORKING_SET as CGROUPS_MEMORY
from equipoise.collector.decisions.profiles.kubelet import POD_CPU, POD_MEMORY
from equipoise.collector.decisions.profiles.pod_cgroups import CONTAINERS, PodCgroups
from equipoise.collector.decisions.profiles.query_profile import milliseconds, selector

Resource = Literal["cpu", "memory"]

COVERED = 0.8
"""The share of a step that its samples must cover."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One element of a result."""

    labels: Mapping[str, str]
    values: Sequence[tuple[float, Any]] = ()
    """Unix seconds and the raw value, which the reader validates."""


class UsageMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Usage metrics of pods: CPU as a counter of seconds, memory as a gauge of bytes."""

    source: str
    """The origin of the metrics, for messages."""

    names: Mapping[Resource, str]
    containers: Mapping[Resource, PodCgroups] = {}
    """The series of containers, if the metrics have no series of a whole pod."""

    def raw(self, resource: Resource, matchers: Mapping[str, str]) -> str:
        """The selector of the raw samples."""
        # The cgroups above the containers and the sandbox of a pod would count usage twice.
        return selector(self.names[resource], matchers, *(CONTAINERS if self.containers else ()))

    def samples(self, resource: Resource, matchers: Mapping[str, str], step: float) -> str:
        """Number of samples of each pod in the step."""
        window = milliseconds(step)
        if self.containers:
            return self.containers[resource].container_count(matchers, window)
        return f"count_over_time({self.raw(resource, matchers)}[{window}])"

    def usage(self, resource: Resource, matchers: Mapping[str, str], step: float, min_samples: int) -> str:
        """Mean of each pod over the step, in cores or bytes, with at least `min_samples` samples."""
        window = milliseconds(step)
        if self.containers:
            mean = f"({self.containers[resource].container_mean(matchers, window)})"
        else:
            raw = f"{self.raw(resource, matchers)}[{window}]"
            mean = f"rate({raw})" if resource == "cpu" else f"avg_over_time({raw})"
        return f"{mean} and {self.samples(resource, matchers, step)} >= {min_samples}"

    def pods(self, resource: Resource, matchers: Mapping[str, str]) -> str:
        """Number of measured pods."""
        return f"count(group by (namespace, pod) ({self.raw(resource, matchers)}))"

    def usual_samples(self, matchers: Mapping[str, str], step: float) -> str:
        """Number of samples per step of a pod that runs all the time.

        A low quantile instead of the median, so that pods of less frequently scraped kubelets are included.
        """
        raw = self.raw("cpu", matchers)
        runs_now, ran_before = (
            f"and on (namespace, pod) {raw}",
            f"and on (namespace, pod) ({raw} offset {milliseconds(step)})",
        )
        return f"quantile(0.1, {self.samples('cpu', matchers, step)} {runs_now} {ran_before})"

    def namespaces(self, resource: Resource, matchers: Mapping[str, str], step: float) -> str:
        """Namespaces with measured pods in the step."""
        return f"group by (namespace) (count_over_time({self.raw(resource, matchers)}[{milliseconds(step)}]))"


METRICS: Mapping[str, UsageMetrics] = {
    "pods": UsageMetrics(
        source="the kubelets' /metrics/resource",
        names={"cpu": POD_CPU, "memory": POD_MEMORY},
    ),
    "containers": UsageMetrics(
        source="the kubelets' /metrics/cadvisor",
        names={"cpu": CGROUPS_CPU.metric, "memory": CGROUPS_MEMORY.metric},
        containers={"cpu": CGROUPS_CPU, "memory": CGROUPS_MEMORY},
    ),
}
"""The metrics, in the order in which they are tried."""


def min_samples(usual: float) -> int:
    """Number of samples that cover a step with usually `usual` samples. One may fall into the next step."""
    return max(2, math.ceil(COVERED * (usual - 0.5)))


def owners_query(metric: str, label: str, matchers: Mapping[str, str], length: float) -> str:
    """Owners of the objects that `label` names, over a time span, from kube-state-metrics."""
    window = f"last_over_time({selector(metric, matchers)}[{milliseconds(length)}])"
    return f"max by (namespace, {label}, owner_kind, owner_name) ({window})"
