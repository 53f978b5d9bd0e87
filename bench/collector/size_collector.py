"""The collector at size: a cycle of the shortest window from generated responses of Prometheus, which lie in files.

Network and Prometheus are not part of it. `bench.collector.collect_5000` measures all windows with a real Prometheus.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from bench import clusters
from bench.collector.collect_5000 import make_placement
from equipoise.collector.decisions.query import MetricQuery, Sample
from equipoise.collector.decisions.sharding import shard_of
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.shell.profile_learning import ProfileLearning
from equipoise.collector.sources.prometheus.json_document import decode_document
from equipoise.collector.sources.prometheus.samples import LabelCache, result_of, vector
from equipoise.collector.state.other_shards import PublishedPods
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, WORKLOADS_PER_BATCH, in_batches
from equipoise.testbed.memory.clock import ManualClock

NOW = 1_800_000_000.0
PODS, SPACING = 30, 15
SHARDS = 3
SHARD = 0
"""The shard that is measured, if there are several."""


class GeneratedResponses:
    """A MetricSource. A response has the series of all nodes, or of those of one shard, and is decoded for each query
    as that of a real server."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder = folder
        self._nodes = nodes
        self._labels = LabelCache(["node"])

    async def run(self) -> None:
        pass

    async def time(self) -> float:
        return NOW

    def unsupported(self, query: MetricQuery) -> str:
        return "not generated" if query.aggregate in ("size", "spacing") or query.pod_series == "containers" else ""

    async def query(self, query: MetricQuery) -> list[Sample]:
        kind = "node" if query.aggregate == "pods" else query.subject
        shards = set(range(SHARDS))
        if query.nodes is not None:
            shards = {shard_of(value, SHARDS) for value in query.nodes.values if value}
        name = f"{kind} {query.aggregate} {query.resource} {sorted(shards)}"
        file = self._folder / name
        if not file.exists():
            self._write(file, kind, query, shards)
        return await asyncio.to_thread(self._read, file, query)

    def _read(self, file: Path, query: MetricQuery) -> list[Sample]:
        subject = "node" if query.aggregate == "pods" else query.subject
        labels = LabelCache(["node"], keep=False) if query.rare else self._labels
        return vector(result_of(decode_document(file.read_bytes()), "vector"), subject, labels)

    def _write(self, file: Path, kind: str, query: MetricQuery, shards: Collection[int]) -> None:
        usage = ("2.5", str(2**33)) if kind == "node" else ("0.05", str(2**28))
        values = {"count": str(query.length / SPACING), "newest": str(NOW - 5), "last": str(NOW - 5), "pods": str(PODS)}
        value = values.get(query.aggregate, usage[query.resource == "memory"])
        with file.open("wb") as response:
            response.write(b'{"status":"success","data":{"resultType":"vector","result":[')
            separator = b""
            for number in range(self._nodes * (1 if kind == "node" else PODS)):
                node = f"n-{number % self._nodes}"
                if shard_of(node, SHARDS) not in shards:
                    continue
                labels = {"instance": f"{node}:10250", "job": "kubelet", "metrics_path": "/metrics/resource"}
                labels |= {"node": node} | ({"namespace": "shop", "pod": f"web-{number}"} if kind == "pod" else {})
                response.write(separator + msgspec.json.encode({"metric": labels, "value": [NOW, value]}))
                separator = b","
            response.write(b"]}}")

    def close(self) -> None:
        pass


async def _cycle(measurement: Measurement, load: LoadSettings, names: list[str]) -> float:
    """CPU time of a round of the shortest window and its messages."""
    started = time.process_time()
    assert await measurement.round(load.shortest), measurement.problem
    count = 0
    async for batch in in_batches(names, NODES_PER_BATCH):
        messages = measurement.node_messages(batch, epoch=1, sequence=1)
        count += sum(len(message.pods) for message in messages)
        _ = [msgspec.json.encode(message) for message in messages]
    assert count == PODS * len(names), "the usage of some pods is unknown"
    async for workloads in in_batches(measurement.workload_store.measured, WORKLOADS_PER_BATCH):
        usages = measurement.workload_store.messages(workloads, NOW, epoch=1, sequence=1)
        _ = [msgspec.json.encode(message) for message in usages]
    return time.process_time() - started


def _published(nodes: int) -> list[bytes]:
    """The messages about the nodes of other shards."""
    generator, encoded = random.Random(1), []
    for number in range(nodes):
        if shard_of(f"n-{number}", SHARDS) != SHARD:
            message = clusters.utilization(clusters.placement(number, 0, NOW, generator), NOW - 5, generator)
            pods = {f"pod-{number + nodes * pod}": usage for pod, usage in enumerate([message.system] * PODS)}
            message = msgspec.structs.replace(message, node=f"n-{number}", uid=f"node-{number}", pods=pods)
            encoded.append(msgspec.json.encode(message))
    assert isinstance(msgspec.json.decode(encoded[0], type=NodeUtilization), NodeUtilization)
    return encoded


async def _measure(nodes: int, *, divided: bool) -> dict[str, float]:
    load, clock = LoadSettings(), ManualClock(NOW)
    placement = make_placement(nodes, PODS, NOW, load)
    figures: dict[str, float] = {}

    def owns(node: str) -> bool:
        return shard_of(node, SHARDS) == SHARD

    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as folder:
        measurement = Measurement(
            settings=CollectorSettings(
                scrape_interval=Duration(SPACING), pressure=False, shards=SHARDS if divided else 1
            ), load=load,
            source=GeneratedResponses(Path(folder), nodes), placement=placement, clock=clock,
            owns=owns if divided else None,
        )  # fmt: skip
        names = [name for name in placement.nodes if not divided or owns(name)]
        if divided:
            encoded = _published(nodes)
            started = time.process_time()
            for text in encoded:
                measurement.other_shards.on_utilization(msgspec.json.decode(text, type=PublishedPods), NOW)
            figures["messages of the others, s"] = time.process_time() - started
        await _cycle(measurement, load, names)  # which writes the files
        figures["a cycle of the shortest window, s"] = min([await _cycle(measurement, load, names) for _ in range(2)])
        replicas = measurement.workload_store.messages(measurement.workload_store.measured, NOW, epoch=1, sequence=1)
        assert sum(message.replicas for message in replicas) == nodes * PODS
        assert not divided or not measurement.divided.problem, measurement.divided.problem
        if divided:
            profiles = ProfileLearning(
                settings=measurement.settings, load=load, measurement=measurement, clock=clock
            )  # fmt: skip
            await profiles.measure(NOW - NOW % 3_600)  # which writes the files
            started = time.process_time()
            assert not await profiles.measure(NOW - NOW % 3_600 - 3_600)
            figures["an hour of daily profiles, s"] = time.process_time() - started
    return figures


def measure_collector(nodes: int) -> dict[str, float]:
    return asyncio.run(_measure(nodes, divided=False))


def measure_shard(nodes: int) -> dict[str, float]:
    """One of three collectors."""
    return asyncio.run(_measure(nodes, divided=True))
