"""A collection cycle of all windows for 5,000 nodes and 150,000 pods, from a real Prometheus with two hours of samples.

All windows are due at once, as after a start. Nothing is published: `publish_5000` measures that.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.event_loop import worst_lag
from bench.memory import peak_mb, resident_mb
from bench.output import progress, report
from equipoise.collector.decisions.pod_times import trimmed
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, OwnerReference, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec, PodStatus
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, WORKLOADS_PER_BATCH, in_batches
from equipoise.runtime.kubernetes.reflector import Interner
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.testbed.binaries.build import build
from equipoise.testbed.processes.guard import Guard
from equipoise.testbed.processes.loopback import PortBlock

ROUNDS = 2

SIZES = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def covered_seconds(spans: list[tuple[float, float]]) -> float:
    """Seconds covered by at least one of the spans."""
    total, end = 0.0, 0.0
    for span_start, span_end in sorted(spans):
        total += max(0.0, span_end - max(span_start, end))
        end = max(end, span_end)
    return total


def make_node(number: int, since: datetime) -> Node:
    ready = Condition(type="Ready", status="True", last_transition_time=since)
    return Node(
        metadata=ObjectMeta(name=f"n-{number}", uid=f"node-{number}", creation_timestamp=since),
        status=NodeStatus(allocatable=SIZES, capacity=SIZES, conditions=[ready]),
    )


def make_pod(number: int, nodes: int, since: datetime) -> Pod:
    owner = OwnerReference(
        api_version="apps/v1",
        kind="StatefulSet",
        name=f"web-{number % 5_000}",
        uid=f"{number % 5_000}",
        controller=True,
    )
    requests = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"})
    conditions = [Condition(type=kind, status="True", last_transition_time=since) for kind in ("PodScheduled", "Ready")]
    return Pod(
        metadata=ObjectMeta(name=f"web-{number}", namespace="shop", uid=f"pod-{number}", owner_references=[owner]),
        spec=PodSpec(node_name=f"n-{number % nodes}", containers=[Container(resources=requests)]),
        status=PodStatus(phase="Running", conditions=conditions, start_time=since),
    )


def make_placement(nodes: int, pods: int, now: float, load: LoadSettings) -> ClusterPlacement:
    since = datetime.fromtimestamp(now - 90_000, UTC)
    placement = ClusterPlacement(
        windows=[window.length for window in load.windows], start_timeout=load.pod_start_timeout,
        owner_retention=90_000.0, owner_of=lambda _: None, selector={},
    )  # fmt: skip
    interner = Interner()
    for number in range(nodes):
        placement.on_node(None, make_node(number, since))
    for number in range(nodes * pods):
        placement.on_pod(None, interner.intern(trimmed(make_pod(number, nodes, since))), now)
    placement.changed.clear()
    return placement


async def fill(url: str, nodes: int, pods: int, spacing: int, last: int = 0) -> int:
    """Write samples up to now; returns the time of the newest one."""
    arguments = [url, *map(str, (nodes, pods, spacing, last))]
    command = [sys.executable, "-m", "bench.collector.remote_write", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return int(out)


async def measure(nodes: int, pods: int, spacing: int, url: str, server: psutil.Process) -> None:
    load, clock = LoadSettings(), SystemClock()
    settings = CollectorSettings(prometheus=PrometheusSettings(url=url), scrape_interval=Duration(spacing))
    before = resident_mb()
    placement = make_placement(nodes, pods, clock.now(), load)
    progress(f"placement: {resident_mb() - before:.0f} MB")
    newest = await fill(url, nodes, pods, spacing)
    progress(f"newest sample {clock.now() - newest:.0f} s ago; Prometheus {server.memory_info().rss / 1e6:.0f} MB")
    source = PrometheusSource(settings.prometheus, memory=load.memory, clock=clock)
    requests: list[tuple[float, float]] = []

    def on_response(response: Any, *_: object, **__: object) -> None:
        now = time.monotonic()
        requests.append((now - response.elapsed.total_seconds(), now))

    source._client._client._session.hooks["response"].append(on_response)
    lag = [0.0, 0.0]
    lag_task = asyncio.create_task(worst_lag(lag))
    results = []
    for number in range(ROUNDS):
        measurement = Measurement(settings=settings, load=load, source=source, placement=placement, clock=clock)
        if number:
            newest = await fill(url, nodes, pods, spacing, newest)
        requests.clear()
        lag[:] = [0.0, 0.0]
        cpu, server_cpu = time.process_time(), sum(server.cpu_times()[:2])
        started = time.monotonic()
        coverage = await asyncio.gather(*(measurement.round(window) for window in load.windows))
        measured = time.monotonic() - started
        messages: list[NodeUtilization] = []
        workloads: list[WorkloadUtilization] = []
        size = 0
        async for nodes_of_batch in in_batches(placement.nodes, NODES_PER_BATCH):
            node_batch = measurement.node_messages(nodes_of_batch, epoch=1, sequence=1)
            size += sum(len(msgspec.json.encode(message)) for message in node_batch)
            messages += node_batch
        async for names in in_batches(measurement.workload_store.measured, WORKLOADS_PER_BATCH):
            workload_batch = measurement.workload_store.messages(names, measurement.source_now(), epoch=1, sequence=1)
            size += sum(len(msgspec.json.encode(message)) for message in workload_batch)
            workloads += workload_batch
        ended = time.monotonic()
        await asyncio.sleep(0.05)
        waiting = covered_seconds(requests)
        results.append({
            "cycle": ended - started, "without_prometheus": ended - started - waiting,
            "messages": ended - started - measured, "cpu": time.process_time() - cpu,
            "prometheus_cpu": sum(server.cpu_times()[:2]) - server_cpu, "event_loop": lag[0], "event_loop_cpu": lag[1],
        })  # fmt: skip
        with_pods = sum(bool(message.pods) for message in messages)
        progress(
            f"cycle {number + 1}: coverage {list(coverage)}, {len(messages)} nodes ({with_pods} with pods), "
            f"{len(workloads)} workloads, {size / 2**20:.0f} MiB, {len(requests)} requests; "
            + ", ".join(f"{key} {value:.2f}" for key, value in results[-1].items())
            + f"; {measurement.problem}"
        )
        assert len(messages) == nodes, "the usage of a node is unknown"
        assert with_pods == nodes, "the usage of a node's pods is unknown"
    lag_task.cancel()
    source.close()
    best = min(results, key=lambda result: result["cycle"])
    report("collect_5000", best["cycle"], "s for a cycle of all windows", target=("<=", 20.0),
        without_prometheus_seconds=round(best["without_prometheus"], 2),
        prometheus_cpu_seconds=round(best["prometheus_cpu"], 1))  # fmt: skip
    report(
        "collect_cpu", min(result["cpu"] for result in results), "s of CPU time of the collector", target=("<=", 5.0)
    )
    report("collect_memory", peak_mb(), "MB, peak", target=("<=", 700.0))
    report("collect_event_loop", min(result["event_loop"] for result in results), "s, longest block of the event loop",
        target=("<=", 0.1), cpu_seconds=round(min(result["event_loop_cpu"] for result in results), 3))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=30, help="per node")
    parser.add_argument("--spacing", type=int, default=60, help="seconds between samples")
    options = parser.parse_args()
    reduce_gc_frequency()
    with prometheus_server() as (url, pid):
        asyncio.run(measure(options.nodes, options.pods, options.spacing, url, psutil.Process(pid)))


@contextmanager
def prometheus_server() -> Iterator[tuple[str, int]]:
    """A Prometheus that is filled by remote writes and scrapes nothing: its URL and process."""
    ports = PortBlock()
    port = ports.take()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as name, Guard() as guard:
        folder = Path(name)
        (folder / "prometheus.yaml").write_text("{}")
        pid = guard.start(
            [
                build().prometheus,
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--web.enable-remote-write-receiver",
                "--log.level=warn",
            ],
            log=folder / "prometheus.log",
        )
        wait_ready(url)
        yield url, pid


def wait_ready(url: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}/-/ready", timeout=1).close()  # noqa: S310  local
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("Prometheus did not become ready")


if __name__ == "__main__":
    main()
