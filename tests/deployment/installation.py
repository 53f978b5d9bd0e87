"""A cluster with hot and idle nodes, and the programs of the deployment files."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import aiohttp
import msgspec
import yaml
from deployment.base import NAMESPACE, ROOT, base_documents, base_programs, live_page_documents
from deployment.certificates import CLIENT_SECRET, Secrets, create_secrets, local_configuration, write_files
from deployment.compression import FACTOR, Document, compressed_configuration
from deployment.kustomize import read_kustomization
from deployment.processes import EXTENDER_PORT, NATS_PORT, Folder, Machine

from equipoise.cli.demo.configuration import Placement
from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import namespace_documents, node_documents, workload_documents
from equipoise.cli.demo.node_loads import NodeLoads, trace_cores
from equipoise.cli.demo.surge.workloads import service_documents, wanted_endpoints
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.configuration.surge import SurgeMode
from equipoise.lab.model.trace import Trace
from equipoise.runtime.bus.permissions import USERS
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import pod_disruption_budget

NODES = 20
STEP_SECONDS = 4
SCALE = 0.6
NOON = 13
"""The step (of 24) whose usage all pods have throughout. Constant usage lets the test end when the load is level."""


class DeployedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster whose pods the stock scheduler placed, with the objects of k8s/base and of k8s/live-page."""

    cluster: Cluster
    binaries: Binaries
    trace: Trace
    loads: NodeLoads
    configuration: Document
    placement: Placement
    passwords: dict[str, str]
    certificate_secrets: Secrets
    directory: Path

    def machine(self, name: str, programs: Any) -> Machine:
        files = {
            f"{secret}/{key}": text for secret, keys in self.certificate_secrets.items() for key, text in keys.items()
        }
        folder = Folder(
            path=self.directory / name,
            passwords=self.passwords | files,
            files={
                "k8s/base/equipoise.yaml": yaml.safe_dump(self.configuration, sort_keys=False),
                # This Prometheus is built without Kubernetes discovery. Another one of the testbed scrapes.
                "k8s/compose/prometheus.yaml": "scrape_configs: []\n",
            },
        )
        return Machine(self.cluster, self.binaries, programs, folder)

    async def token_of(self, service: str) -> str:
        """The token of the ServiceAccount of a service."""
        return (await self.cluster.service_account_token(NAMESPACE, f"equipoise-{service}")).read_text()


def constant_trace(nodes: int = NODES) -> Trace:
    """Fake kubelets have no physical limit: usage is scaled so that no node exceeds its capacity."""
    trace = example_trace(nodes=nodes, steps=24)
    cpu, memory = SCALE * trace.cpu_milli[:, [NOON]], trace.memory_mib[:, [NOON]]
    return msgspec.structs.replace(trace, cpu_milli=cpu, memory_mib=memory, seconds_per_step=FACTOR * STEP_SECONDS)


class MovesWithoutGap(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster in which single replicas are moved without a gap: with k8s/surge."""

    trace: Trace
    mode: SurgeMode = "singleReplicas"
    start_seconds: int
    """The time after which each pod of a single replica is ready."""

    @property
    def settings(self) -> Document:
        """On a busy machine, Prometheus and the binder need some seconds: those of the compressed defaults are few."""
        freshness = {"eviction": "36m", "score": "45m"}
        return {
            "surge": {"mode": self.mode},
            "load": {"freshness": freshness},
            "descheduler": {"intentLifetime": "15m"},
        }

    def prepared(self, workloads: list[Document]) -> list[Document]:
        """The workloads with Services. Single replicas have budgets that allow no eviction, and start slowly."""
        wanted = wanted_endpoints(self.trace)
        single = {name.partition("/")[2]: name.partition("/")[0] for name, replicas in wanted.items() if replicas == 1}
        others = [each for each in workloads if each["kind"] != "PodDisruptionBudget"]
        for each in others:
            if each["metadata"]["name"] in single:
                annotations = each["spec"]["template"]["metadata"]["annotations"]
                annotations["pod-ready.stage.kwok.x-k8s.io/delay"] = f"{self.start_seconds}s"
        budgets = [
            pod_disruption_budget(name, name, max_unavailable=0, namespace=namespace)
            for name, namespace in single.items()
        ]
        return [*service_documents(wanted), *budgets, *others]


@asynccontextmanager
async def deployed_cluster(
    binaries: Binaries,
    directory: Path,
    placement: Placement = "extender",
    address: str = "127.0.0.1",
    surge: MovesWithoutGap | None = None,
    *,
    nodes: int = NODES,
    settings: Document | None = None,
) -> AsyncIterator[DeployedCluster]:
    """With `hints`, also the objects of k8s/hints. The API server and Prometheus listen on `address`.

    `nodes` and `settings`: without `surge`, which has its own.
    """
    trace = constant_trace(nodes) if surge is None else surge.trace
    workloads = workload_documents(trace, epoch=int(time.time()), step_seconds=STEP_SECONDS)  # noqa: TID251
    async with (
        Cluster(binaries=binaries, address=address) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
    ):
        await cluster.add_nodes(node_documents(trace))
        await cluster.apply([*namespace_documents(), *(workloads if surge is None else surge.prepared(workloads))])
        await cluster.wait(
            "/api/v1/pods?resourceVersion=0",
            lambda pods: (
                sum(pod["status"].get("phase") == "Running" for pod in pods["items"])
                >= len(trace.pods) + len(trace.nodes)
            ),
            what="every pod runs",
            timeout=120,
        )
        hints = read_kustomization(ROOT / "k8s" / "hints") if placement == "hints" else []
        detaching = read_kustomization(ROOT / "k8s" / "surge") if surge is not None else []
        await cluster.apply([*base_documents(), *live_page_documents(), *hints, *detaching])
        token = await cluster.service_account_token(NAMESPACE, "equipoise-collector")
        passwords = {user: token_hex(12) for user in USERS}
        yield DeployedCluster(
            cluster=cluster,
            binaries=binaries,
            trace=trace,
            loads=NodeLoads(session, cluster.prometheus_url, trace_cores(trace), 2 * STEP_SECONDS),
            configuration=compressed_configuration(placement, (settings or {}) if surge is None else surge.settings),
            placement=placement,
            passwords=passwords | {"prometheus-token": token.read_text(), "prometheus-kubeconfig": ""},
            certificate_secrets=create_secrets(directory / "certificates"),
            directory=directory,
        )


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """The running programs of both, each with its own credentials, and the output of `equipoise tap`."""

    deployed: DeployedCluster
    machine: Machine
    extender_client: Path
    """Folder with the client certificate of kube-scheduler."""

    without_bus: dict[str, dict[str, Any]]
    """By service, the body of /readyz before NATS was started."""

    def scheduler_configuration(self, text: str) -> str:
        """A shipped KubeSchedulerConfiguration with local addresses and files."""
        return local_configuration(text, self.machine.url(EXTENDER_PORT, "https"), self.extender_client)

    def messages(self) -> list[dict[str, Any]]:
        """All messages so far, with their subjects."""
        lines = self.machine.log("tap").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    async def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether the condition became true in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            if condition():
                return True
            await asyncio.sleep(0.2)
        return condition()

    async def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Raises AssertionError with the last log lines if the condition does not become true in time."""
        if not await self.wait(condition, seconds):
            tails = "\n".join(f"-- {name}\n{self.machine.tail(name, 6)}" for name in (*SERVICES, "tap", "nats"))
            raise AssertionError(f"not within {seconds:g} s: {what}\n{tails}")

    def evictions(self) -> int:
        return sum(eviction.succeeded for eviction in self.deployed.cluster.evictions())


@asynccontextmanager
async def running_installation(deployed: DeployedCluster) -> AsyncIterator[Installation]:
    """Started simultaneously, as Kubernetes does, but NATS last, as if it were missing; with real evictions.

    kube-scheduler is configured for the extender only.
    """
    machine = deployed.machine("base", base_programs([*base_documents(), *live_page_documents()]))
    client = write_files(machine.path / "extender-client", deployed.certificate_secrets[CLIENT_SECRET])
    machine.evict = True
    async with asyncio.TaskGroup() as group:
        for name in machine.programs.keys() - {"nats"}:
            group.create_task(machine.start(name))
    address = machine.url(NATS_PORT, "tls")
    async with asyncio.TaskGroup() as group:
        waiting = {
            service: group.create_task(machine.waiting(service, f"not connected to the bus at {address}"))
            for service in SERVICES
        }
    await machine.start("nats")
    machine.run_command("tap", ("equipoise", "tap", "-o", "json", *machine.tap_access()))
    await machine.completed("setup")
    async with asyncio.TaskGroup() as group:
        for service in SERVICES:
            group.create_task(machine.ready(service))
    without_bus = {service: task.result() for service, task in waiting.items()}
    installation = Installation(deployed=deployed, machine=machine, extender_client=client, without_bus=without_bus)
    if deployed.placement == "extender":
        text = installation.scheduler_configuration((ROOT / "k8s" / "scheduler" / "extender.yaml").read_text())
        await asyncio.to_thread(deployed.cluster.restart_scheduler, {"extenders": yaml.safe_load(text)["extenders"]})
    yield installation
    await asyncio.to_thread(machine.stop)
