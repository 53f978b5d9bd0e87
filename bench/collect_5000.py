"""A cycle of all the collector's windows for 5,000 nodes and 150,000 pods, from a real Prometheus that has two hours.

The windows are due all at once, as after a start; published is nothing (`publish_5000` measures that).
"""

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.line import progress, say
from bench.reflector_150k import resident_mb, worst_lag
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.collector.state.pod_times import trimmed
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects import (
    Condition,
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, WORKLOADS_PER_BATCH, in_batches
from equipoise.runtime.kubernetes.interning import Interner
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.testbed.binaries.build import build
from equipoise.testbed.processes.guard import Guard
from equipoise.testbed.processes.ports import PortBlock

ROUNDS = 2

SIZES = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def together(spans: list[tuple[float, float]]) -> float:
    """Seconds covered by at least one of these spans."""
    total, end = 0.0, 0.0
    for begun, ended in sorted(spans):
        total += max(0.0, ended - max(begun, end))
        end = max(end, ended)
    return total


def a_node(number: int, since: datetime) -> Node:
    ready = Condition(type="Ready", status="True", last_transition_time=since)
    return Node(
        metadata=ObjectMeta(name=f"n-{number}", uid=f"node-{number}", creation_timestamp=since),
        status=NodeStatus(allocatable=SIZES, capacity=SIZES, conditions=[ready]),
    )


def a_pod(number: int, nodes: int, since: datetime) -> Pod:
    owner = OwnerReference(
        api_version="apps/v1",
        kind="StatefulSet",
        name=f"web-{number % 5_000}",
        uid=f"{number % 5_000}",
        controller=True,
    )
    asked = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"})
    states = [Condition(type=kind, status="True", last_transition_time=since) for kind in ("PodScheduled", "Ready")]
    return Pod(
        metadata=ObjectMeta(name=f"web-{number}", namespace="shop", uid=f"pod-{number}", owner_references=[owner]),
        spec=PodSpec(node_name=f"n-{number % nodes}", containers=[Container(resources=asked)]),
        status=PodStatus(phase="Running", conditions=states, start_time=since),
    )


def a_fleet(nodes: int, pods: int, now: float, load: LoadSettings) -> ClusterPlacement:
    since = datetime.fromtimestamp(now - 90_000, UTC)
    fleet = ClusterPlacement(
        windows=[window.length for window in load.windows], start_timeout=load.pod_start_timeout,
        owner_retention=90_000.0, owner_of=lambda _: None, selector={},
    )  # fmt: skip
    sharing = Interner()
    for number in range(nodes):
        fleet.on_node(None, a_node(number, since))
    for number in range(nodes * pods):
        fleet.on_pod(None, sharing.intern(trimmed(a_pod(number, nodes, since))), now)
    fleet.changed.clear()
    return fleet


async def fill(url: str, nodes: int, pods: int, spacing: int, last: int = 0) -> int:
    """The time of the newest sample afterwards."""
    words = [url, *map(str, (nodes, pods, spacing, last))]
    command = [sys.executable, "-m", "bench.remote_write", *words]
    filling = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await filling.communicate()
    assert filling.returncode == 0
    return int(out)


async def measure(nodes: int, pods: int, spacing: int, url: str, server: psutil.Process) -> None:
    load, clock = LoadSettings(), SystemClock()
    settings = CollectorSettings(prometheus=PrometheusSettings(url=url), scrape_interval=Duration(spacing))
    empty = resident_mb("VmRSS")
    fleet = a_fleet(nodes, pods, clock.now(), load)
    progress(f"fleet: {resident_mb('VmRSS') - empty:.0f} MB")
    newest = await fill(url, nodes, pods, spacing)
    progress(f"newest sample {clock.now() - newest:.0f} s ago; Prometheus {server.memory_info().rss / 1e6:.0f} MB")
    source = PrometheusSource(settings.prometheus, memory=load.memory, clock=clock)
    answered: list[tuple[float, float, int]] = []

    def on_answer(response: Any, *_: object, **__: object) -> None:
        now = time.monotonic()
        answered.append((now - response.elapsed.total_seconds(), now, 0))

    source._client._session.hooks["response"].append(on_answer)
    lag = [0.0, 0.0]
    watching = asyncio.create_task(worst_lag(lag))
    found = []
    for number in range(ROUNDS):
        measurement = Measurement(settings=settings, load=load, source=source, placement=fleet, clock=clock)
        if number:
            newest = await fill(url, nodes, pods, spacing, newest)
        answered.clear()
        lag[:] = [0.0, 0.0]
        spent, server_spent = time.process_time(), sum(server.cpu_times()[:2])
        begun = time.monotonic()
        whole = await asyncio.gather(*(measurement.round(window) for window in load.windows))
        taken = time.monotonic() - begun
        messages: list[NodeUtilization] = []
        workloads: list[WorkloadUtilization] = []
        size = 0
        async for some in in_batches(fleet.nodes, NODES_PER_BATCH):
            made = measurement.node_messages(some, epoch=1, sequence=1)
            size += sum(len(msgspec.json.encode(message)) for message in made)
            messages += made
        async for seen in in_batches(measurement.workload_store.measured, WORKLOADS_PER_BATCH):
            told = measurement.workload_store.messages(seen, measurement.source_now(), epoch=1, sequence=1)
            size += sum(len(msgspec.json.encode(message)) for message in told)
            workloads += told
        ended = time.monotonic()
        await asyncio.sleep(0.05)
        waited = together([(begin, end) for begin, end, _ in answered])
        found.append({
            "cycle": ended - begun, "without_prometheus": ended - begun - waited,
            "making_messages": ended - begun - taken, "cpu": time.process_time() - spent,
            "prometheus_cpu": sum(server.cpu_times()[:2]) - server_spent, "held": lag[0], "held_cpu": lag[1],
        })  # fmt: skip
        known = sum(bool(message.pods) for message in messages)
        progress(
            f"cycle {number + 1}: whole {list(whole)}, {len(messages)} nodes ({known} with pods), "
            f"{len(workloads)} workloads, {size / 2**20:.0f} MiB, {len(answered)} answers; "
            + ", ".join(f"{key} {value:.2f}" for key, value in found[-1].items())
            + f"; {measurement.problem}"
        )
        assert len(messages) == nodes, "a node is not known"
        assert known == nodes, "a node's pods are not known"
    watching.cancel()
    source.close()
    best = min(found, key=lambda each: each["cycle"])
    say("collect_5000", best["cycle"], "s for a cycle of all windows", target=("<=", 20.0),
        without_prometheus_seconds=round(best["without_prometheus"], 2),
        prometheus_cpu_seconds=round(best["prometheus_cpu"], 1))  # fmt: skip
    say("collect_cpu", min(each["cpu"] for each in found), "s of the collector's processor", target=("<=", 5.0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    say("collect_memory", peak, "MB resident at most", target=("<=", 700.0))
    say("collect_held", min(each["held"] for each in found), "s that the event loop was held", target=("<=", 0.1),
        of_the_processor=round(min(each["held_cpu"] for each in found), 3))  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=5_000)
    arguments.add_argument("--pods", type=int, default=30, help="per node")
    arguments.add_argument("--spacing", type=int, default=60, help="seconds between samples")
    asked = arguments.parse_args()
    reduce_gc_frequency()
    ports = PortBlock()
    port = ports.take()
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
        url = f"http://127.0.0.1:{port}"
        await_ready(url)
        asyncio.run(measure(asked.nodes, asked.pods, asked.spacing, url, psutil.Process(pid)))


def await_ready(url: str) -> None:
    import urllib.request

    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}/-/ready", timeout=1).close()  # noqa: S310  our own
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("Prometheus does not become ready")


if __name__ == "__main__":
    main()
