"""Metric sources. `settings.SOURCES` lists their modules; each has a function `open_source` like the one here.

The module is imported only when it is chosen, so that settings stay pure and client libraries unloaded.
"""

from collections.abc import Container, Sequence
from importlib import import_module
from typing import Protocol, runtime_checkable

from equipoise.collector.decisions.pressure.pressure_query import PressureQuery
from equipoise.collector.decisions.query import MetricQuery, Sample, Subject
from equipoise.collector.settings import SOURCES, CollectorSettings
from equipoise.collector.state.placement import PodName
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock


class MetricSource(Protocol):
    """Runs queries about usage. Every method raises SourceError, and nothing else, when it cannot."""

    async def run(self) -> None:
        """Background work, on standbys too; returns at once when there is none."""
        ...

    async def time(self) -> float:
        """Unix seconds on the source's clock."""
        ...

    def unsupported(self, query: MetricQuery) -> str:
        """Why this source can never run a query, for people; empty when it can."""
        ...

    async def query(self, query: MetricQuery) -> list[Sample]: ...

    def close(self) -> None: ...


@runtime_checkable
class PressureSource(Protocol):
    """A metric source that may also have pressure. Raises SourceError, and nothing else, when a query fails."""

    async def pressure(self, query: PressureQuery) -> list[Sample]: ...


class PromqlSource(Protocol):
    """Runs the user's own PromQL about further resources."""

    @property
    def node_labels(self) -> Sequence[str]:
        """Labels that may name the node of a series."""
        ...

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
        """The result at `at` (Unix seconds on the source's clock). Raises SourceError, and nothing else.

        `node_labels`: the labels that name the node; None: those of the source. `unnamed`: series that name no node, or
        no pod, are not left out. `pods`: all others are left out; None: all pods are kept.
        """
        ...

    def close(self) -> None: ...


def open_source(settings: CollectorSettings, load: LoadSettings, clock: Clock, kube: Kube) -> MetricSource:
    """The configured source. Raises ConfigurationError when it cannot measure what is configured."""
    opened: MetricSource = import_module(SOURCES[settings.source]).open_source(settings, load, clock, kube)
    return opened


def open_promql_source(settings: CollectorSettings, load: LoadSettings, clock: Clock) -> PromqlSource | None:
    """The source of further resources; None if none is configured. Raises ConfigurationError if the configured source
    has no PromQL."""
    if not load.resources:
        return None
    if settings.source != "prometheus":
        raise ConfigurationError(
            f"load.resources needs collector.source prometheus: {settings.source} has no PromQL. Change the source, or "
            "remove load.resources"
        )
    opened: PromqlSource = import_module(f"{__name__}.prometheus.promql_source").PrometheusPromql(
        settings.prometheus, clock
    )
    return opened
