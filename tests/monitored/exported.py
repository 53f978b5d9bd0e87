"""The metrics that the services export: each service is started in memory, and its registry is read."""

from collections.abc import Mapping

import msgspec
from flow.loop import Loop
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from equipoise.agent.shell.metrics import FAMILIES
from equipoise.annotator.settings import HintsWebhookSettings
from equipoise.annotator.shell.hints_webhook.server import WebhookServer
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.reclaimer.shell.metrics import ReclaimerMetrics
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.process.lifecycle import Process
from equipoise.scorer.settings import ScorerSettings
from equipoise.testbed.memory.clock import ManualClock

_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "info": ("_info",)}


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """One family of series, as a service describes it."""

    family: str
    text: str
    labels: tuple[str, ...]
    services: tuple[str, ...]
    """The services that export it; empty: all of them."""


async def exported() -> Mapping[str, Exported]:
    """By the names of their series: `…_total`, `…_bucket`."""
    found: dict[str, Exported] = {}
    loop = Loop()
    async with loop.running():
        await loop.pass_time(60)
        for service in SERVICES:
            _add(found, loop.registries[service], service)
    for registry in (_of_the_process(), _of_the_bus()):
        _add(found, registry, "")
    registry = CollectorRegistry()
    ReclaimerMetrics(registry)
    _add(found, registry, "reclaimer")
    registry, clock = CollectorRegistry(), ManualClock(0.0)
    WebhookServer(hints=lambda _: None, settings=HintsWebhookSettings(), clock=clock, metrics=registry)
    _add(found, registry, "hints-webhook")
    for name, family in FAMILIES.items():
        if name.startswith("equipoise_agent_"):  # the others are those of all services
            found[name] = Exported(family=name, text=family.text, labels=family.labels, services=("agent",))
    return found


def _add(found: dict[str, Exported], registry: CollectorRegistry, service: str) -> None:
    for collector in registry._collector_to_names:
        for metric in collector.describe() if hasattr(collector, "describe") else ():
            for name in _names(metric):
                services = (*(found[name].services if name in found else ()), *([service] if service else []))
                found[name] = Exported(
                    family=metric.name, text=metric.documentation, labels=_labels(collector, metric), services=services
                )


def _labels(collector: Collector, metric: Metric) -> tuple[str, ...]:
    described = collector if isinstance(collector, MetricWrapperBase) else metric
    return tuple(getattr(described, "_labelnames"))  # noqa: B009  a family of another collector has it too, untyped


def _names(metric: Metric) -> list[str]:
    return [metric.name + suffix for suffix in _SUFFIXES.get(metric.type, ("",))]


def _of_the_process() -> CollectorRegistry:
    """Health and the event loop: the same for every service."""
    registry = CollectorRegistry()
    configuration = Configuration(shared=Shared(), own=ScorerSettings(), hash="")

    def nothing() -> object:
        raise AssertionError("it is not started")

    Process(
        service="scorer",
        configuration=configuration,
        clock=ManualClock(0.0),
        metrics=registry,
        bus=nothing,  # type: ignore[arg-type]  # it is not started
        kube=None,
    )
    return registry


def _of_the_bus() -> CollectorRegistry:
    registry = CollectorRegistry()
    BusErrors(ManualClock(0.0), registry)
    return registry
