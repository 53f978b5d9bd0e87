"""A metric source whose queries are those of a profile."""

from typing import Any

import msgspec

from equipoise.collector.decisions.pressure.pressure_query import PressureQuery
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.query_profile import Matchers, MemoryKind
from equipoise.collector.decisions.query import MetricQuery, Sample, SourceError
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.collector.sources import MetricSource
from equipoise.collector.sources.prometheus.client import PrometheusClient
from equipoise.collector.sources.prometheus.samples import (
    LabelCache,
    identified_by_name,
    result_of,
    spacings,
    vector,
)
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock


class PrometheusSource:
    """A MetricSource. Raises ConfigurationError when the profile cannot measure the configured kind of memory."""

    def __init__(self, settings: PrometheusSettings, *, memory: MemoryKind, clock: Clock) -> None:
        self._settings = settings
        self._profile = PROFILES[settings.profile](settings.custom)
        if memory not in self._profile.memory:
            supported = " or ".join(self._profile.memory)
            raise ConfigurationError(
                f"load.memory: {memory} is not allowed with collector.prometheus.profile {settings.profile}: "
                f"its metrics have {supported} only"
            )
        self._usage = {"cpu": self._profile.cpu, "memory": self._profile.memory[memory]}
        self._clock = clock
        self._labels = LabelCache(settings.node_labels)
        self._client = PrometheusClient(settings, clock)

    async def run(self) -> None:
        """Do nothing: Prometheus itself collects and keeps the samples."""

    async def time(self) -> float:
        return await self._client.time()

    def unsupported(self, query: MetricQuery) -> str:
        if query.nodes is not None and self._profile.names_only:
            return f"the queries of profile {self._settings.profile} are sent as they are written"
        if self._promql(query) is not None:
            return ""
        missing = f"the {query.aggregate} of {query.resource} of {query.subject}s"
        return f"profile {self._settings.profile} does not measure {missing}"

    async def query(self, query: MetricQuery) -> list[Sample]:
        promql = self._promql(query)
        if promql is None:
            raise SourceError(self.unsupported(query))
        self._labels.rotate(self._clock.monotonic())
        kind = "matrix" if query.aggregate == "spacing" else "vector"

        def read(document: Any) -> list[Sample]:
            samples = self._samples(result_of(document, kind), query)
            return identified_by_name(samples) if self._profile.names_only else samples

        return await self._client.query(promql, read, at=query.at)

    async def pressure(self, query: PressureQuery) -> list[Sample]:
        """Pressure has the same metrics in every profile."""
        # cAdvisor has the pressure of nodes too, so that their series may be of a job of pods.
        jobs = self._settings.jobs
        configured = jobs.pods if query.subject == "pod" else (*jobs.nodes, *jobs.pods) if jobs.nodes else ()
        matchers: Matchers = {**({"job": configured} if configured else {}), **self._settings.matchers}
        self._labels.rotate(self._clock.monotonic())
        subject = "node" if query.measure == "series" else query.subject
        return await self._client.query(
            query.promql(matchers),
            lambda document: vector(result_of(document, "vector"), subject, self._labels),
            at=query.at,
        )

    def _samples(self, result: Any, query: MetricQuery) -> list[Sample]:
        if query.aggregate == "pods":  # a search for labels, which must not miss series without one
            return vector(result, "node", self._labels, unnamed=True)
        parse = spacings if query.aggregate == "spacing" else vector
        labels = LabelCache(self._settings.node_labels, keep=False) if query.rare else self._labels
        return parse(result, query.subject, labels)

    def _promql(self, query: MetricQuery) -> str | None:
        usage = self._usage[query.resource].get(query.subject)
        if usage is None:
            return None
        jobs = getattr(self._settings.jobs, f"{query.subject}s") or query.jobs
        nodes = {} if query.nodes is None else {query.nodes.label: query.nodes.values}
        matchers: Matchers = {**nodes, **({"job": jobs} if jobs else {}), **self._settings.matchers}
        promql = usage.promql(query, matchers)
        # Two results for nodes in the user's own PromQL may name a node by different labels: they cannot be matched.
        countable = query.subject != "node" or not self._profile.names_only
        if promql is None or not query.min_samples or not countable:
            return promql
        count_query = msgspec.structs.replace(query, aggregate="count", min_samples=0.0)
        count = usage.promql(count_query, matchers)
        on = " on (namespace, pod)" if self._profile.names_only else ""
        return f"({promql}) and{on} ({count}) >= {query.min_samples:g}"

    def close(self) -> None:
        self._client.close()


def open_source(settings: CollectorSettings, load: LoadSettings, clock: Clock, _: Kube) -> MetricSource:
    return PrometheusSource(settings.prometheus, memory=load.memory, clock=clock)
