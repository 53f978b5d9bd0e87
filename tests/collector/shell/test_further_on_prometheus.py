"""Further resources on a real Prometheus: the PromQL that shows usage, age and coverage."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from collector.exporter import SCRAPE_INTERVAL, Exporter, a_job, prometheus

from equipoise.collector.decisions.further.divided_promql import divide_promql
from equipoise.collector.decisions.query import NodeMatcher, Sample
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.shell.further_measurement import FurtherMeasurement
from equipoise.collector.sources import PromqlSource
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
    """Two devices of each of two nodes, and one of a node of another cluster. An exporter on worker-2 has the queues of
    all pods."""
    sent = 1_000 + 50 * (time.monotonic() - BEGUN)
    devices = [("worker-1", "eth0"), ("worker-1", "eth1"), ("worker-2", "eth0"), ("elsewhere", "eth0")]
    lines = [f'sent_bytes_total{{node="{node}", device="{device}"}} {sent:.6f}' for node, device in devices]
    pods = [("worker-1", "web"), ("worker-2", "db"), ("worker-2", "cache")]
    lines += [
        f'pod_sent_bytes_total{{node="{node}", namespace="shop", pod="{pod}"}} {sent / 2:.6f}' for node, pod in pods
    ]
    lines += [f'queue_total{{node="worker-2", namespace="shop", pod="{pod}"}} {sent:.6f}' for _, pod in pods]
    return "\n".join([*lines, ""])


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
        pod="sum by (namespace, pod) (rate(queue_total[$window]))",
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


OF_NODES = (
    "sum by (node) (rate(sent_bytes_total[2s]))",
    "sum without (device) (rate(sent_bytes_total[2s])) / on (node) group_left sum by (node) (sent_bytes_total) * 100",
    'rate(sent_bytes_total{device=~"eth.*"}[2s]) > bool 40 and on (node, device) sent_bytes_total',
    "sum by (node) (max_over_time(rate(sent_bytes_total[2s])[3s:1s] @ end() offset 500ms))",
    "topk by (node) (1, sent_bytes_total) or vector(0)",
    'label_replace(max(sent_bytes_total) by (node, device), "link", "$1", "device", "eth(.+)")',
    "sum by (node) (sent_bytes_total) unless ignoring (job, instance) sum by (node) (sent_bytes_total > 1e12)",
    "min by (node, instance) (min_over_time(timestamp(sent_bytes_total)[2000ms:100ms]))",
)
"""PromQL about nodes that can be limited."""

OF_PODS = (
    "sum by (namespace, pod) (rate(pod_sent_bytes_total[2s]))",
    "pod_sent_bytes_total / on (namespace, pod) group_left () sum by (namespace, pod) (pod_sent_bytes_total)",
)
"""PromQL about pods that can be limited."""


class World:
    """Two nodes of a cluster, of which worker-1 has a pod.

    `owned`: the nodes that this replica measures; None: all, with queries about all nodes.
    """

    def __init__(self, source: PromqlSource, owned: Collection[str] | None = None) -> None:
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
            load=load, source=source, placement=placement, usage=self.usage, now=self.clock.now,
            owns=None if owned is None else owned.__contains__, cluster_nodes=placement.nodes.keys,
        )  # fmt: skip

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


class RecordedPromql:
    """A PromqlSource that records what was queried, and how many samples there were."""

    def __init__(self, source: PrometheusPromql) -> None:
        self._source = source
        self.node_labels = source.node_labels
        self.queried: list[tuple[str, int]] = []

    async def samples(self, promql: str, *arguments: Any, **named: Any) -> list[Sample]:
        samples = await self._source.samples(promql, *arguments, **named)
        self.queried.append((promql, len(samples)))
        return samples

    def close(self) -> None:
        self._source.close()


def known(*names: str) -> Callable[[NodeUtilization], bool]:
    return lambda message: all(not message.resources[name].unknown for name in names)


async def test_resources_of_a_real_prometheus_are_measured(world: World) -> None:
    """A counter in several series, and gauges with a capacity that is a query."""
    message = await world.until("worker-1", known("network", "gpuMemory"))
    further = message.windows["5m"].mean.further or {}

    assert {"network": 200.0, "gpuMemory": 9_000.0, "devices": 200.0}.items() <= (message.base.further or {}).items()
    assert 60.0 < further["network"] < 140.0  # twice 50 per second; a window of two seconds is not exact
    assert 3_000.0 == further["gpuMemory"]
    assert {"network", "gpuMemory"} == (message.pods["uid-web"].further or {}).keys()
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


async def test_limited_promql_has_the_values_of_the_chosen_nodes_of_all(world: World, url: str) -> None:
    """Every kind of step that can be limited, at one time."""
    await world.until("worker-1", known("network"))
    source, at = PrometheusPromql(PrometheusSettings(url=url), SystemClock()), world.clock.now()
    matcher = NodeMatcher("node", ("worker-2", "elsewhere"))
    for promql in OF_NODES:
        all_nodes = await source.samples(promql, "node", at=at)
        limited = await source.samples(divide_promql(promql, ["node"]).limited(matcher), "node", at=at)

        assert {"worker-1", *matcher.values} == {sample.node for sample in all_nodes}, promql
        assert {sample.series: sample for sample in all_nodes if sample.node != "worker-1"} == {
            sample.series: sample for sample in limited
        }, promql
    for promql in OF_PODS:
        all_pods = await source.samples(promql, "pod", at=at)
        limited = await source.samples(divide_promql(promql, ["namespace", "pod"]).limited(matcher), "pod", at=at)

        assert {"web", "db", "cache"} == {sample.pod for sample in all_pods}, promql
        assert {sample.pod: sample for sample in all_pods if sample.pod != "web"} == {
            sample.pod: sample for sample in limited
        }, promql
    many = NodeMatcher("node", ("worker-2", *(f"node-{number}.eu-central-1.example.com" for number in range(40_000))))
    limited = await source.samples(divide_promql(OF_NODES[0], ["node"]).limited(many), "node", at=at)
    assert ["worker-2"] == [sample.node for sample in limited]
    source.close()


def _reasons(message: NodeUtilization) -> dict[str, str]:
    """Why resources are unknown, without the values of the moment."""
    return {name: status.unknown.partition(" -")[0] for name, status in message.resources.items()}


async def test_a_shard_measures_its_nodes_as_one_collector_with_queries_about_them(world: World, url: str) -> None:
    """What has no label of a node is about all nodes, with the reason."""
    source = RecordedPromql(PrometheusPromql(PrometheusSettings(url=url), SystemClock()))
    shard = World(source, ["worker-1"])
    message = await shard.until("worker-1", known("network", "gpuMemory"))
    alone = await world.until("worker-1", known("network", "gpuMemory"))
    source.queried.clear()
    await shard.further.round(WINDOW)
    source.close()

    assert alone.base == message.base
    assert _reasons(alone) == _reasons(message)
    assert {"network", "gpuMemory"} == (message.pods["uid-web"].further or {}).keys()
    queried = dict(source.queried)
    chosen = 'node=~"worker-1|elsewhere"'
    assert 2 == queried[f"sum by (node) (rate(sent_bytes_total{{{chosen}}}[2000ms]))"]  # elsewhere may be any node
    assert 1 == queried['sum by (namespace, pod) (rate(pod_sent_bytes_total{node=~"worker-1"}[2000ms]))']
    assert "the query about nameless of nodes is not divided among the shards: sum combines" in shard.further.undivided
    assert "about gpuMemory of pods is not divided among the shards: queue_total: 100% of" in shard.further.undivided
    assert 1 == queried["sum by (namespace, pod) (rate(queue_total[2000ms]))"]
    assert "network" not in shard.further.undivided
    assert "not measured yet" == shard.message("worker-2").resources["network"].unknown
