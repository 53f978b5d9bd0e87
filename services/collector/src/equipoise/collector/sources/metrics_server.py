"""Usage from metrics-server (metrics.k8s.io), for clusters without a Prometheus.

It knows this moment only: cpu over the last seconds and memory as it is. The collector keeps a short history of that
itself, and says which windows are longer than it.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from equipoise.collector.decisions.query import Ask, Sample, SourceError
from equipoise.collector.settings import MetricsServerSettings
from equipoise.collector.sources.history import History
from equipoise.collector.sources.polled import Polled
from equipoise.contracts.kubernetes.objects import ApiValue, Object
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import Forbidden, Kube, KubeError, NotFound, Resource
from equipoise.runtime.process.clock import Clock

KEPT = 1.1
"""Times the longest window that is kept: a slot of the day is asked for a little after its end."""


class ContainerMetrics(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class NodeMetrics(Object, frozen=True, kw_only=True):
    """What a node used up to `timestamp`."""

    timestamp: datetime | None = None
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class PodMetrics(Object, frozen=True, kw_only=True):
    """What the containers of a pod used up to `timestamp`."""

    timestamp: datetime | None = None
    containers: list[ContainerMetrics] = msgspec.field(default_factory=list)


NODE_METRICS = Resource(
    group="metrics.k8s.io", version="v1beta1", plural="nodes", kind="NodeMetrics", model=NodeMetrics, namespaced=False
)
POD_METRICS = Resource(group="metrics.k8s.io", version="v1beta1", plural="pods", kind="PodMetrics", model=PodMetrics)


class MetricsServerSource:
    """A MetricSource. Raises ConfigurationError when another kind of memory is wanted than metrics-server knows."""

    def __init__(
        self, settings: MetricsServerSettings, *, memory: Literal["workingSet", "anonymous"], kube: Kube, clock: Clock
    ) -> None:
        if memory != "workingSet":
            raise ConfigurationError(f"load.memory: {memory} is not allowed with collector.source: metrics-server")
        self._settings = settings
        self._kube = kube
        self._clock = clock
        self._history = History(settings.history * KEPT)
        self._polled = Polled(self._poll, settings.interval, clock)

    async def run(self) -> None:
        await self._polled.run()

    async def time(self) -> float:
        """The API server's: it stands nearest to who took the samples."""
        await self._polled.ready()
        return self._now()

    def cannot(self, question: Ask) -> str:
        kept = self._settings.history
        if question.what not in ("last", "spacing") and question.length > kept:
            return f"metrics-server has no memory, and collector.metricsServer.history keeps {kept} only"
        if question.at + kept * KEPT < self._now():
            return f"it lies longer ago than collector.metricsServer.history ({kept})"
        return ""

    async def ask(self, question: Ask) -> list[Sample]:
        return self._history.answer(question)

    def close(self) -> None:
        """The connection is not ours."""

    def _now(self) -> float:
        return self._kube.server_time(self._clock.now())

    async def _poll(self) -> None:
        try:
            nodes = await self._kube.list(NODE_METRICS)
            pods = await self._kube.list(POD_METRICS)
        except NotFound:
            raise SourceError(
                "the API server does not know metrics.k8s.io: install metrics-server or choose another collector.source"
            ) from None
        except Forbidden as error:
            raise SourceError(
                f"{error}: the collector needs the right to list nodes and pods in metrics.k8s.io"
            ) from None
        except KubeError as error:
            raise SourceError(f"metrics.k8s.io does not answer: {error}") from None
        for node in nodes:
            if node.timestamp is not None:
                names = (node.metadata.name, "", "")
                self._history.add(names, node.timestamp.timestamp(), *_amounts([node.usage]))
        for pod in pods:
            if pod.timestamp is not None and pod.containers:
                names = ("", pod.metadata.namespace, pod.metadata.name)
                usages = [container.usage for container in pod.containers]
                self._history.add(names, pod.timestamp.timestamp(), *_amounts(usages))
        self._history.forget(self._now())


def _amounts(usages: Iterable[dict[str, str]]) -> tuple[float, float]:
    """Cores and bytes of all together; NaN when one of them is missing."""
    cpu, memory = 0.0, 0.0
    for usage in usages:
        cpu += _amount(usage.get("cpu"))
        memory += _amount(usage.get("memory"))
    return cpu, memory


def _amount(text: str | None) -> float:
    try:
        return math.nan if text is None else parse_quantity(text)
    except ValueError:
        return math.nan
