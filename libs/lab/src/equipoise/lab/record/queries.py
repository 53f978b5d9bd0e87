"""What Prometheus is asked, as PromQL, and one element of what it answers.

A step's mean counts only where the samples cover the step: rate() divides by the whole window however little of it
has samples, so the first minutes of a pod would read as a pod that idles.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from equipoise.collector.sources.profiles.kubelet import POD_CPU, POD_MEMORY
from equipoise.collector.sources.queries import milliseconds, selector

Resource = Literal["cpu", "memory"]

COVERED = 0.8
"""Share of a step that its samples must cover (design, law 1)."""

_INSTANCE = "id, image, name"
"""Labels that change when a container of cAdvisor starts anew."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One element of an answer."""

    labels: Mapping[str, str]
    values: Sequence[tuple[float, Any]] = ()
    """Unix seconds, and what was said as the value: judged by who reads it."""


class PodMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics that hold the usage of pods: cpu as a counter of seconds, memory as a gauge of bytes."""

    source: str
    """Where they come from, as people know it."""

    names: Mapping[Resource, str]
    of_containers: bool = False

    def raw(self, resource: Resource, matchers: Mapping[str, str]) -> str:
        """The selector of the samples as they were scraped."""
        text = selector(self.names[resource], matchers)
        if not self.of_containers:
            return text
        # The cgroups above containers and the sandbox of a pod are no containers: their usage would count twice.
        conditions = 'container!="",container!="POD"'
        return f"{text[:-1]},{conditions}}}" if text.endswith("}") else f"{text}{{{conditions}}}"

    def samples(self, resource: Resource, matchers: Mapping[str, str], step: float) -> str:
        """How many samples each pod has in the step; of its containers the one with the fewest counts."""
        counts = f"count_over_time({self.raw(resource, matchers)}[{milliseconds(step)}])"
        return f"min without (container) (sum without ({_INSTANCE}) ({counts}))" if self.of_containers else counts

    def usage(self, resource: Resource, matchers: Mapping[str, str], step: float, least: int) -> str:
        """The mean of each pod over the step, in cores or bytes, where there are at least so many samples."""
        raw = f"{self.raw(resource, matchers)}[{milliseconds(step)}]"
        mean = f"rate({raw})" if resource == "cpu" else f"avg_over_time({raw})"
        if self.of_containers and resource == "cpu":
            mean = f"sum without (container, {_INSTANCE}) ({mean})"
        elif self.of_containers:
            # A container that started anew is two series for a while: their means must not add up.
            total, counts = (f"sum without ({_INSTANCE}) ({part}_over_time({raw}))" for part in ("sum", "count"))
            mean = f"sum without (container) ({total} / {counts})"
        return f"{mean} and {self.samples(resource, matchers, step)} >= {least}"

    def pods(self, resource: Resource, matchers: Mapping[str, str]) -> str:
        """How many pods are measured."""
        return f"count(group by (namespace, pod) ({self.raw(resource, matchers)}))"

    def usual_samples(self, matchers: Mapping[str, str], step: float) -> str:
        """How many samples a step of a pod has that was there all the time.

        A low quantile, not the median: where some kubelets are scraped less often, their pods count too.
        """
        raw = self.raw("cpu", matchers)
        here, before = f"and on (namespace, pod) {raw}", f"and on (namespace, pod) ({raw} offset {milliseconds(step)})"
        return f"quantile(0.1, {self.samples('cpu', matchers, step)} {here} {before})"

    def namespaces(self, resource: Resource, matchers: Mapping[str, str], step: float) -> str:
        """The namespaces in which pods were measured in the step."""
        return f"group by (namespace) (count_over_time({self.raw(resource, matchers)}[{milliseconds(step)}]))"


METRICS: Mapping[str, PodMetrics] = {
    "pods": PodMetrics(
        source="the kubelets' /metrics/resource",
        names={"cpu": POD_CPU, "memory": POD_MEMORY},
    ),
    "containers": PodMetrics(
        source="the kubelets' /metrics/cadvisor",
        names={"cpu": "container_cpu_usage_seconds_total", "memory": "container_memory_working_set_bytes"},
        of_containers=True,
    ),
}
"""In the order in which they are looked for."""


def least_samples(usual: float) -> int:
    """How many samples cover a step that usually has so many. One may fall on the other side of a step's end."""
    return max(2, math.ceil(COVERED * (usual - 0.5)))


def owners(metric: str, label: str, matchers: Mapping[str, str], length: float) -> str:
    """Who owned what `label` names, of all that there were in the time: metrics of kube-state-metrics."""
    window = f"last_over_time({selector(metric, matchers)}[{milliseconds(length)}])"
    return f"max by (namespace, {label}, owner_kind, owner_name) ({window})"
