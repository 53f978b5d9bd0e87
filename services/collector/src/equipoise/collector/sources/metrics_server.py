"""Usage from metrics-server (metrics.k8s.io), for clusters without a Prometheus.

It returns current values only: cpu over the last seconds, and memory. The collector keeps them for `retention`; longer
windows are unknown.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from equipoise.collector.decisions.query import MetricQuery, SourceError
from equipoise.collector.settings import CollectorSettings, MetricsServerSettings
from equipoise.collector.sources import MetricSource
from equipoise.collector.sources.polling import PollingSource
from equipoise.collector.state.placement import amounts
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Object
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import Forbidden, Kube, KubeError, NotFound, Resource
from equipoise.runtime.process.clock import Clock

RETENTION_FACTOR = 1.1
"""The factor by which values are kept longer than configured: a slot of a profile is queried a little after its end."""


class ContainerMetrics(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class NodeMetrics(Object, frozen=True, kw_only=True):
    """The usage of a node up to `timestamp`."""

    timestamp: datetime | None = None
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class PodMetrics(Object, frozen=True, kw_only=True):
    """The usage of a pod's containers up to `timestamp`."""

    timestamp: datetime | None = None
    containers: list[ContainerMetrics] = msgspec.field(default_factory=list)


NODE_METRICS = Resource(
    group="metrics.k8s.io", version="v1beta1", plural="nodes", kind="NodeMetrics", model=NodeMetrics, namespaced=False
)
POD_METRICS = Resource(group="metrics.k8s.io", version="v1beta1", plural="pods", kind="PodMetrics", model=PodMetrics)


class MetricsServerSource(PollingSource):
    """A MetricSource. Raises ConfigurationError for a kind of memory other than metrics-server's."""

    def __init__(
        self, settings: MetricsServerSettings, *, memory: Literal["workingSet", "anonymous"], kube: Kube, clock: Clock
    ) -> None:
        if memory != "workingSet":
            raise ConfigurationError(f"load.memory: {memory} is not allowed with collector.source: metrics-server")
        super().__init__(clock, interval=settings.interval, retention=settings.retention * RETENTION_FACTOR)
        self._settings = settings
        self._kube = kube

    def unsupported(self, query: MetricQuery) -> str:
        retention = self._settings.retention
        if query.aggregate in ("pods", "size"):
            return f"metrics-server has no {query.aggregate}"
        if (query.subject, query.aggregate) == ("pod", "spacing"):
            return "metrics-server reads nodes and pods at the same time"
        if query.aggregate not in ("last", "spacing") and query.length > retention:
            return f"metrics-server returns current values only, and collector.metricsServer.retention is {retention}"
        if query.at + retention * RETENTION_FACTOR < self._now():
            return f"it is longer ago than collector.metricsServer.retention ({retention})"
        return ""

    def _now(self) -> float:
        """The API server's clock is the closest to those of the kubelets."""
        return self._kube.server_time(self._clock.now())

    async def _poll(self) -> None:
        try:
            nodes = await self._kube.list(NODE_METRICS)
            pods = await self._kube.list(POD_METRICS)
        except NotFound:
            raise SourceError(
                "the API server does not serve metrics.k8s.io: install metrics-server or choose another "
                "collector.source"
            ) from None
        except Forbidden as error:
            raise SourceError(
                f"{error}: the collector needs the permission to list nodes and pods in metrics.k8s.io"
            ) from None
        except KubeError as error:
            raise SourceError(f"metrics.k8s.io does not respond: {error}") from None
        for node in nodes:
            if node.timestamp is not None and not node.metadata.unreadable:
                key = (node.metadata.name, "", "")
                self._history.add(key, node.timestamp.timestamp(), *_sums([node.usage]))
        for pod in pods:
            if pod.timestamp is not None and pod.containers and not pod.metadata.unreadable:
                key = ("", pod.metadata.namespace, pod.metadata.name)
                usages = [container.usage for container in pod.containers]
                self._history.add(key, pod.timestamp.timestamp(), *_sums(usages))


def _sums(usages: Iterable[dict[str, str]]) -> tuple[float, float]:
    """Cores and bytes in total; NaN when one of them is missing."""
    found = [amounts(usage) for usage in usages]
    cpu = sum(math.nan if usage.cpu is None else usage.cpu for usage in found)
    return cpu, sum(math.nan if usage.memory is None else usage.memory for usage in found)


def open_source(settings: CollectorSettings, load: LoadSettings, clock: Clock, kube: Kube) -> MetricSource:
    return MetricsServerSource(settings.metrics_server, memory=load.memory, kube=kube, clock=clock)
