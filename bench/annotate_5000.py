"""Annotations of 5,000 nodes: the maximum write rate with a real API server, and writes per minute with a threshold.

The annotator is the real service; it receives utilization over a bus in memory. The writes per minute are measured with
a manual clock and an API server in memory.
"""

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from bench import clusters
from bench.output import progress, report
from equipoise.annotator.decisions.write_decision import WriteThreshold
from equipoise.annotator.service import Annotator
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.configuration import Configuration, Kubernetes, Shared
from equipoise.runtime.kubernetes.client import NODES as NODE_OBJECTS
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube
from equipoise.testbed.objects import node
from equipoise.testbed.processes.configuration import PrometheusConfiguration

NODES = 5_000
GIB = 2.0**30
BASE = Resources(cpu=16, memory=64 * GIB)
PERIOD = 30.0
"""Seconds between two rounds of the collector."""

FIRST_ROUNDS, ROUNDS = 20, 60
"""The first values of 5,000 nodes take 500 s at 10 writes per second. Then half an hour: one refresh period."""

FEW_ROUNDS = 6
"""The number of rounds without a write threshold, where all are equal."""

NO_THRESHOLD = WriteThreshold(min_change=0, min_interval=Duration(PERIOD), refresh_period=Duration(PERIOD))
"""No write threshold: every measurement is written."""


class CountingKube:
    """Counts writes of annotations."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.writes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._kube, name)

    async def annotate(self, *arguments: object, **options: object) -> None:
        await self._kube.annotate(*arguments, **options)  # type: ignore[arg-type]  # forwarded unchanged
        self.writes += 1


def utilization(name: str, uid: str, now: float, cpu: float, sequence: int) -> NodeUtilization:
    value = WindowUsage(sampled_at=now, mean=Resources(cpu=16 * cpu, memory=20 * GIB))
    return NodeUtilization(
        node=name, uid=uid, base=BASE, sampled_at=now, queried_at=now, epoch=1, sequence=sequence,
        windows=dict.fromkeys(clusters.WINDOWS, value),
    )  # fmt: skip


@asynccontextmanager
async def running_annotator(
    kube: Kube, clock: Clock, settings: AnnotatorSettings
) -> AsyncIterator[tuple[MemoryBus, CountingKube]]:
    counting = CountingKube(kube)
    bus, metrics = MemoryBus(clock), CollectorRegistry()
    shared = Shared(kubernetes=Kubernetes(namespace="default"))
    runtime = Runtime(
        configuration=Configuration(shared=shared, own=settings, hash=""), message_bus=bus, clock=clock,
        identity="bench", health=Health(configuration_hash="", metrics=metrics), metrics=metrics, api_server=counting,  # type: ignore[arg-type]
    )  # fmt: skip
    annotator = Annotator(runtime)
    async with bus:
        await annotator.attach()
        task = asyncio.create_task(annotator.run())
        try:
            yield bus, counting
        finally:
            task.cancel()
            await asyncio.wait([task])


async def writes_per_second(kube: Kube, uids: dict[str, str]) -> None:
    """Every node needs a write, and the rate limits are higher than what the API server reaches.

    In the first round, the annotator reads each node before it writes. In the second, after `minInterval`, it does not.
    """
    settings = AnnotatorSettings(
        nodes=WriteThreshold(min_change=5, min_interval=Duration(1), refresh_period=Duration(1_800)),
        writes_per_second=1_000.0, reads_per_second=1_000.0,
    )  # fmt: skip
    clock = SystemClock()
    async with running_annotator(kube, clock, settings) as (bus, counting):
        await asyncio.sleep(1.0)  # until it has joined the replicas
        for round_number, (name, load) in enumerate((("annotate_5000_first", 0.4), ("annotate_5000", 0.6)), start=1):
            await asyncio.sleep(2.0)
            counting.writes = 0
            started, cpu = time.monotonic(), time.process_time()
            now = clock.now()
            for node_name, uid in uids.items():
                message = utilization(node_name, uid, now, load, round_number)
                await bus.publish(subjects.node_utilization(node_name), message)
            while counting.writes < len(uids):
                await asyncio.sleep(0.02)
                if time.monotonic() - started > 300:
                    break
            seconds = time.monotonic() - started
            each = (time.process_time() - cpu) / counting.writes
            report(name, counting.writes / seconds, "writes/s, without rate limit", target=(">=", 300.0),
                writes=counting.writes, cpu_milliseconds_each=round(each * 1e3, 2))  # fmt: skip


async def writes_per_minute(nodes: int, settings: AnnotatorSettings, deviation: float, rounds: int) -> float:
    """Writes per minute over this many rounds after the first values, with an API server in memory.

    `deviation`: standard deviation of the load of a node, in points.
    """
    generator, clock = random.Random(1), ManualClock(SystemClock().now())
    loads = {clusters.node_name(number): generator.uniform(0.1, 0.7) for number in range(nodes)}
    kube = MemoryKube(clock)
    for name in loads:
        kube.put(NODE_OBJECTS, Node(metadata=ObjectMeta(name=name, uid=name)))
    async with running_annotator(kube, clock, settings) as (bus, counting):
        await clock.advance(1)
        first = 0
        for number in range(1, FIRST_ROUNDS + rounds + 1):
            for name, mean in loads.items():
                load = mean + generator.gauss(0, deviation / 100)
                message = utilization(name, name, clock.now(), max(0.0, load), number)
                await bus.publish(subjects.node_utilization(name), message)
            await clock.advance(PERIOD)
            if number == FIRST_ROUNDS:
                first = counting.writes
    return (counting.writes - first) / (rounds * PERIOD / 60)


async def main(nodes: int, record: Path | None) -> None:
    rare_scrapes = PrometheusConfiguration(scrape_interval=60)
    rare_heartbeats = {"kwok": ["--node-lease-duration-seconds=4000"]}
    progress(f"starting a cluster of {nodes} nodes")
    async with Cluster(nats=False, prometheus=rare_scrapes, arguments=rare_heartbeats) as cluster:
        names = [clusters.node_name(number) for number in range(nodes)]
        await cluster.add_nodes([node(names[0])])
        if record is not None:
            await record_pod(cluster, record)
        # Only the annotator may write to these nodes. They need not be ready.
        for component in ("kwok", "kube-controller-manager", "kube-scheduler"):
            await asyncio.to_thread(cluster.kill, component)
        await cluster.apply([node(name) for name in names])
        listed = (await cluster.request("GET", "/api/v1/nodes"))["items"]
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in listed}
        async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "annotator", SystemClock()) as kube:
            progress("writing")
            await writes_per_second(kube, uids)
    for name, settings, deviation in (
        ("annotate_idle", AnnotatorSettings(), 0.5),
        ("annotate_busy", AnnotatorSettings(), 4.0),
        ("annotate_without_threshold", AnnotatorSettings(nodes=NO_THRESHOLD, writes_per_second=1_000.0), 0.5),
    ):
        progress(name)
        rate = await writes_per_minute(
            nodes, settings, deviation, FEW_ROUNDS if settings.nodes == NO_THRESHOLD else ROUNDS
        )
        target = ("<=", 5.0) if name == "annotate_idle" else None
        unit = f"writes/s for {nodes} nodes whose load varies by {deviation} points"
        report(name, rate / 60, unit, target=target, writes_per_minute=round(rate))


async def record_pod(cluster: Cluster, file: Path) -> None:
    """Write one pod of a Deployment as this API server returns it, for `bench.collector.recorded_api_server`."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example.com/shop/web:1.2.3",
            "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
            "env": [{"name": "MODE", "value": "production"}],
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
        }]},
    }  # fmt: skip
    await cluster.apply([{
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }])  # fmt: skip
    await cluster.wait(
        "/api/v1/namespaces/default/pods",
        lambda pods: any(pod["status"].get("phase") == "Running" for pod in pods["items"]),
        timeout=60.0,
    )
    [pod] = (await cluster.request("GET", "/api/v1/namespaces/default/pods"))["items"]
    text = msgspec.json.encode({"kind": "Pod", "apiVersion": "v1", **pod}).decode()
    for value, placeholder in (
        (pod["metadata"]["name"], "web-NUMBER"), (pod["metadata"]["uid"], "11111111-2222-3333-4444-555555NUMBER"),
        (pod["spec"]["nodeName"], "NODE"), (pod["metadata"]["resourceVersion"], "VERSION"),
        (pod["metadata"]["ownerReferences"][0]["name"], "OWNER"),
    ):  # fmt: skip
        text = text.replace(value, placeholder)
    file.write_text(text + "\n")  # noqa: ASYNC240  no other task runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--record", type=Path, help="file to which one pod of this API server is written")
    options = parser.parse_args()
    asyncio.run(main(options.nodes, options.record))
