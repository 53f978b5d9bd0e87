"""Further resources on a real Prometheus: the PromQL that shows usage, age and coverage."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime

import pytest
from collector.exporter import SCRAPE_INTERVAL, Exporter, a_job, prometheus

from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.shell.further_measurement import FurtherMeasurement
from equipoise.collector.sources.prometheus.promql_source import PrometheusPromql
from equipoise.collector.state.further_usage import FurtherUsage
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Freshness, FurtherResource, LoadSettings, Window
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec, PodStatus
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries

WINDOW = Window(name="5m", length=Duration(2), refresh_period=Duration(0.5))
LONG_AGO = 1_000_000.0
BEGUN = time.monotonic()
MEMORY = "DCGM_FI_DEV_FB_USED"


def network_page() -> str:
    """Two devices of each of two nodes, and one of a node of another cluster."""
    sent = 1_000 + 50 * (time.monotonic() - BEGUN)
    devices = [("worker-1", "eth0"), ("worker-1", "eth1"), ("worker-2", "eth0"), ("elsewhere", "eth0")]
    lines = [f'sent_bytes_total{{node="{node}", device="{device}"}} {sent:.6f}' for node, device in devices]
    return "\n".join([*lines, f'pod_sent_bytes_total{{namespace="shop", pod="web"}} {sent / 2:.6f}', ""])


def gpu_page() -> str:
    """Two GPUs of worker-1, as the DCGM exporter shows them."""
    labels = [f'Hostname="worker-1", gpu="{number}"' for number in range(2)]
    used = [f"{MEMORY}{{{label}}} {1_000 * (number + 1)}" for number, label in enumerate(labels)]
    return "\n".join([*used, *(f"DCGM_FI_DEV_FB_FREE{{{label}}} 3000" for label in labels), ""])


def many_page() -> str:
    """Ten thousand series of worker-1."""
    sent = 1_000 + time.monotonic() - BEGUN
    return "".join(f'many_total{{node="worker-1", flow="{flow}"}} {sent:.3f}\n' for flow in range(10_000))


def about_network(promql: str, capacity: float | str = 200) -> FurtherResource:
    """`promql`: `%s` stands for the bytes that each node sends."""
    return FurtherResource(
        node=promql.replace("%s", "sum by (node) (rate(sent_bytes_total[$window]))"), capacity=capacity
    )


IMPOSSIBLE = {
    "noCapacity": (
        about_network("%s", "sum by (node) (speed_bytes)"),
        "its capacity is unknown: no series of the result names this node",
    ),
    "zeroCapacity": (about_network("%s", "0 * sum by (node) (sent_bytes_total)"), "its capacity is 0"),
    "endlessCapacity": (
        about_network("%s", "sum by (node) (sent_bytes_total) / 0"),
        "its capacity is unknown: value is inf",
    ),
    "infinite": (about_network("%s / 0"), "value is inf"),
    "undefined": (about_network("0 * %s / 0"), "value is nan"),
    "negative": (about_network("-1000 * %s"), "value is -"),
    "elsewhere": (about_network('sum by (node) (rate(sent_bytes_total{node="elsewhere"}[$window]))'), "no sample"),
    "nameless": (about_network("sum(rate(sent_bytes_total[$window]))"), "no series of the result names this node"),
}
"""Queries that Prometheus answers, and why what they show of worker-1 is unknown."""

REFUSED = {
    "scalar": (
        FurtherResource(node="scalar(sum(rate(sent_bytes_total[$window])))", capacity=200),
        "the response holds a scalar instead of a vector",
    ),
    "scalarCapacity": (
        about_network("%s", "scalar(sum(sent_bytes_total))"),
        "the response holds a scalar instead of a vector",
    ),
    "many": (
        FurtherResource(node="rate(many_total[$window])", capacity=200),
        "10000 series for 2 nodes: aggregate by node",
    ),
    "samples": (
        FurtherResource(node="sent_bytes_total[$window]", capacity=200),
        "the response holds a matrix instead of a vector",
    ),
    "wrong": (FurtherResource(node="rate(sent_bytes_total[$window]", capacity=200), "400: invalid parameter"),
}
"""Queries that show nothing, and why."""

RESOURCES = {
    "network": FurtherResource(
        node="sum by (node) (rate(sent_bytes_total[$window]))",
        pod="sum by (namespace, pod) (rate(pod_sent_bytes_total[$window]))",
        capacity=200,
    ),
    "gpuMemory": FurtherResource(
        node=f"sum by (Hostname) (avg_over_time({MEMORY}[$window]))",
        capacity=f"sum by (Hostname) ({MEMORY} + DCGM_FI_DEV_FB_FREE)",
        node_label="Hostname",
    ),
    "devices": FurtherResource(node="rate(sent_bytes_total[$window])", capacity=200),
    **{name: resource for name, (resource, _) in (IMPOSSIBLE | REFUSED).items()},
}


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    opened = Exporter()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(exporter: Exporter, testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    exporter.show("network", network_page)
    exporter.show("gpus", gpu_page)
    exporter.show("many", many_page)
    jobs = [a_job(name, exporter, name) for name in ("network", "gpus", "many")]
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("prometheus"), jobs) as address:
        yield address


class World:
    """Two nodes of a cluster, of which worker-1 has a pod."""

    def __init__(self, source: PrometheusPromql) -> None:
        self.clock = SystemClock()
        load = LoadSettings(windows=(WINDOW,), resources=RESOURCES, freshness=Freshness(score=Duration(20)))
        placement = ClusterPlacement(
            windows=[2.0], start_timeout=600.0, owner_retention=60.0, owner_of=lambda _: None, selector={}
        )
        for name in ("worker-1", "worker-2"):
            since = datetime.fromtimestamp(self.clock.now() - LONG_AGO, UTC)
            metadata = ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=since)
            status = NodeStatus(capacity={"cpu": "1"}, conditions=[Condition(type="Ready", status="True")])
            placement.on_node(None, Node(metadata=metadata, status=status))
        pod = Pod(
            metadata=ObjectMeta(name="web", namespace="shop", uid="uid-web"),
            spec=PodSpec(node_name="worker-1"),
            status=PodStatus(phase="Running", start_time=datetime.fromtimestamp(self.clock.now() - LONG_AGO, UTC)),
        )
        placement.on_pod(None, pod, self.clock.now())
        self.usage = FurtherUsage(load)
        self.further = FurtherMeasurement(
            load=load, source=source, placement=placement, usage=self.usage, now=self.clock.now
        )

    def message(self, name: str) -> NodeUtilization:
        now = self.clock.now()
        message = NodeUtilization(
            node=name,
            uid=f"uid-{name}",
            base=Resources(cpu=1.0),
            sampled_at=now,
            queried_at=now,
            windows={"5m": WindowUsage(sampled_at=now, mean=Resources(cpu=0.5))},
            pods={"uid-web": self.usage.with_further(Resources(cpu=0.1), "uid-web", now)},
            epoch=1,
            sequence=1,
        )
        return self.usage.message(message, {}, now)

    async def until(self, node: str, wanted: Callable[[NodeUtilization], bool]) -> NodeUtilization:
        async with asyncio.timeout(60):
            while True:  # Prometheus does not notify about scrapes
                await self.further.round(WINDOW)
                if wanted(message := self.message(node)):
                    return message
                await asyncio.sleep(SCRAPE_INTERVAL / 2)


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    source = PrometheusPromql(PrometheusSettings(url=url), SystemClock())
    yield World(source)
    source.close()


def known(*names: str) -> Callable[[NodeUtilization], bool]:
    return lambda message: all(not message.resources[name].unknown for name in names)


async def test_resources_of_a_real_prometheus_are_measured(world: World) -> None:
    """A counter in several series, and gauges with a capacity that is a query."""
    message = await world.until("worker-1", known("network", "gpuMemory"))
    further = message.windows["5m"].mean.further or {}

    assert {"network": 200.0, "gpuMemory": 9_000.0, "devices": 200.0}.items() <= (message.base.further or {}).items()
    assert 60.0 < further["network"] < 140.0  # twice 50 per second; a window of two seconds is not exact
    assert 3_000.0 == further["gpuMemory"]
    assert {"network"} == (message.pods["uid-web"].further or {}).keys()
    assert message.resources["network"].sampled_at > world.clock.now() - 10


async def test_bad_queries_are_named_and_make_nothing_known(world: World) -> None:
    """What they show of a node is unknown, with the reason; another cluster's node is ignored."""
    message = await world.until("worker-1", known("network"))
    problems = world.further.problem

    assert "2 series claim to be this node" == message.resources["devices"].unknown
    for name, (_, reason) in REFUSED.items():
        assert f"{name}: {reason}" in problems
        assert message.resources[name].unknown.startswith(f"its query fails: {reason}")
    for name, (_, reason) in IMPOSSIBLE.items():
        assert message.resources[name].unknown.startswith(reason)
    usage, capacity = message.windows["5m"].mean.further or {}, message.base.further or {}
    assert not {*IMPOSSIBLE, *REFUSED} & usage.keys() & capacity.keys()
    assert 'network: a series without a node of this cluster, which are ignored: node="elsewhere"' in problems
    assert "no sample" == world.message("worker-2").resources["gpuMemory"].unknown


async def test_gpus_that_vanish_are_unknown_long_before_their_window_is_empty(world: World, exporter: Exporter) -> None:
    """A mean is answered for a whole window after its last sample."""
    await world.until("worker-1", known("gpuMemory"))
    exporter.hide("gpus")
    message = await world.until("worker-1", lambda message: not known("gpuMemory")(message))
    exporter.show("gpus", gpu_page)

    without_capacity = "its capacity is unknown: no series of the result names this node"
    assert message.resources["gpuMemory"].unknown in ("no sample", without_capacity)
    assert "gpuMemory" not in (message.windows["5m"].mean.further or {})
    assert known("network")(message)
