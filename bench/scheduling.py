"""A throwaway cluster whose metrics are frozen, with the collector and the scorer beside it."""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import yaml

from bench.line import progress
from equipoise.cli.demo.configuration import scheduler_configuration
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.testbed import audit
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import node
from equipoise.testbed.processes.configuration import PrometheusConfiguration

Document = dict[str, Any]

CORES = 16
GIB = 2.0**30
IN_TREE_SCORES = (
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "PodTopologySpread",
    "ImageLocality",
    "TaintToleration",
    "NodeAffinity",
    "InterPodAffinity",
)


class FrozenCluster:
    """Nodes of 16 cores, each with a fixed load (0..1 of its cores; memory at a tenth)."""

    def __init__(self, cluster: Cluster, loads: Mapping[str, float]) -> None:
        self.cluster = cluster
        self.loads = loads
        self.extender = ""

    @asynccontextmanager
    async def services(self, **scorer: object) -> AsyncIterator[None]:
        """The collector and a scorer with these settings, warmed up and fed."""
        cluster = self.cluster
        health = {name: f"127.0.0.1:{cluster.free_port()}" for name in ("collector", "scorer")}
        listen = f"127.0.0.1:{cluster.free_port()}"
        compensation = scorer.pop("compensation", "proportional")
        document = {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": cluster.nats_url},
            "kubernetes": {"kubeconfig": str(cluster.kubeconfig)},
            "load": {"coverage": {"nodeSettlingPeriod": "0s"}, "compensation": compensation},
            "collector": {
                "health": health["collector"],
                "scrapeInterval": "1s",
                "profile": {"enabled": False},
                "leaderElection": False,
            },
            "scorer": {"health": health["scorer"], "listen": listen, **scorer},
        }
        file, frozen = cluster.directory / "equipoise.yaml", cluster.directory / "usage.json"
        file.write_text(yaml.safe_dump(document))
        usage = {name: {"cpu": CORES * load, "memory": 6.4 * GIB} for name, load in self.loads.items()}
        frozen.write_text(json.dumps(usage))
        environment = {**os.environ, "EQUIPOISE_CONFIG": str(file), "FROZEN_USAGE": str(frozen)}
        started = []
        try:
            for name, module in (("collector", "bench.frozen_collector"), ("scorer", "equipoise.scorer")):
                command, log = [sys.executable, "-m", module], cluster.directory / f"{name}.log"
                started.append(cluster.guard.start(command, log=log, environment=environment))
            self.scorer_pid = started[-1]
            await self._known(f"http://{health['scorer']}/metrics")
            self.extender = f"http://{listen}"
            yield
        finally:
            for pid in started:
                cluster.guard.stop(pid)

    async def _known(self, url: str) -> None:
        """Until the scorer knows the load of every node."""
        wanted = f'equipoise_scorer_nodes{{load="known"}} {float(len(self.loads))}'
        async with aiohttp.ClientSession() as session:
            for _ in range(150):
                try:
                    async with session.get(url) as answer:
                        if wanted in await answer.text():
                            return
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.1)
        raise TimeoutError(f"the scorer does not know {len(self.loads)} nodes; see {self.cluster.directory}")

    def scheduler(self, *, extender: bool, in_tree_scores: bool = True) -> Document:
        """A KubeSchedulerConfiguration's parts."""
        found = scheduler_configuration(self.extender if extender else None)
        if not in_tree_scores:
            off = [{"name": name} for name in IN_TREE_SCORES]
            found["profiles"] = [{"schedulerName": "default-scheduler", "plugins": {"score": {"disabled": off}}}]
        return found

    async def create_pods(self, count: int, *, seconds: float = 0.0, cpu: str = "100m") -> None:
        """Bare pods, evenly over so many seconds, or as fast as the API server takes them."""
        begun = time.monotonic()
        async with self.cluster.api() as api:
            gate = asyncio.Semaphore(16)

            async def create(number: int) -> None:
                if seconds:
                    await asyncio.sleep(max(0.0, begun + seconds * number / count - time.monotonic()))
                async with gate:
                    await api.request("POST", "/api/v1/namespaces/default/pods", bare_pod(f"pod-{number}", cpu))

            async with asyncio.TaskGroup() as tasks:
                for number in range(count):
                    tasks.create_task(create(number))

    def mark(self) -> int:
        """Where the audit log ends now."""
        return self.cluster.audit_log.stat().st_size

    async def bound(self, count: int, mark: int, timeout: float = 300.0) -> list[audit.Binding]:
        """The bindings after `mark`, once there are so many. Reads little while it waits: the cores are needed."""
        deadline, position, seen = time.monotonic() + timeout, mark, 0
        while seen < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{seen} of {count} pods were bound")
            await asyncio.sleep(1.0)
            with self.cluster.audit_log.open("rb") as log:
                log.seek(position)
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    position += len(line)
                    seen += b'"subresource":"binding"' in line and b'"stage":"ResponseComplete"' in line
        return self.cluster.bindings()[-count:]

    async def remove_pods(self) -> None:
        async with self.cluster.api() as api:
            await api.request("DELETE", "/api/v1/namespaces/default/pods", {"gracePeriodSeconds": 0})
            await api.wait("/api/v1/namespaces/default/pods", lambda pods: not pods["items"], timeout=300.0)


def bare_pod(name: str, cpu: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "fake", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
            ],
        },
    }


@asynccontextmanager
async def frozen_cluster(loads: Sequence[float]) -> AsyncIterator[FrozenCluster]:
    names = {f"node-{number:04}": load for number, load in enumerate(loads)}
    progress(f"starting a cluster of {len(loads)} nodes")
    # Nobody reads its Prometheus: scraping a thousand nodes would take a core from what is measured.
    quiet = PrometheusConfiguration(scrape_interval=60)
    # Nor does anybody miss the nodes' heartbeats: a hundred a second would take half a core.
    calm = {"kwok": ["--node-lease-duration-seconds=4000"]}
    async with Cluster(nats=True, prometheus=quiet, arguments=calm) as cluster:
        await cluster.add_nodes([node(name, cpu=CORES) for name in names])
        await setup_streams(Nats(url=cluster.nats_url), intent_max_age=60)
        yield FrozenCluster(cluster, names)


def share_of(bindings: Sequence[audit.Binding]) -> Counter[str]:
    return Counter(binding.node for binding in bindings)
