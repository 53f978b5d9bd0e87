"""Usage of pods from cAdvisor's series of cgroups.

The cgroup of the whole pod is one series per pod. It includes each container and the sandbox once, and its counter
continues when a container restarts. Its labels `container`, `image` and `name` are empty. Some scrape jobs drop all
series without a `container`, and some pods have two such cgroups: the usage of these pods is the sum of their
containers, without the sandbox.

A container that was restarted has a series for each time that it ran. `/metrics/resource` of the kubelet has series of
containers under the same names, without `image`: they count only where cAdvisor's are absent.
"""

from typing import Literal

import msgspec

from equipoise.collector.decisions.profiles.query_profile import Matchers, among, milliseconds, selector
from equipoise.collector.decisions.profiles.raw import sample_query, statistic_query
from equipoise.collector.decisions.query import MetricQuery

WHOLE_POD = ('container=""', 'image=""', 'name=""', 'pod!=""')
CONTAINERS = ('container!=""', 'container!="POD"', 'pod!=""')
"""Matchers of containers without the sandbox, which the Docker runtime names POD; others give it no name."""

_RUN_LABELS = "id, image, name, cpu"
"""The labels that distinguish the runs of one container."""

_PAGE_LABELS = "namespace, pod, job, instance, service, endpoint, metrics_path"
"""The labels that all series of a pod from one page of metrics share. Operators match on them, so that the series
of one page do not replace those of another."""


class PodCgroups(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one resource by pods. The aggregates `newest` and `last` query only the cgroup of the whole pod."""

    metric: str
    kind: Literal["counter", "gauge"]

    def promql(self, query: MetricQuery, matchers: Matchers) -> str | None:
        window, step = milliseconds(query.length), milliseconds(query.step)
        pod = selector(self.metric, matchers, *WHOLE_POD)
        match query.aggregate:
            case "mean":
                return self._either(query, matchers, self._mean(pod, window), self.container_mean(matchers, window))
            case "count":
                return self._either(
                    query, matchers, f"count_over_time({pod}[{window}])", self.container_count(matchers, window)
                )
            case "pods":
                return self._pod_count(query, matchers)
            case "spacing":
                # A scrape returns all series of a pod, so those of its cgroup suffice.
                conditions = WHOLE_POD if query.pod_series == "pods" else ()
                return f"{selector(self.metric, matchers, *conditions, *among(query.pods))}[{window}]"
        inner = f"{self._mean(pod, step)}[{window}:{step}]" if self.kind == "counter" else f"{pod}[{window}]"
        return sample_query(query, pod) or statistic_query(query, inner)

    def container_mean(self, matchers: Matchers, window: str) -> str:
        """The sum of the means of a pod's containers. A pod is left out while one of its containers has two series."""
        now, *_ = self._containers(matchers)
        means = [self._container_mean(f"{series}[{window}]") for series in self._containers(matchers)]
        mean = f"sum without (container) ({means[0]} or on (container, {_PAGE_LABELS}) {means[1]})"
        return f"{mean} unless group without (container) (count without ({_RUN_LABELS}) ({now}) > 1)"

    def container_count(self, matchers: Matchers, window: str) -> str:
        """The number of samples of a pod: the highest number of any container, as a scrape returns all running ones."""
        counts = [
            f"sum without ({_RUN_LABELS}) (count_over_time({series}[{window}]))"
            for series in self._containers(matchers)
        ]
        return f"max without (container) ({counts[0]} or on (container, {_PAGE_LABELS}) {counts[1]})"

    def _containers(self, matchers: Matchers) -> tuple[str, str]:
        """The series of cAdvisor, and those of the kubelet's other page."""
        first, second = (selector(self.metric, matchers, *CONTAINERS, image) for image in ('image!=""', 'image=""'))
        return first, second

    def _container_mean(self, samples: str) -> str:
        if self.kind == "counter":
            return f"sum without ({_RUN_LABELS}) (rate({samples}))"
        # The means of two runs of a container must not be added.
        total, count = (
            f"sum without ({_RUN_LABELS}) ({function}_over_time({samples}))" for function in ("sum", "count")
        )
        return f"({total} / {count})"

    def _pod_count(self, query: MetricQuery, matchers: Matchers) -> str:
        """The number of pods with a cgroup of the whole pod, or of pods whose usage is the sum of their containers."""
        pods, containers = (selector(self.metric, matchers, *conditions) for conditions in (WHOLE_POD, CONTAINERS))
        if query.pod_series == "pods":
            return f"count without ({_RUN_LABELS}, container, namespace, pod) ({pods})"
        one_cgroup = f"count without ({_RUN_LABELS}, container) ({pods}) == 1"
        others = f"group without ({_RUN_LABELS}, container) ({containers}) unless on ({_PAGE_LABELS}) {one_cgroup}"
        return f"count without (namespace, pod) ({others})"

    def _mean(self, samples: str, window: str) -> str:
        return f"{'rate' if self.kind == 'counter' else 'avg_over_time'}({samples}[{window}])"

    def _either(self, query: MetricQuery, matchers: Matchers, of_pod: str, of_containers: str) -> str:
        if query.pod_series != "any":
            return of_pod if query.pod_series == "pods" else of_containers
        several = f"count by ({_PAGE_LABELS}) ({selector(self.metric, matchers, *WHOLE_POD)}) > 1"
        return f"({of_pod} unless on ({_PAGE_LABELS}) {several} or on ({_PAGE_LABELS}) {of_containers})"
