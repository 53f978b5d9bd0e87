"""Two collectors, two annotators and a scorer as processes on a real cluster, and the errors in their results."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL
from typing import Any

import aiohttp
import yaml
from e2e.hinted_pods import pod_of, preferred_terms
from e2e.killed import configuration
from e2e.killed.configuration import ARRIVING, HOT, IDLE, NODES

from equipoise.annotator.decisions.replicas import SELECTOR, live_members
from equipoise.contracts.bus.subjects import PREFIX, SCORE_EXPLAIN, ServiceName
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.annotations import read_node_load, read_workload_usage
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.runtime.bus import Bus, BusError, Delivery, connect
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Kubernetes, Nats
from equipoise.runtime.kubernetes.client import LEASES, Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster

LIMIT = 60.0
"""Seconds after a kill within which all values must be correct again."""

POLL_SECONDS = 0.25

TOLERANCE = 0.01
"""Accepted error of a mean, as a share of the node's base."""

PROGRAMS: tuple[tuple[ServiceName, int], ...] = (("collector", 2), ("annotator", 2), ("scorer", 1))
MERGE = "application/merge-patch+json"


class Program:
    """One process of a service."""

    def __init__(self, loop: "Loop", service: ServiceName, number: int) -> None:
        self.name = f"{service}-{number}"
        self._cluster = loop.cluster
        self._service: ServiceName = service
        self._pid = 0
        self._health = f"127.0.0.1:{loop.cluster.free_port()}"
        addresses = {"health": self._health}
        if service == "scorer":
            self.url = f"http://127.0.0.1:{(port := loop.cluster.free_port())}"
            addresses["listen"] = f"127.0.0.1:{port}"
        self._file = loop.cluster.directory / f"{self.name}.yaml"
        document = configuration.document(
            service,
            kubeconfig=str(loop.cluster.kubeconfig),
            nats=loop.cluster.nats_url,
            prometheus=loop.cluster.prometheus_url,
            addresses=addresses,
        )
        self._file.write_text(yaml.safe_dump(document, sort_keys=False))

    @property
    def log(self) -> Path:
        return self._cluster.log(self.name)

    @property
    def running(self) -> bool:
        return bool(self._pid) and self._cluster.guard.exit_code(self._pid) is None

    @property
    def identity(self) -> str:
        """Its name as the holder of Leases. It differs after each start."""
        starts = [line for line in self.log.read_text().splitlines() if '"identity"' in line]
        return str(json.loads(starts[-1])["identity"]) if starts else ""

    def start(self) -> None:
        self._pid = self._cluster.guard.start(
            [sys.executable, "-m", f"equipoise.{self._service}"],
            log=self.log,
            environment={"EQUIPOISE_CONFIG": str(self._file)},
        )

    def kill(self) -> None:
        self._cluster.guard.stop(self._pid, number=SIGKILL)

    async def readiness(self, http: aiohttp.ClientSession) -> dict[str, Any]:
        """The body of /readyz; empty when there is no response."""
        try:
            async with http.get(f"http://{self._health}/readyz") as response:
                report: dict[str, Any] = await response.json(content_type=None)
                return report
        except (aiohttp.ClientError, TimeoutError):
            return {}

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"-- {self.name}", *lines[-6:]])


class Loop:
    """Created by `running_loop`."""

    def __init__(self, cluster: Cluster, clock: SystemClock) -> None:
        self.cluster = cluster
        self.programs = {
            f"{service}-{number}": Program(self, service, number)
            for service, count in PROGRAMS
            for number in range(count)
        }
        self._clock = clock
        self._cores = {node: HOT if number < len(NODES) // 2 else IDLE for number, node in enumerate(NODES)}
        self._cycles: dict[str, UtilizationCycle] = {}
        self.api: Api
        self.http: aiohttp.ClientSession
        self.kube: Kube
        self.bus: Bus

    async def on_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        self._cycles[delivery.message.shard] = delivery.message

    # Actions

    async def swap_usage(self) -> None:
        """Hot nodes become idle, and idle nodes hot."""
        self._cores = {node: HOT if cores == IDLE else IDLE for node, cores in self._cores.items()}
        path = f"/api/v1/namespaces/{configuration.NAMESPACE}/pods"
        for pod in (await self.api.request("GET", path))["items"]:
            change = {"metadata": {"annotations": configuration.usage(self._cores[pod["spec"]["nodeName"]])}}
            await self.api.request("PATCH", f"{path}/{pod['metadata']['name']}", change, content_type=MERGE)

    async def add_pod(self) -> None:
        """Whatever does not run, the unconfigured kube-scheduler places it, and it has the hint of its workload."""
        path = f"/api/v1/namespaces/{ARRIVING}/pods"
        before = {pod["metadata"]["name"] for pod in (await self.api.request("GET", path))["items"]}
        deployment = f"/apis/apps/v1/namespaces/{ARRIVING}/deployments/{ARRIVING}"
        await self.api.patch(deployment, {"spec": {"replicas": len(before) + 1}})
        pods = await self.api.wait(
            path,
            lambda pods: sum("nodeName" in pod["spec"] for pod in pods["items"]) > len(before),
            what="a new pod is placed",
        )
        (new,) = (pod for pod in pods["items"] if pod["metadata"]["name"] not in before)
        assert HINTED in new["metadata"].get("annotations", {}), "a new pod has no placement hint"

    async def start_all(self) -> None:
        """Start the processes that do not run; wait until work is shared and all values are correct."""
        for program in self.programs.values():
            if not program.running:
                program.start()
        await self.until(self._shared, "each collector has a shard, each annotator a Lease")
        await self.until(self.correct, "all values are correct")

    # Observations

    async def holders(self) -> list[str]:
        """Holders of the shards' Leases; "" for none."""
        leases = {
            lease.metadata.name: lease.spec.holder_identity for lease in await self.kube.list(LEASES, configuration.OWN)
        }
        return [leases.get(f"equipoise-collector-{shard}", "") for shard in range(configuration.SHARDS)]

    async def all_shards_held(self) -> bool:
        """Whether the holder of each shard runs."""
        return set(await self.holders()) <= self.identities("collector")

    async def members(self) -> frozenset[str]:
        """Annotators whose Lease has not expired."""
        leases: list[Lease] = await self.kube.list(LEASES, configuration.OWN, SELECTOR)
        return live_members(leases, datetime.fromtimestamp(self.kube.server_time(self._clock.now()), UTC))

    def identities(self, service: ServiceName) -> set[str]:
        """Of the running processes."""
        return {each.identity for name, each in self.programs.items() if name.startswith(service) and each.running}

    def program(self, identity: str | None) -> Program:
        return next(program for program in self.programs.values() if program.identity == identity)

    async def reported(self, component: str, services: Iterable[ServiceName]) -> bool:
        """Whether /readyz of each of these processes reports a problem with the component."""
        reports = [
            await program.readiness(self.http)
            for name, program in self.programs.items()
            if name.startswith(tuple(services)) and program.running
        ]
        return all(component in json.dumps([report.get("waiting_for"), report.get("problems")]) for report in reports)

    async def _shared(self) -> bool:
        return (
            set(await self.holders()) == self.identities("collector")
            and await self.members() == self.identities("annotator")
            and len(self.identities("collector")) == len(self.identities("annotator")) == 2
        )

    async def correct(self) -> bool:
        return not await self.errors()

    async def errors(self) -> list[str]:
        """Wrong or missing values in annotations, cycles, scores and the hints of new pods."""
        return [
            *await self._annotation_errors(),
            *self._cycle_errors(),
            *await self._score_errors(),
            *await self._hint_errors(),
        ]

    async def _annotation_errors(self) -> list[str]:
        errors = []
        for node in (await self.api.request("GET", "/api/v1/nodes"))["items"]:
            name = node["metadata"]["name"]
            load, why = read_node_load(node["metadata"].get("annotations", {}))
            mean = None if load is None else load.windows[configuration.WINDOW].mean.cpu
            if mean is None or abs(mean - self._load(name)) > configuration.WRITE_THRESHOLD + TOLERANCE:
                errors.append(f"the annotation of node {name} is {why or mean}, not {self._load(name)}")
        path = f"/apis/apps/v1/namespaces/{configuration.NAMESPACE}/deployments"
        cores = {configuration.workload_on(node): cores for node, cores in self._cores.items()}
        for workload in (await self.api.request("GET", path))["items"]:
            name = workload["metadata"]["name"]
            usage, why = read_workload_usage(workload["metadata"].get("annotations", {}))
            mean = None if usage is None else usage.windows[configuration.WINDOW].mean.cpu
            if (
                mean is None
                or abs(mean - cores[name])
                > configuration.WORKLOAD_WRITE_THRESHOLD * mean + TOLERANCE * configuration.CORES
            ):
                errors.append(f"the annotation of workload {name} is {why or mean}, not {cores[name]}")
        return errors

    def _cycle_errors(self) -> list[str]:
        now = self._clock.now()
        cycles = {shard: cycle for shard, cycle in self._cycles.items() if cycle.expected}
        errors = [
            f"shard {shard} ended its last cycle {now - cycle.queried_at:.1f} s ago"
            for shard, cycle in cycles.items()
            if now - cycle.queried_at > 3 * configuration.REFRESH_SECONDS
        ]
        errors += [f"shard {shard}: {cycle.problem}" for shard, cycle in cycles.items() if cycle.problem]
        for field in ("expected", "fresh"):
            count = sum(getattr(cycle, field) for cycle in cycles.values())
            if count != len(NODES):
                errors.append(f"{count} of {len(NODES)} nodes are {field} by {len(cycles)} shards")
        return errors

    async def _score_errors(self) -> list[str]:
        """In the loads that the scorer uses, and in its response to kube-scheduler."""
        try:
            request = ExplainRequest(node=NODES[0], nodes=list(NODES))
            explained = await self.bus.request(SCORE_EXPLAIN, request, Explanation, timeout=2)
            scores = await self._prioritize()
        except (BusError, aiohttp.ClientError, TimeoutError) as error:
            return [f"no response from the scorer: {error}"]
        loads = {node.node: node.windows[0].load.cpu for node in explained.nodes}
        errors = [explained.data_problem or explained.problem] if explained.data_problem or explained.problem else []
        for node in NODES:
            load = loads.get(node)
            if load is None or abs(load - self._load(node)) > configuration.WRITE_THRESHOLD + TOLERANCE:
                errors.append(f"the scorer uses a load of {load} for {node}, not {self._load(node)}")
        hottest = max(scores[node] for node, cores in self._cores.items() if cores == HOT)
        idlest = min(scores[node] for node, cores in self._cores.items() if cores == IDLE)
        if hottest >= idlest:
            errors.append(f"a hot node scores {hottest}, an idle one {idlest}")
        return errors

    async def _hint_errors(self) -> list[str]:
        """In what the API server adds to a new pod. Raises ApiError if it refuses the pod."""
        pod = pod_of(ARRIVING, owner=f"ReplicaSet/{ARRIVING}-1", labels={"pod-template-hash": "1"})
        created = await self.api.request("POST", f"/api/v1/namespaces/{ARRIVING}/pods?dryRun=All", pod)
        if not (terms := preferred_terms(created)):
            return ["a new pod gets no placement hint"]
        weights = dict.fromkeys(self._cores, 0)
        for term in terms:
            for rule in term["preference"]["matchExpressions"]:
                for node in rule["values"]:
                    weights[node] += term["weight"] if rule["operator"] == "In" else -term["weight"]
        least = min(weights[node] for node, cores in self._cores.items() if cores == IDLE)
        return [
            f"a new pod prefers {node}, which uses {cores} cores, with {weights[node]}, an idle node with {least}"
            for node, cores in self._cores.items()
            if cores == HOT and weights[node] >= least
        ]

    async def _prioritize(self) -> dict[str, int]:
        """The scores of a request as kube-scheduler sends it."""
        container = {"name": "main", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
        metadata = {"name": "new", "namespace": configuration.NAMESPACE, "uid": "new"}
        request = {"Pod": {"metadata": metadata, "spec": {"containers": [container]}}, "NodeNames": list(NODES)}
        async with self.http.post(f"{self.programs['scorer-0'].url}/prioritize", json=request) as response:
            response.raise_for_status()
            return {each["Host"]: each["Score"] for each in await response.json()}

    def _load(self, node: str) -> float:
        return self._cores[node] / configuration.CORES

    # Waiting

    async def until(
        self, condition: Callable[[], Awaitable[bool]], what: str, *, since: float | None = None, limit: float = LIMIT
    ) -> float:
        """Seconds from `since` (monotonic; default: now) until the condition is met; AssertionError after the limit."""
        begin = time.monotonic() if since is None else since
        while True:
            met = await condition()
            seconds = time.monotonic() - begin
            if met and seconds <= limit:
                return seconds
            if seconds > limit:
                tails = [program.tail() for program in self.programs.values()]
                raise AssertionError("\n".join([f"not within {limit:g} s: {what}", *await self.errors(), *tails]))
            await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def running_loop(cluster: Cluster) -> AsyncIterator[Loop]:
    """On an empty cluster with NATS. No service runs until `start_all`."""
    clock = SystemClock()
    await cluster.add_nodes([configuration.objects.node(name, cpu=configuration.CORES) for name in NODES])
    await cluster.apply(configuration.manifests())
    await cluster.wait(
        f"/api/v1/namespaces/{configuration.NAMESPACE}/pods",
        lambda pods: sum(pod["status"].get("phase") == "Running" for pod in pods["items"]) == len(NODES),
        what="a pod runs on each node",
    )
    nats, connection = (
        Nats(url=cluster.nats_url),
        Kubernetes(kubeconfig=str(cluster.kubeconfig), namespace=configuration.OWN),
    )
    await setup_streams(nats, intent_max_age=180)
    loop = Loop(cluster, clock)
    async with (
        cluster.api() as loop.api,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as loop.http,
        connect_kube(connection, "killed", clock, environment={}) as loop.kube,
        connect(nats, "killed", clock=clock) as loop.bus,
    ):
        await loop.bus.subscribe_latest(f"{PREFIX}.utilization.cycle.*", UtilizationCycle, loop.on_cycle)
        yield loop
