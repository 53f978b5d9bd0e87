"""`equipoise report` for 5,000 nodes and 150,000 pods: from the connection to the report.

A real Prometheus has two hours of samples, so two hours of the past day are measured too. The API server is in memory:
the time of its responses is not included.
"""

import argparse
import asyncio
import time
from collections import Counter
from datetime import UTC, datetime

import msgspec

from bench.collector.collect_5000 import fill, make_node, make_pod, prometheus_server
from bench.memory import peak_mb, resident_mb
from bench.output import progress, report
from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.cluster_now.reading import connected, evaluation_settings, read_cluster
from equipoise.cli.progress import Activity
from equipoise.cli.report.now.figures import now_report
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.runtime.configuration import Shared
from equipoise.runtime.kubernetes.client import NAMESPACES, NODES, PODS, STATEFUL_SETS
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.testbed.memory.kube import MemoryKube

WORKLOADS = 5_000
THRESHOLDS = Thresholds(high=ResourceThresholds(cpu=24), low=ResourceThresholds(cpu=15))
"""The nodes use 12 to 25 % of their CPU: about one in twenty is hot."""


def api_server(nodes: int, pods: int, clock: Clock) -> MemoryKube:
    """The API server of `collect_5000`, with the objects that protect pods."""
    kube, since = MemoryKube(clock), datetime.fromtimestamp(clock.now() - 90_000, UTC)
    kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="shop")))
    size = {"cpu": "64", "memory": "4Ti", "pods": "110"}  # a third of the memory is used
    for number in range(nodes):
        node = make_node(number, since)
        status = msgspec.structs.replace(node.status, allocatable=size, capacity=size)
        kube.put(NODES, msgspec.structs.replace(node, status=status))
    for number in range(nodes * pods):
        kube.put(PODS, make_pod(number, nodes, since))
    for number in range(WORKLOADS):
        count = len(range(number, nodes * pods, WORKLOADS))
        ready = WorkloadStatus(replicas=count, ready_replicas=count, updated_replicas=count, available_replicas=count)
        metadata = ObjectMeta(name=f"web-{number}", namespace="shop")
        kube.put(STATEFUL_SETS, WorkloadObject(metadata=metadata, spec=WorkloadSpec(replicas=count), status=ready))
    kube.expire()
    return kube


async def keep_filling(url: str, nodes: int, pods: int, spacing: int, newest: int) -> None:
    """Samples come in while the cluster is read, as in reality: else they would soon be too old."""
    while True:
        await asyncio.sleep(spacing / 2)
        newest = await fill(url, nodes, pods, spacing, newest)


async def measure(nodes: int, pods: int, spacing: int, url: str) -> None:
    clock = SystemClock()
    kube = api_server(nodes, pods, clock)
    newest = await fill(url, nodes, pods, spacing)
    progress(f"newest sample {clock.now() - newest:.0f} s ago")
    prometheus = PrometheusSettings(url=url, timeout=120.0)  # by default 20 s, too little on a busy machine
    settings = AllSettings(
        shared=Shared(thresholds=THRESHOLDS),
        collector=CollectorSettings(prometheus=prometheus, scrape_interval=Duration(spacing)),
    )
    filling = asyncio.create_task(keep_filling(url, nodes, pods, spacing, newest))
    before, steps = resident_mb(), Counter[str]()
    at, begun, cpu = "", time.monotonic(), time.process_time()

    def step(name: str) -> None:
        """Adds the time since the last call to what was done in it."""
        nonlocal at, begun
        now = time.monotonic()
        steps[at.partition(":")[0]] += now - begun  # type: ignore[assignment]  # seconds
        at, begun = name, now

    started = begun
    async with connected(kube, settings, clock, Activity("connecting", step), profile=None) as connection:
        found = await read_cluster(connection, days=True)
        step("planning")
        name = ClusterName(context="bench", cluster="bench", server="https://bench")
        made = now_report(
            found, evaluation_settings(connection.settings), cluster=name, prometheus=url, profile="kubelet",
            profile_detected=True, options=(),
        )  # fmt: skip
    step("")
    whole = time.monotonic() - started
    filling.cancel()
    progress(", ".join(f"{what} {seconds:.1f} s" for what, seconds in steps.items() if what))
    progress(msgspec.json.encode(made.prospect).decode()[:300])
    assert made.before.nodes == nodes, made.unknown
    assert made.pods_measured == nodes * pods, made.unknown
    assert made.prospect.all_moves, (made.prospect, made.unknown)
    case = f"s, {nodes} nodes, {nodes * pods} pods"
    report("first_insight", whole, case, target=("<=", 60.0), cpu=round(time.process_time() - cpu, 1),
           hot=made.hot, moves=made.prospect.all_moves)  # fmt: skip
    report("first_insight_plan", steps["planning"], case)
    report("first_insight_memory", peak_mb() - before, "MB, beside the objects of the API server",
           target=("<=", 2_000.0))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=30, help="per node")
    parser.add_argument("--spacing", type=int, default=60, help="seconds between samples")
    options = parser.parse_args()
    reduce_gc_frequency()
    with prometheus_server() as (url, _):
        asyncio.run(measure(options.nodes, options.pods, options.spacing, url))


if __name__ == "__main__":
    main()
