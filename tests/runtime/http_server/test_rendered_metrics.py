"""How often the metrics are rendered."""

import asyncio
from collections.abc import Iterator
from threading import Event

import aiohttp
from bus_worlds import eventually
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from equipoise.runtime.http_server.rendered_metrics import KEPT_SECONDS, RenderedMetrics
from equipoise.runtime.process.health import Health, serving_health


class CountedRenderings(Collector):
    """The number of renderings as a metric. A rendering waits until `proceed` is set."""

    def __init__(self) -> None:
        self.proceed = Event()
        self.count = 0

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        self.count += 1
        self.proceed.wait(60)
        yield GaugeMetricFamily("renderings", "Renderings.", value=self.count)


async def test_requests_at_the_same_time_share_one_rendering() -> None:
    """Those that arrive while it is in progress wait for it."""
    counted, registry = CountedRenderings(), CollectorRegistry()
    registry.register(counted)
    metrics = RenderedMetrics(registry, lambda: 0.0)
    requests = [asyncio.create_task(metrics.text()) for _ in range(50)]
    await asyncio.sleep(0)
    counted.proceed.set()

    assert all(b"renderings 1.0" in text for text in await asyncio.gather(*requests))
    assert counted.count == 1


async def test_metrics_are_rendered_again_once_they_are_a_second_old() -> None:
    """Their age begins at the end of a rendering."""
    counted, registry, now = CountedRenderings(), CollectorRegistry(), 0.0
    registry.register(counted)
    counted.proceed.set()
    metrics = RenderedMetrics(registry, lambda: now)
    first = await metrics.text()
    now = KEPT_SECONDS - 0.1
    kept = await metrics.text()
    now = KEPT_SECONDS
    later = await metrics.text()

    assert first == kept
    assert b"renderings 2.0" in later


async def test_the_health_port_renders_for_all_clients_together(health: Health) -> None:
    """A client that requests the metrics without pause does not keep the event loop from its work."""
    counted, registry = CountedRenderings(), CollectorRegistry()
    registry.register(counted)

    async def get(session: aiohttp.ClientSession) -> str:
        async with session.get("/metrics") as response:
            return await response.text()

    async with (
        serving_health("127.0.0.1:0", health, registry, "1") as address,
        aiohttp.ClientSession(f"http://{address}") as session,
    ):
        requests = [asyncio.create_task(get(session)) for _ in range(10)]
        await eventually(lambda: counted.count > 0)
        counted.proceed.set()
        texts = await asyncio.gather(*requests)

    assert all("renderings" in text for text in texts)
    assert counted.count < len(requests)
