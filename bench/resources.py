"""CPU and memory of the five services and nats-server on clusters of 100, 1,000 and 5,000 nodes with 30 pods each.

`python -m bench.resources NODES`: real services, a real API server (its objects are written to etcd directly, because
150,000 pods would take half an hour over the API), a real nats-server, and a real Prometheus that gets a sample of
every node and pod once per minute. Evictions are dry runs; annotations are written. Measured are the peak of the
resident memory since the start, and the CPU time per second for some minutes after the services are ready.
"""

import argparse
import asyncio
import base64
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import psutil
import yaml

from bench.collector.recorded_api_server import RECORDED
from bench.memory import peak_mb, resident_mb
from bench.output import progress, report
from equipoise.binder.shell.ledger_store import create_ledger
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Kubernetes, Nats
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace
from equipoise.testbed.processes.configuration import PrometheusConfiguration

OWN = "equipoise-system"
SERVICES = ("collector", "annotator", "scorer", "descheduler", "binder")
PODS_PER_NODE = 30
REPLICAS = 30
"""Replicas of a Deployment."""

SPACING = 60
"""Seconds between two samples."""

PER_TRANSACTION = 100
"""Objects; etcd accepts 128 operations."""

LONG_AGO = "2026-11-01T00:00:00Z"
HASH = "7958fb58cb"


def stored_objects(nodes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Nodes, pods and their owners, by their etcd keys. Names are those of `bench.collector.remote_write`."""
    sizes = {"cpu": "20", "memory": "256Gi", "pods": "110"}
    for number in range(nodes):
        name = f"n-{number}"
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": LONG_AGO, "lastTransitionTime": LONG_AGO}
        metadata: dict[str, Any] = {"name": name, "uid": f"node-{number}", "creationTimestamp": LONG_AGO}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        yield f"minions/{name}", {
            "apiVersion": "v1", "kind": "Node", "metadata": metadata | {"labels": labels}, "spec": {},
            "status": {"capacity": sizes, "allocatable": sizes, "conditions": [ready]},
        }  # fmt: skip
    pods = nodes * PODS_PER_NODE
    for number in range(pods // REPLICAS):
        name = f"web-{number:05}"
        labels = {"app": name}
        metadata = {"namespace": "shop", "creationTimestamp": LONG_AGO, "labels": labels, "generation": 1}
        selector = {"matchLabels": labels}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
        spec = {"replicas": REPLICAS, "selector": selector, "template": template}
        status = {"replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS}
        yield f"deployments/shop/{name}", {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata | {"name": name, "uid": f"d-{number}"},
            "spec": spec, "status": status | {"observedGeneration": 1},
        }  # fmt: skip
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"d-{number}", "controller": True}
        own = {"name": f"{name}-{HASH}", "uid": f"r-{number}", "ownerReferences": [owner]}
        yield f"replicasets/shop/{name}-{HASH}", {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata | own, "spec": spec,
            "status": status | {"observedGeneration": 1},
        }  # fmt: skip
    parts = re.split("(NUMBER|NODE|VERSION|OWNER)", RECORDED.read_text().strip())
    for number in range(pods):
        values = {
            "NUMBER": f"{number:06}", "NODE": f"n-{number % nodes}", "VERSION": "",
            "OWNER": f"web-{number // REPLICAS:05}-{HASH}",
        }  # fmt: skip
        pod = json.loads("".join([values.get(part, part) for part in parts]))
        name = f"web-{number}"
        pod["metadata"] |= {"name": name, "namespace": "shop", "creationTimestamp": LONG_AGO}
        del pod["metadata"]["resourceVersion"]
        yield f"pods/shop/{name}", pod


async def store(etcd: str, nodes: int) -> None:
    """Many objects per transaction."""
    async with aiohttp.ClientSession() as session:
        operations: list[Any] = []

        async def commit() -> None:
            async with session.post(f"{etcd}/v3/kv/txn", json={"success": operations}) as response:
                if response.status != 200:
                    raise RuntimeError(await response.text())
            operations.clear()

        for key, stored in stored_objects(nodes):
            encoded = (base64.b64encode(text.encode()).decode() for text in (f"/registry/{key}", json.dumps(stored)))
            operations.append({"requestPut": dict(zip(("key", "value"), encoded, strict=True))})
            if len(operations) == PER_TRANSACTION:
                await commit()
        await commit()


async def write_samples(cluster: Cluster, nodes: int, last: int = 0) -> int:
    """The time of the newest sample."""
    arguments = [cluster.prometheus_url, *map(str, (nodes, PODS_PER_NODE, SPACING, last))]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.collector.remote_write", *arguments, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError("Prometheus does not accept the samples")
    return int(out)


async def keep_writing(cluster: Cluster, nodes: int, last: int) -> None:
    """Writes samples until cancelled."""
    while True:
        await asyncio.sleep(max(0.0, last + SPACING + 1 - SystemClock().now()))
        last = await write_samples(cluster, nodes, last)


def configuration(cluster: Cluster, health: dict[str, str]) -> str:
    own: dict[str, Any] = {
        "collector": {
            "prometheus": {"url": cluster.prometheus_url}, "scrapeInterval": f"{SPACING}s", "leaderElection": False,
        },
        "scorer": {"listen": f"127.0.0.1:{cluster.free_port()}"},
    }  # fmt: skip
    return yaml.safe_dump(
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": cluster.nats_url},
            "kubernetes": {"kubeconfig": str(cluster.kubeconfig), "namespace": OWN},
        }
        | {name: own.get(name, {}) | {"health": health[name]} for name in SERVICES}
    )


@asynccontextmanager
async def services(cluster: Cluster) -> AsyncIterator[dict[str, psutil.Process]]:
    """All five, once they are ready, and nats-server."""
    health = {name: f"127.0.0.1:{cluster.free_port()}" for name in SERVICES}
    file = cluster.directory / "equipoise.yaml"
    file.write_text(configuration(cluster, health))
    processes = {"nats-server": psutil.Process(cluster.pid("nats-server"))}
    for name in SERVICES:
        pid = cluster.guard.start(
            [sys.executable, "-m", f"equipoise.{name}"], log=cluster.directory / f"{name}.log",
            environment={**os.environ, "EQUIPOISE_CONFIG": str(file)},
        )  # fmt: skip
        processes[name] = psutil.Process(pid)
    began = time.monotonic()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        waiting = list(SERVICES)
        while waiting:
            if time.monotonic() - began > 900:
                raise TimeoutError(f"not ready after 15 min: {', '.join(waiting)}; see {cluster.directory}")
            for name in tuple(waiting):
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"http://{health[name]}/readyz") as response:
                        if response.status == 200:
                            progress(f"{name} is ready after {time.monotonic() - began:.0f} s")
                            waiting.remove(name)
            await asyncio.sleep(1.0)
    yield processes


async def measure(nodes: int, minutes: float) -> None:
    arguments = {
        "prometheus": ["--web.enable-remote-write-receiver"],
        "etcd": [f"--quota-backend-bytes={8 * 2**30}", "--max-request-bytes=10000000"],
    }
    rare = PrometheusConfiguration(scrape_interval=60)
    async with Cluster(nats=True, prometheus=rare, arguments=arguments) as cluster:
        for part in ("kube-controller-manager", "kube-scheduler", "kwok"):
            cluster.kill(part)
        await cluster.apply([namespace(OWN), namespace("shop")])
        began = time.monotonic()
        await store(cluster.etcd_url, nodes)
        progress(f"{nodes * PODS_PER_NODE} pods are stored after {time.monotonic() - began:.0f} s")
        last = await write_samples(cluster, nodes)
        progress(f"Prometheus has two hours of samples after {time.monotonic() - began:.0f} s")
        await setup_streams(Nats(url=cluster.nats_url), intent_max_age=120)
        connection = Kubernetes(kubeconfig=str(cluster.kubeconfig), namespace=OWN)
        async with connect_kube(connection, "bench", SystemClock()) as kube:
            await create_ledger(kube, OWN, SystemClock())
        writing = asyncio.create_task(keep_writing(cluster, nodes, last))
        async with services(cluster) as processes:
            before = {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}
            began = time.monotonic()
            await asyncio.sleep(60 * minutes)
            elapsed = time.monotonic() - began
            for name, process in processes.items():
                cores = (sum(process.cpu_times()[:2]) - before[name]) / elapsed
                report(
                    "resources", peak_mb(process.pid), "MB, peak", nodes=nodes, process=name,
                    resident_mb=round(resident_mb(process.pid)), millicores=round(1_000 * cores),
                )  # fmt: skip
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="*", default=[100, 1_000, 5_000])
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    for nodes in options.nodes:
        asyncio.run(measure(nodes, options.minutes))


if __name__ == "__main__":
    main()
