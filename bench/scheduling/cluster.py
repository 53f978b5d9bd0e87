"""A throwaway cluster with frozen metrics, a collector and a scorer."""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import yaml

from bench.output import progress
from equipoise.cli.demo.configuration import scheduler_configuration
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed import audit
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import node
from equipoise.testbed.processes.configuration import PrometheusConfiguration

Document = dict[str, Any]

CORES = 16
GIB = 2.0**30
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
STALLED_SECONDS = 300.0
"""The timeout without any progress, on a slow machine."""

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
        self.services_pids: Mapping[str, int] = {}
        self.clock = SystemClock()
        self._ports: dict[str, int] = {}

    def port(self, program: str) -> int:
        """The same at each start: a cluster has few ports."""
        if program not in self._ports:
            self._ports[program] = self.cluster.free_port()
        return self._ports[program]

    @asynccontextmanager
    async def services(self, annotator: bool = False, /, **scorer: object) -> AsyncIterator[None]:
        """A collector, a scorer with these settings that has the load of every node, and an annotator for hints.

        `hints`: whether the scorer computes hints.
        """
        cluster = self.cluster
        health = {name: f"127.0.0.1:{self.port(name)}" for name in ("collector", "scorer", "annotator")}
        listen = f"127.0.0.1:{self.port('extender')}"
        compensation = scorer.pop("compensation", "proportional")
        hints = scorer.pop("hints", False)
        document = {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": cluster.nats_url},
            "kubernetes": {"kubeconfig": str(cluster.kubeconfig)},
            "load": {"coverage": {"nodeSettlingPeriod": "0s"}, "compensation": compensation},
            "placement": {"hints": hints},
            "collector": {
                "health": health["collector"],
                "scrapeInterval": "1s",
                "profile": {"enabled": False},
                "leaderElection": False,
            },
            "scorer": {"health": health["scorer"], "listen": listen, **scorer},
            "annotator": {"health": health["annotator"]},
        }
        file, frozen = cluster.directory / "equipoise.yaml", cluster.directory / "usage.json"
        file.write_text(yaml.safe_dump(document))
        usage = {name: {"cpu": CORES * load, "memory": 6.4 * GIB} for name, load in self.loads.items()}
        frozen.write_text(json.dumps(usage))
        environment = {**os.environ, "EQUIPOISE_CONFIG": str(file), "FROZEN_USAGE": str(frozen)}
        started: dict[str, int] = {}
        modules = {"collector": "bench.collector.frozen_collector", "scorer": "equipoise.scorer"}
        if annotator:
            modules["annotator"] = "equipoise.annotator"
        try:
            for name, module in modules.items():
                command, log = [sys.executable, "-m", module], cluster.directory / f"{name}.log"
                started[name] = cluster.guard.start(command, log=log, environment=environment)
            self.services_pids = started
            await self._wait_for_loads(f"http://{health['scorer']}/metrics")
            self.extender = f"http://{listen}"
            yield
        finally:
            for pid in started.values():
                cluster.guard.stop(pid)

    async def _wait_for_loads(self, url: str) -> None:
        """Returns when the scorer has the load of every node."""
        expected = f'equipoise_scorer_nodes{{load="known"}} {float(len(self.loads))}'
        async with aiohttp.ClientSession() as session:
            for _ in range(600):
                try:
                    async with session.get(url) as response:
                        if expected in await response.text():
                            return
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.1)
        raise TimeoutError(
            f"the scorer does not have the load of all {len(self.loads)} nodes; see {self.cluster.directory}"
        )

    def scheduler(self, *, extender: bool, in_tree_scores: bool = True) -> Document:
        """Fields of a KubeSchedulerConfiguration."""
        configuration = scheduler_configuration(self.extender if extender else None)
        if not in_tree_scores:
            disabled = [{"name": name} for name in IN_TREE_SCORES]
            configuration["profiles"] = [
                {"schedulerName": "default-scheduler", "plugins": {"score": {"disabled": disabled}}}
            ]
        return configuration

    async def create_pods(
        self, count: int, *, seconds: float = 0.0, pod: Callable[[int], Document] | None = None
    ) -> None:
        """Pods by their number, evenly distributed over `seconds`, or as fast as the API server accepts them."""
        started = time.monotonic()
        async with self.cluster.api() as api:
            limit = asyncio.Semaphore(16)

            async def create(number: int) -> None:
                if seconds:
                    await asyncio.sleep(max(0.0, started + seconds * number / count - time.monotonic()))
                async with limit:
                    await api.request("POST", PODS, (pod or bare_pod)(number))

            async with asyncio.TaskGroup() as tasks:
                for number in range(count):
                    tasks.create_task(create(number))

    def audit_log_size(self) -> int:
        """Bytes, now."""
        return self.cluster.audit_log.stat().st_size

    def _logged(self, position: int) -> tuple[list[bytes], int]:
        """The whole lines of the audit log from a position on, and the position after them."""
        with self.cluster.audit_log.open("rb") as log:
            log.seek(position)
            lines = [line for line in log if line.endswith(b"\n")]
        return lines, position + sum(map(len, lines))

    async def bound(self, count: int, offset: int) -> list[audit.Binding]:
        """The last `count` bindings, when this many are logged after `offset`. Polls rarely: the cores are needed."""
        progressed_at, position, bindings = time.monotonic(), offset, 0
        while bindings < count:
            self.cluster.check()
            if time.monotonic() > progressed_at + STALLED_SECONDS:
                raise TimeoutError(f"{bindings} of {count} pods were bound, and none in {STALLED_SECONDS:g} s")
            await asyncio.sleep(1.0)
            lines, position = self._logged(position)
            if new := sum(
                b'"subresource":"binding"' in line and b'"stage":"ResponseComplete"' in line for line in lines
            ):
                bindings, progressed_at = bindings + new, time.monotonic()
        return self.cluster.bindings()[-count:]

    async def running(self, pods: Collection[str], offset: int) -> None:
        """Waits until kwok has written the status of these pods, as the log after `offset` shows."""
        progressed_at, position, waiting = time.monotonic(), offset, set(pods)
        while waiting:
            self.cluster.check()
            if time.monotonic() > progressed_at + STALLED_SECONDS:
                raise TimeoutError(f"{len(waiting)} of {len(pods)} pods did not start, none in {STALLED_SECONDS:g} s")
            await asyncio.sleep(0.2)
            lines, position = self._logged(position)
            objects = [json.loads(line)["objectRef"] for line in lines if b'"subresource":"status"' in line]
            if started := waiting & {each["name"] for each in objects if each["resource"] == "pods"}:
                waiting, progressed_at = waiting - started, time.monotonic()

    async def event_count(self) -> int:
        """The number of events of pods, whichever scheduler reported them."""
        async with self.cluster.api() as api:
            found = await api.request("GET", f"{EVENTS}?limit=1")
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))

    async def remove_pods(self) -> None:
        """Deletes pods until none is left, however long that takes. Raises ClusterError when a component has ended.

        On a slow machine, deleting all pods takes longer than one request may: the request is repeated.
        """
        async with self.cluster.api() as api:
            while True:
                self.cluster.check()
                try:
                    await api.request("DELETE", PODS, {"gracePeriodSeconds": 0})
                    if not (await api.request("GET", f"{PODS}?limit=1"))["items"]:
                        return
                except TimeoutError:
                    pass
                except ApiError as error:
                    if error.status < 500 and error.status != 429:
                        raise


def bare_pod(number: int, cpu: str = "100m") -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "fake", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
            ],
        },
    }


@asynccontextmanager
async def frozen_cluster(
    loads: Sequence[float], *, arguments: Mapping[str, Sequence[str]] | None = None
) -> AsyncIterator[FrozenCluster]:
    """`arguments` of components of the cluster."""
    names = {f"node-{number:04}": load for number, load in enumerate(loads)}
    progress(f"starting a cluster of {len(loads)} nodes")
    # Its Prometheus is not used, and frequent scrapes of a thousand nodes would need a core.
    rare_scrapes = PrometheusConfiguration(scrape_interval=60)
    # Neither are the heartbeats of the nodes: a hundred per second would need half a core.
    rare_heartbeats: dict[str, Sequence[str]] = {"kwok": ["--node-lease-duration-seconds=4000"]}
    async with Cluster(
        nats=True, prometheus=rare_scrapes, arguments=rare_heartbeats | dict(arguments or {})
    ) as cluster:
        await cluster.add_nodes([node(name, cpu=CORES) for name in names])
        await setup_streams(Nats(url=cluster.nats_url), intent_max_age=60)
        yield FrozenCluster(cluster, names)


def pods_per_node(bindings: Sequence[audit.Binding]) -> Counter[str]:
    return Counter(binding.node for binding in bindings)
