"""The PromQL of further resources, on connections of their own: slow queries take none from those of cpu and memory."""

from collections.abc import Container, Sequence

import msgspec

from equipoise.collector.decisions.query import Sample, Subject
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus.client import PrometheusClient
from equipoise.collector.sources.prometheus.samples import LabelCache, result_of, vector
from equipoise.collector.state.placement import PodName
from equipoise.runtime.process.clock import Clock

CONCURRENCY = 2
"""Maximum number of concurrent queries about further resources."""


class PrometheusPromql:
    """A PromqlSource."""

    def __init__(self, settings: PrometheusSettings, clock: Clock) -> None:
        self.node_labels: Sequence[str] = settings.node_labels
        self._clock = clock
        self._client = PrometheusClient(msgspec.structs.replace(settings, concurrency=CONCURRENCY), clock)
        self._labels: dict[tuple[str, ...], LabelCache] = {}

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
        labels = tuple(self.node_labels if node_labels is None else node_labels)
        # Decoded again in each round: the labels of 450,000 pods need 230 MB, and most of them may be of other shards.
        cache = LabelCache(labels, keep=False)
        if pods is None:
            cache = self._labels.setdefault(labels, LabelCache(labels))
            cache.rotate(self._clock.monotonic())
        return await self._client.query(
            promql,
            lambda document: vector(result_of(document, "vector"), subject, cache, unnamed=unnamed, pods=pods),
            at=at,
        )

    def close(self) -> None:
        self._client.close()
