"""The same judgements against a real Prometheus that scrapes real pages."""

import asyncio
import operator
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pytest
from collector.exporter import SCRAPE_INTERVAL, Exporter, a_job, a_node, prometheus

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import MetricQuery, ResourceName
from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.shell.intervals import find_intervals
from equipoise.collector.shell.rounds import measure_nodes, measure_pods
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries

T = TypeVar("T")

WINDOW = 2.0
PAGES = ("steady", "young", "gone", "nan", "reset", "stuck", "twin", "pods")
CAPACITY = Resources(cpu=16.0, memory=64e9)
KNOWN = {page: MeasurementTarget(since=0.0, capacity=CAPACITY) for page in PAGES}


@dataclass
class World:
    exporter: Exporter
    source: PrometheusSource

    async def read(self, node: str, resource: str = "cpu", window: float = WINDOW) -> NodeReading:
        at = await self.source.time()
        intervals = await find_intervals(self.source, window, at, NodeNames())
        criteria = WindowCriteria(
            at=at, length=window, coverage=0.8, max_age=60.0, lookback=WINDOW, intervals=intervals
        )
        found = await measure_nodes(self.source, KNOWN, criteria)
        assert {} == found.failed
        return found.readings[resource][node]  # type: ignore[index]

    async def until(self, wanted: Callable[[NodeReading], bool], node: str, resource: str = "cpu") -> NodeReading:
        return await until(lambda: self.read(node, resource), wanted)


async def until(read: Callable[[], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    async with asyncio.timeout(60):
        while not wanted(reading := await read()):  # noqa: ASYNC110  Prometheus does not notify about scrapes
            await asyncio.sleep(SCRAPE_INTERVAL / 2)
        return reading


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    opened = Exporter()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(exporter: Exporter, testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jobs = [a_job(page, exporter, page, node=page) for page in PAGES]
    jobs.append(a_job("twin-2", exporter, "twin", node="twin"))
    for page in ("steady", "gone", "reset", "twin"):
        exporter.show(page, a_node(2.0))
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("prometheus"), jobs) as opened:
        yield opened


@pytest.fixture
async def world(exporter: Exporter, url: str) -> AsyncIterator[World]:
    source = PrometheusSource(PrometheusSettings(url=f"{url}/"), memory="workingSet", clock=SystemClock())
    yield World(exporter, source)
    source.close()


def known(reading: NodeReading) -> bool:
    return reading.mean is not None


def unknown(reading: NodeReading) -> bool:
    return reading.mean is None


async def test_usage_is_measured(world: World) -> None:
    """A counter that grows by two seconds a second is two cores, with a recent newest sample."""

    def right(found: NodeReading) -> bool:
        new = found.sampled_at == pytest.approx(time.time(), abs=5 * SCRAPE_INTERVAL)  # noqa: TID251
        return new and found.mean == pytest.approx(2.0, rel=0.1)

    await world.until(right, "steady")
    memory = await world.until(known, "steady", "memory")
    assert 1e9 == memory.mean


async def test_the_scrape_interval_is_measured(world: World) -> None:
    """From the raw samples."""

    async def spacing() -> float | None:
        return (await find_intervals(world.source, WINDOW, await world.source.time(), NodeNames())).of("steady")

    await until(spacing, lambda found: found == pytest.approx(SCRAPE_INTERVAL, abs=0.02))


async def test_statistics_are_measured(world: World) -> None:
    """Quantile, maximum and standard deviation of a constant usage."""
    await world.until(known, "steady")
    at = await world.source.time()
    intervals = await find_intervals(world.source, WINDOW, at, NodeNames())
    criteria = WindowCriteria(
        at=at, length=4 * WINDOW, coverage=0.1, max_age=60.0, lookback=WINDOW, intervals=intervals
    )
    found = await measure_nodes(world.source, KNOWN, criteria, ("p95", "max", "deviation"))
    reading = found.readings["memory"]["steady"]

    assert {"p95": 1e9, "max": 1e9, "deviation": 0.0} == reading.statistics
    assert {"p95", "max", "deviation"} == found.readings["cpu"]["steady"].statistics.keys()


async def test_a_partly_covered_window_is_unknown(world: World) -> None:
    """rate() reads a new node as idle; it is unknown until its samples cover the window."""
    long = 3 * WINDOW  # a late first round must not find it covered
    world.exporter.show("young", a_node(8.0))
    first = await until(lambda: world.read("young", window=long), lambda reading: reading.sampled_at is not None)

    assert first.mean is None
    assert "cover" in first.why
    reading = await until(lambda: world.read("young", window=long), known)
    assert 6.0 < (reading.mean or 0.0) < 9.0


async def test_a_target_that_is_gone_becomes_unknown(world: World) -> None:
    """rate() returns values for a whole window after that; the time of the last sample is kept."""
    await world.until(known, "gone")
    world.exporter.hide("gone")
    gone_at = await world.source.time()
    reading = await world.until(unknown, "gone")

    assert reading.sampled_at is not None
    assert reading.sampled_at <= gone_at + SCRAPE_INTERVAL
    raw = await world.source.query(
        MetricQuery(subject="node", resource="cpu", aggregate="mean", length=60.0, at=await world.source.time())
    )
    assert "gone" in {sample.node for sample in raw}


async def test_memory_that_is_no_number_is_unknown(world: World) -> None:
    """The cpu of the same node is known."""
    world.exporter.show("nan", a_node(2.0, "NaN"))
    await world.until(known, "nan")
    memory = await world.until(lambda found: "nan" in found.why, "nan", "memory")

    assert memory.mean is None


async def test_a_node_that_two_jobs_scrape_is_unknown(world: World) -> None:
    """Two series claim to be this node."""
    reading = await world.until(lambda found: "2 series" in found.why, "twin")

    assert reading.mean is None


async def test_a_counter_reset_is_no_negative_usage(world: World) -> None:
    """After a kubelet restart the usage is never negative, and soon as before."""
    await world.until(known, "reset")
    begun = time.monotonic()
    world.exporter.show("reset", lambda: f"node_cpu_usage_seconds_total {2 * (time.monotonic() - begun):.6f}\n")
    for _ in range(8):
        reading = await world.read("reset")

        assert reading.mean is None or reading.mean >= 0.0
        await asyncio.sleep(SCRAPE_INTERVAL)
    await world.until(lambda found: found.mean == pytest.approx(2.0, rel=0.1), "reset")


async def test_a_sample_with_a_fixed_time_becomes_stale(world: World) -> None:
    """A series with timestamps has no stale marker: Prometheus repeats the old value for minutes."""
    stamp: float | None = None
    begun = time.monotonic()

    def text() -> str:
        now = time.time() if stamp is None else stamp  # noqa: TID251
        return f"node_cpu_usage_seconds_total {2 * (time.monotonic() - begun):.6f} {int(now * 1000)}\n"

    world.exporter.show("stuck", text)
    await world.until(known, "stuck")
    stamp = time.time()  # noqa: TID251
    await world.until(lambda found: unknown(found) and found.sampled_at == pytest.approx(stamp, abs=0.01), "stuck")
    live = MetricQuery(subject="node", resource="cpu", aggregate="newest", length=0.0, at=await world.source.time())
    assert "stuck" in {sample.node for sample in await world.source.query(live)}


async def test_pods_are_measured(world: World) -> None:
    """By namespace and pod; the node is the target's."""
    begun = time.monotonic()
    labels = '{namespace="shop",pod="web-1"}'

    def text() -> str:
        used = 0.5 * (time.monotonic() - begun)
        return f"pod_cpu_usage_seconds_total{labels} {used:.6f}\npod_memory_working_set_bytes{labels} 5e8\n"

    world.exporter.show("pods", text)
    pods = {("shop", "web-1"): MeasurementTarget(since=0.0, capacity=CAPACITY, node="pods")}

    async def measured() -> Resources:
        at = await world.source.time()
        intervals = await find_intervals(world.source, WINDOW, at, NodeNames())
        criteria = WindowCriteria(
            at=at, length=WINDOW, coverage=0.8, max_age=60.0, lookback=WINDOW, intervals=intervals
        )
        return (await measure_pods(world.source, pods, criteria)).usage.get(("shop", "web-1"), Resources())

    await until(measured, lambda usage: (usage.cpu, usage.memory) == (pytest.approx(0.5, rel=0.1), 5e8))

    async def published(resource: ResourceName, min_samples: float) -> list[str]:
        at = await world.source.time()
        query = MetricQuery(
            subject="pod", resource=resource, aggregate="mean", length=WINDOW, at=at, min_samples=min_samples
        )
        return [sample.pod for sample in await world.source.query(query)]

    resources: tuple[ResourceName, ...] = ("cpu", "memory")
    for resource in resources:
        await until(partial(published, resource, 3.0), partial(operator.eq, ["web-1"]))
        assert [] == await published(resource, 1_000.0)
