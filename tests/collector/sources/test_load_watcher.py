"""load-watcher's HTTP API, on a real HTTP server."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.utils import formatdate

import msgspec
import pytest
from aiohttp import web
from builders import NOW

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import MetricQuery, SourceError
from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.settings import LoadWatcherSettings
from equipoise.collector.shell.intervals import find_intervals
from equipoise.collector.shell.rounds import measure_nodes, measure_pods
from equipoise.collector.sources.load_watcher import LoadWatcherSource
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.configuration import ConfigurationError
from equipoise.testbed.memory.clock import ManualClock

CAPACITY = Resources(cpu=16.0, memory=64e9)
KNOWN = {name: MeasurementTarget(since=0.0, capacity=CAPACITY) for name in ("a", "b")}
WINDOW = 900.0
MINUTE = 60.0


def metric(kind: str, operator: str, value: object) -> dict[str, object]:
    return {"name": f"instance:{kind}", "type": kind, "operator": operator, "rollup": "15m", "value": value}


def a_node(cpu: object = 25.0, memory: object = 50.0, operator: str = "AVG") -> dict[str, object]:
    metrics = [metric("CPU", operator, cpu), metric("Memory", operator, memory), metric("Bandwidth", "AVG", 1e9)]
    if operator == "AVG":
        metrics.append(metric("CPU", "STD", 5.0))
    return {"metrics": metrics, "tags": {}, "metadata": {"dataCenter": ""}}


@dataclass
class World:
    """load-watcher measures once a minute; a test advances the clock from one measurement of it to our next poll."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    nodes: dict[str, object] = field(default_factory=lambda: {"a": a_node(), "b": a_node(75.0)})
    length: int = 900
    end: int = int(NOW)
    status: int = 200
    raw: bytes | None = None
    url: str = ""

    async def respond(self, _: web.Request) -> web.Response:
        if self.status != 200:
            return web.Response(status=self.status, headers={"Location": "/elsewhere"})
        window = {"duration": f"{self.length // 60}m", "start": self.end - self.length, "end": self.end}
        document = {
            "timestamp": self.end, "window": window, "source": "Prometheus", "data": {"NodeMetricsMap": self.nodes},
        }  # fmt: skip
        body = json.dumps(document).encode() if self.raw is None else self.raw
        # Its clock is that of the test.
        return web.Response(body=body, headers={"Date": formatdate(self.clock.now(), usegmt=True)})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    app = web.Application()
    app.router.add_get("/watcher", made.respond)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    yield made
    await runner.cleanup()


def a_source(world: World, **settings: object) -> LoadWatcherSource:
    chosen = LoadWatcherSettings(url=f"{world.url}/", **settings)  # type: ignore[arg-type]
    return LoadWatcherSource(chosen, memory="workingSet", clock=world.clock)


async def watch(world: World, source: LoadWatcherSource, minutes: int) -> None:
    for _ in range(minutes):
        await source.poll_once()
        await world.clock.advance(MINUTE)
        world.end += int(MINUTE)


async def read(source: LoadWatcherSource, length: float = WINDOW) -> dict[str, dict[str, NodeReading]]:
    at = await source.time()
    intervals = await find_intervals(source, WINDOW, at, NodeNames())
    criteria = WindowCriteria(at=at, length=length, coverage=0.8, max_age=180.0, lookback=WINDOW, intervals=intervals)
    found = await measure_nodes(source, KNOWN, criteria)

    assert {} == found.failed
    return {resource: dict(readings) for resource, readings in found.readings.items()}


async def deviations(source: LoadWatcherSource) -> list[float]:
    query = MetricQuery(subject="node", resource="cpu", aggregate="deviation", length=WINDOW, at=await source.time())
    return [sample.value for sample in await source.query(query) if sample.share_of_capacity]


async def test_percent_become_cores_and_bytes(world: World) -> None:
    """The standard deviation as well."""
    source = a_source(world)
    await watch(world, source, 16)
    readings = await read(source)

    assert [4.0, 12.0] == [readings["cpu"][name].mean for name in ("a", "b")]
    assert 32e9 == readings["memory"]["a"].mean
    assert [pytest.approx(0.05), pytest.approx(0.05)] == await deviations(source)
    assert NOW + 15 * MINUTE == readings["cpu"]["a"].sampled_at


async def test_a_window_without_responses_throughout_it_is_unknown(world: World) -> None:
    """load-watcher does not report how many samples a mean has."""
    source = a_source(world)
    await watch(world, source, 4)

    assert "cover" in (await read(source))["cpu"]["a"].why


async def test_a_repeated_response_becomes_stale(world: World) -> None:
    """load-watcher returns its last response however old it is."""
    source = a_source(world)
    await watch(world, source, 16)
    end = world.end
    for _ in range(4):
        world.end = end - int(MINUTE)
        await watch(world, source, 1)
    reading = (await read(source))["cpu"]["a"]

    assert (None, end - MINUTE) == (reading.mean, reading.sampled_at)


async def test_a_node_missing_in_a_response_is_unknown(world: World) -> None:
    """Its last mean is not used."""
    source = a_source(world)
    await watch(world, source, 16)
    del world.nodes["a"]
    await watch(world, source, 1)
    readings = await read(source)

    assert (None, 12.0) == (readings["cpu"]["a"].mean, readings["cpu"]["b"].mean)


@pytest.mark.parametrize(
    ("node", "known"),
    [(a_node(-1.0), {"memory"}), (a_node(120.0), {"memory"}), (a_node(25.0, 1e9), {"cpu"}), ({"metrics": None}, set())],
)
async def test_invalid_figures_are_unknown(world: World, node: object, known: set[str]) -> None:
    """Byte rates multiplied by a hundred, and figures that are no numbers."""
    source = a_source(world)
    await watch(world, source, 16)
    world.nodes["a"] = node
    await watch(world, source, 1)
    readings = await read(source)

    assert known == {resource for resource in ("cpu", "memory") if readings[resource]["a"].mean is not None}


async def test_current_values_are_averaged_by_the_collector(world: World) -> None:
    """When its own source is metrics-server, the window in its response is not the window of its figures."""
    source = a_source(world)
    for cpu in (20.0, 30.0) * 8:
        world.nodes = {"a": a_node(cpu, operator="Latest")}
        await watch(world, source, 1)
    readings = await read(source)

    assert 4.0 == pytest.approx(readings["cpu"]["a"].mean, rel=0.05)
    assert [pytest.approx(0.05, rel=0.05)] == await deviations(source)


async def test_a_response_about_a_shorter_window_is_not_used_for_the_longer_one(world: World) -> None:
    """It returns 10 minutes when it has no 15."""
    source = a_source(world)
    world.length = 600
    await watch(world, source, 16)

    assert (await read(source))["cpu"]["a"].mean is None
    assert 4.0 == (await read(source, 600.0))["cpu"]["a"].mean


async def test_unsupported_queries_are_unknown_with_a_reason(world: World) -> None:
    """Other windows, pods, quantiles: no failure."""
    source = a_source(world)
    await watch(world, source, 16)
    at = await source.time()
    intervals = await find_intervals(source, WINDOW, at, NodeNames())
    criteria = WindowCriteria(at=at, length=WINDOW, coverage=0.8, max_age=180.0, lookback=WINDOW, intervals=intervals)
    pods = await measure_pods(source, {}, criteria)

    assert "cpu: load-watcher has windows of 5, 10 and 15 minutes only" == (await read(source, 3_600.0))["cpu"]["a"].why
    assert ({}, {}) == (pods.usage, pods.failed)
    query = MetricQuery(subject="node", resource="cpu", aggregate="p95", length=WINDOW, at=criteria.at)
    assert "load-watcher does not measure the p95" == source.unsupported(query)


@pytest.mark.parametrize(
    ("status", "raw", "complaint"),
    [
        (500, None, "no metrics yet"),
        (302, None, "status 302"),
        (200, b"<html>", "is this its address"),
        (200, b'{"data": {}}', "is this its address"),
        (200, b'{"window": {"start": 0, "end": "x"}}', "is this its address"),
        (200, b'{"window":{"start":0,"end":1%s}}' % (400 * b"0"), "address"),
        (200, b" " * 2_000, "larger than loadWatcher.maxBodyBytes"),
    ],
)
async def test_a_bad_response_is_a_source_error(world: World, status: int, raw: bytes | None, complaint: str) -> None:
    """Redirects are not followed, and the size of the body is limited."""
    source = a_source(world, max_body_bytes=1_024)
    world.status, world.raw, world.nodes = status, raw, {}
    await source.poll_once()

    with pytest.raises(SourceError, match=complaint):
        await source.time()


async def test_a_load_watcher_that_is_down_is_a_source_error(world: World) -> None:
    """Until it responds."""
    source = a_source(world)
    url, world.url = world.url, "http://127.0.0.1:9"
    away = a_source(world)
    await away.poll_once()

    with pytest.raises(SourceError, match="does not respond"):
        await away.time()
    world.url = url
    await source.poll_once()
    assert await source.time() == pytest.approx(NOW, abs=1.0)


@pytest.mark.parametrize("url", ["load-watcher:2020", "ftp://x", "http://me:secret@load-watcher:2020"])
def test_an_invalid_address_is_refused(url: str) -> None:
    """A password in it is refused as well, because it would be shown in messages."""
    with pytest.raises(msgspec.ValidationError, match="url"):
        msgspec.convert({"url": url}, LoadWatcherSettings)


def test_another_kind_of_memory_is_refused() -> None:
    """load-watcher has one kind only."""
    with pytest.raises(ConfigurationError, match="anonymous is not allowed"):
        LoadWatcherSource(LoadWatcherSettings(), memory="anonymous", clock=ManualClock(NOW))
