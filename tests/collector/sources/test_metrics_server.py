"""metrics.k8s.io, from the in-memory API server and over real HTTP."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from builders import NOW
from collector.collectors import FakeHealth, a_node, a_pod
from prometheus_client import CollectorRegistry

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import MetricQuery, SourceError
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings, MetricsServerSettings, ProfileSettings
from equipoise.collector.shell.intervals import find_intervals
from equipoise.collector.shell.rounds import measure_nodes, measure_pods
from equipoise.collector.sources import open_source
from equipoise.collector.sources.metrics_server import (
    NODE_METRICS,
    POD_METRICS,
    ContainerMetrics,
    MetricsServerSource,
    NodeMetrics,
    PodMetrics,
)
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import NODES, PODS, Forbidden, NotFound
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

GIB = 2.0**30
CAPACITY = Resources(cpu=16.0, memory=64 * GIB)
KNOWN = {"a": MeasurementTarget(since=0.0, capacity=CAPACITY)}
POD = ("shop", "web-0")
WINDOW = 60.0


@dataclass
class World:
    clock: ManualClock
    kube: MemoryKube
    source: MetricsServerSource

    def show(self, cpu: str = "2", memory: str = "8Gi", *, age: float = 5.0) -> None:
        at = datetime.fromtimestamp(self.clock.now() - age, UTC)
        self.kube.put(
            NODE_METRICS,
            NodeMetrics(metadata=ObjectMeta(name="a"), timestamp=at, usage={"cpu": cpu, "memory": memory}),
        )
        containers = [
            ContainerMetrics(name="main", usage={"cpu": "400m", "memory": "1Gi"}),
            ContainerMetrics(name="helper", usage={"cpu": "100000000n", "memory": "1048576Ki"}),
        ]
        self.kube.put(
            POD_METRICS,
            PodMetrics(metadata=ObjectMeta(name="web-0", namespace="shop"), timestamp=at, containers=containers),
        )

    async def pass_time(self, polls: int, *cpus: str) -> None:
        for number in range(polls):
            self.show(cpus[number % len(cpus)] if cpus else "2")
            await self.clock.advance(15.0)

    async def read(self, length: float = WINDOW) -> tuple[object, object]:
        at = await self.source.time()
        intervals = await find_intervals(self.source, WINDOW, at, NodeNames())
        criteria = WindowCriteria(
            at=at, length=length, coverage=0.8, max_age=180.0, lookback=300.0, intervals=intervals
        )
        nodes = await measure_nodes(self.source, KNOWN, criteria, ["p95"])
        pods = await measure_pods(
            self.source, {POD: MeasurementTarget(since=0.0, capacity=CAPACITY, node="a")}, criteria
        )

        assert {} == nodes.failed == pods.failed
        return nodes.readings, pods.usage


@asynccontextmanager
async def a_world(**settings: object) -> AsyncIterator[World]:
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    source = MetricsServerSource(
        MetricsServerSettings(**settings),  # type: ignore[arg-type]
        memory="workingSet", kube=kube, clock=clock,
    )  # fmt: skip
    world = World(clock, kube, source)
    world.show()
    running = asyncio.create_task(source.run())
    await clock.advance(0.0)
    yield world
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_window_is_known_when_it_was_polled_throughout() -> None:
    """The mean of the polled values, of nodes and of pods."""
    async with a_world() as world:
        young, _ = await world.read()
        await world.pass_time(6, "1", "3")
        nodes, pods = await world.read()

    assert young["cpu"]["a"].mean is None  # type: ignore[index]
    assert (pytest.approx((3 + 1 + 3) / 3), 8 * GIB) == (nodes["cpu"]["a"].mean, nodes["memory"]["a"].mean)  # type: ignore[index]
    assert {POD: Resources(cpu=pytest.approx(0.5), memory=2 * GIB)} == pods


async def test_a_sample_keeps_the_timestamp_of_metrics_server() -> None:
    """A repeated sample becomes stale however often it is polled."""
    async with a_world() as world:
        await world.pass_time(6)
        for _ in range(10):
            await world.clock.advance(15.0)
        nodes, _ = await world.read()

    reading = nodes["cpu"]["a"]  # type: ignore[index]
    assert (None, NOW + 5 * 15.0 - 5.0) == (reading.mean, reading.sampled_at)


@pytest.mark.parametrize(("cpu", "memory"), [("x", "8Gi"), ("", "8Gi"), ("-1", "8Gi"), ("99", "8Gi")])
async def test_an_invalid_usage_is_unknown(cpu: str, memory: str) -> None:
    """The memory of the same node is known."""
    async with a_world() as world:
        await world.pass_time(6, cpu)
        nodes, _ = await world.read()

    assert nodes["cpu"]["a"].mean is None  # type: ignore[index]
    assert 8 * GIB == nodes["memory"]["a"].mean  # type: ignore[index]


async def test_a_pod_with_a_container_without_usage_is_unknown() -> None:
    """The usage of its other containers is not that of the pod."""
    async with a_world() as world:
        at = datetime.fromtimestamp(NOW + 5, UTC)
        containers = [ContainerMetrics(usage={"cpu": "1", "memory": "1Gi"}), ContainerMetrics(usage={"cpu": "1"})]
        metadata = ObjectMeta(name="web-0", namespace="shop")
        world.kube.put(POD_METRICS, PodMetrics(metadata=metadata, timestamp=at, containers=containers))
        await world.clock.advance(15.0)
        query = MetricQuery(subject="pod", resource="memory", aggregate="mean", length=15.0, at=NOW + 15)
        [sample] = await world.source.query(query)

    assert math.isnan(sample.value)


async def test_windows_longer_than_the_retention_are_unsupported() -> None:
    """They are not queried, and no round fails."""
    async with a_world(retention=Duration(3_600)) as world:
        await world.pass_time(6)
        nodes, pods = await world.read(86_400.0)

    assert "cpu: metrics-server returns current values only, and collector.metricsServer.retention is 1h" == (
        nodes["cpu"]["a"].why  # type: ignore[index]
    )
    assert {} == pods


async def test_a_slot_before_the_retention_is_unsupported() -> None:
    """The past day of a workload cannot be backfilled."""
    async with a_world() as world:
        past = MetricQuery(subject="pod", resource="cpu", aggregate="mean", length=3_600.0, at=NOW - 7_200.0)
        just = MetricQuery(subject="pod", resource="cpu", aggregate="mean", length=3_600.0, at=NOW - 72.0)

        assert "longer ago" in world.source.unsupported(past)
        assert "" == world.source.unsupported(just)


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (NotFound(404, "NotFound", "the server could not find the requested resource"), "install metrics-server"),
        (Forbidden(403, "Forbidden", "nodes.metrics.k8s.io is forbidden"), "permission to list"),
    ],
)
async def test_a_refusal_is_reported_with_what_to_do(error: Exception, complaint: str) -> None:
    """It ends when metrics-server responds."""
    async with a_world() as world:

        async def refuse(*_: object, **__: object) -> None:
            raise error

        listed, world.kube.list = world.kube.list, refuse  # type: ignore[method-assign, assignment]
        await world.clock.advance(15.0)
        with pytest.raises(SourceError, match=complaint):
            await world.source.time()
        world.kube.list = listed  # type: ignore[method-assign]
        await world.clock.advance(15.0)

        assert world.clock.now() == await world.source.time()


async def test_the_collector_publishes_what_metrics_server_can_measure() -> None:
    """The short window is known, the day is not, and the node is fresh."""
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    world = World(clock, kube, None)  # type: ignore[arg-type]
    kube.put(NODES, a_node("a"))
    kube.put(PODS, a_pod("web-0", "a"))
    settings = CollectorSettings(source="metrics-server", leader_election=False, profile=ProfileSettings(enabled=False))
    bus = MemoryBus(clock)
    collector = Collector(
        settings=settings, load=LoadSettings(), namespace="equipoise-system", identity="one",
        source=open_source(settings, LoadSettings(), clock, kube),
        kube=kube, bus=bus, clock=clock, health=FakeHealth(), metrics=CollectorRegistry(),
    )  # fmt: skip
    async with bus:
        await collector.attach()
        running = asyncio.create_task(collector.run())
        for _ in range(24):
            world.show()
            await clock.advance(15.0)
            kube.bookmark()
        await bus.settled()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    samples = bus.published(NodeUtilization, "equipoise.utilization.node.*")[-1]
    cycle = bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[-1]

    assert {"5m": Resources(cpu=2.0, memory=8 * GIB)} == {name: used.mean for name, used in samples.windows.items()}
    assert {"uid-web-0": Resources(cpu=0.5, memory=2 * GIB)} == samples.pods
    assert (1, 1, "") == (cycle.expected, cycle.fresh, cycle.problem)


def test_another_kind_of_memory_is_refused() -> None:
    """metrics-server has working sets only."""
    clock = ManualClock(NOW)
    with pytest.raises(ConfigurationError, match="anonymous is not allowed"):
        MetricsServerSource(MetricsServerSettings(), memory="anonymous", kube=MemoryKube(clock), clock=clock)


async def test_real_responses_are_decoded(tmp_path: Path) -> None:
    """Lists as metrics-server sends them through the API server."""
    nodes = {
        "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
        "items": [
            {
                "metadata": {"name": "a", "creationTimestamp": "2026-11-22T00:00:30Z", "labels": {"pool": "x"}},
                "timestamp": "2026-11-22T00:00:20Z", "window": "20.046s",
                "usage": {"cpu": "1500000000n", "memory": "8388608Ki"},
            }
        ],
    }  # fmt: skip
    pods = {
        "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
        "items": [
            {
                "metadata": {"name": "web-0", "namespace": "shop", "creationTimestamp": "2026-11-22T00:00:30Z"},
                "timestamp": "2026-11-22T00:00:16Z", "window": "15.2s",
                "containers": [{"name": "main", "usage": {"cpu": "250m", "memory": "1Gi"}}],
            }
        ],
    }  # fmt: skip
    responses = {"nodes": nodes, "pods": pods}

    async def respond(request: web.Request) -> web.Response:
        return web.json_response(responses[request.match_info["plural"]])

    app = web.Application()
    app.router.add_get("/apis/metrics.k8s.io/v1beta1/{plural}", respond)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        })
    )  # fmt: skip
    at = datetime(2026, 11, 22, 0, 0, 20, tzinfo=UTC).timestamp()
    async with connect_kube(_Connection(str(kubeconfig)), "collector", SystemClock()) as kube:
        # The responses are of a day in 2026: the clock is set so that they are not too old.
        clock = ManualClock(at + 10)
        kube.server_time = lambda now: now  # type: ignore[method-assign]
        source = MetricsServerSource(MetricsServerSettings(), memory="workingSet", kube=kube, clock=clock)
        running = asyncio.create_task(source.run())
        await source.time()
        samples = [
            sample.value
            for subject in ("node", "pod")
            for resource in ("cpu", "memory")
            for sample in await source.query(
                MetricQuery(subject=subject, resource=resource, aggregate="mean", length=60.0, at=at + 10)  # type: ignore[arg-type]
            )
        ]
        running.cancel()
    await runner.cleanup()

    assert [1.5, 8 * GIB, 0.25, GIB] == samples


@dataclass
class _Connection:
    kubeconfig: str
    context: str | None = None
    service_account: str = ""
