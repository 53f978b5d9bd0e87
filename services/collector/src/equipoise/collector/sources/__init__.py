"""Where usage is measured: SOURCES by the name that `collector.source` gives. Another one is a file and a line here."""

from collections.abc import Callable, Mapping
from typing import Protocol

from equipoise.collector.decisions.query import Ask, Sample
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources.load_watcher import LoadWatcherSource
from equipoise.collector.sources.metrics_server import MetricsServerSource
from equipoise.collector.sources.prometheus import PrometheusSource
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock


class MetricSource(Protocol):
    """Answers questions about usage. Every method raises SourceError, and nothing else, when it cannot."""

    async def run(self) -> None:
        """What is to be done between questions, on standbys too; returns at once when that is nothing."""
        ...

    async def time(self) -> float:
        """What time it is on the source's clock, in Unix seconds."""
        ...

    def cannot(self, question: Ask) -> str:
        """Why a question never has an answer here, as people read it; empty when it may be asked."""
        ...

    async def ask(self, question: Ask) -> list[Sample]: ...

    def close(self) -> None: ...


SOURCES: Mapping[str, Callable[[CollectorSettings, LoadSettings, Clock, Kube], MetricSource]] = {
    "prometheus": lambda settings, load, clock, _: PrometheusSource(
        settings.prometheus, memory=load.memory, clock=clock
    ),
    "metrics-server": lambda settings, load, clock, kube: MetricsServerSource(
        settings.metrics_server, memory=load.memory, kube=kube, clock=clock
    ),
    "load-watcher": lambda settings, load, clock, _: LoadWatcherSource(
        settings.load_watcher, memory=load.memory, clock=clock
    ),
}
