"""Sources of metrics whose queries are counted, so that a command can show its progress."""

from collections.abc import Container, Sequence

from equipoise.cli.progress import Activity
from equipoise.collector.decisions.pressure.pressure_query import PressureQuery
from equipoise.collector.decisions.query import MetricQuery, Sample, Subject
from equipoise.collector.sources import PromqlSource
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.placement import PodName


class CountedSource:
    """A Prometheus with its profile, as a MetricSource and a PressureSource."""

    def __init__(self, source: PrometheusSource, activity: Activity) -> None:
        self._source = source
        self._activity = activity

    async def run(self) -> None:
        await self._source.run()

    async def time(self) -> float:
        return await self._activity.count(self._source.time())

    def unsupported(self, query: MetricQuery) -> str:
        return self._source.unsupported(query)

    async def query(self, query: MetricQuery) -> list[Sample]:
        return await self._activity.count(self._source.query(query))

    async def pressure(self, query: PressureQuery) -> list[Sample]:
        return await self._activity.count(self._source.pressure(query))

    def close(self) -> None:
        self._source.close()


class CountedPromql:
    """A Prometheus that is queried with the user's own PromQL, as a PromqlSource."""

    def __init__(self, source: PromqlSource, activity: Activity) -> None:
        self._source = source
        self._activity = activity

    @property
    def node_labels(self) -> Sequence[str]:
        return self._source.node_labels

    async def samples(
        self,
        promql: str,
        subject: Subject,
        *,
        at: float,
        node_labels: Sequence[str] | None = None,
        unnamed: bool = False,
        pods: Container[PodName] | None = None,
    ) -> list[Sample]:
        samples = self._source.samples(promql, subject, at=at, node_labels=node_labels, unnamed=unnamed, pods=pods)
        return await self._activity.count(samples)

    def close(self) -> None:
        self._source.close()
