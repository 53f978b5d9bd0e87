"""A cluster, hot on some nodes and idle on others, and what runs on it from the deployment files."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from deployment.base import NAMESPACE, ROOT, base_documents, base_programs, tls_settings
from deployment.compression import FACTOR, Document, compressed_configuration, merged
from deployment.extender import CLIENT_SECRET, Secrets, entry_here, lay_out, made_secrets
from deployment.processes import EXTENDER_PORT, NATS_PORT, Folder, Machine

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import namespace_documents, node_documents, workload_documents
from equipoise.cli.demo.node_loads import NodeLoads
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.lab.model.trace import Trace
from equipoise.runtime.bus.permissions import USERS
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster

NODES = 20
STEP_SECONDS = 4
SCALE = 0.6
NOON = 13
"""The step (of 24) whose usage all pods have, all the time: then the loop may end when it is level."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster on which everything was placed by the stock scheduler, and k8s/base applied."""

    cluster: Cluster
    binaries: Binaries
    trace: Trace
    loads: NodeLoads
    configuration: Document
    passwords: dict[str, str]
    directory: Path

    def machine(self, name: str, programs: Any, made: Secrets | None = None) -> Machine:
        """With Secrets of the extender, its configuration says what k8s/base/equipoise.yaml shows in a comment."""
        configuration = self.configuration if made is None else merged(self.configuration, tls_settings())
        files = {f"{secret}/{key}": text for secret, keys in (made or {}).items() for key, text in keys.items()}
        folder = Folder(
            path=self.directory / name,
            passwords=self.passwords | files,
            files={
                "k8s/base/equipoise.yaml": yaml.safe_dump(configuration, sort_keys=False),
                # The testbed's Prometheus is built without discovery in Kubernetes; it scrapes for itself.
                "k8s/compose/prometheus.yaml": "scrape_configs: []\n",
            },
        )
        return Machine(self.cluster, self.binaries, programs, folder)

    async def token_of(self, service: str) -> str:
        """Of its ServiceAccount."""
        return (await self.cluster.service_account_token(NAMESPACE, f"equipoise-{service}")).read_text()


def a_trace() -> Trace:
    """Fake kubelets know no capacity: usage is scaled down until no node would need more than it has."""
    trace = example_trace(nodes=NODES, steps=24)
    cpu, memory = SCALE * trace.cpu_milli[:, [NOON]], trace.memory_mib[:, [NOON]]
    return msgspec.structs.replace(trace, cpu_milli=cpu, memory_mib=memory, seconds_per_step=FACTOR * STEP_SECONDS)


@asynccontextmanager
async def placed_world(binaries: Binaries, directory: Path) -> AsyncIterator[World]:
    trace = a_trace()
    async with (
        Cluster(binaries=binaries) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
    ):
        await cluster.add_nodes(node_documents(trace))
        await cluster.apply(
            [
                *namespace_documents(),
                *workload_documents(trace, epoch=int(time.time()), step_seconds=STEP_SECONDS),  # noqa: TID251
            ]
        )
        await cluster.wait(
            "/api/v1/pods?resourceVersion=0",
            lambda pods: (
                sum(pod["status"].get("phase") == "Running" for pod in pods["items"])
                >= len(trace.pods) + len(trace.nodes)
            ),
            what="every pod runs",
            timeout=60,
        )
        await cluster.apply(base_documents())
        token = await cluster.service_account_token(NAMESPACE, "equipoise-collector")
        passwords = {user: secrets.token_hex(12) for user in USERS}
        yield World(
            cluster=cluster,
            binaries=binaries,
            trace=trace,
            loads=NodeLoads(session, cluster.prometheus_url, trace, 2 * STEP_SECONDS),
            configuration=compressed_configuration(),
            passwords=passwords | {"prometheus-token": token.read_text()},
            directory=directory,
        )


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of k8s/base, each as itself, and what `equipoise tap` shows of them."""

    world: World
    machine: Machine
    extender_client: Path
    """Folder with kube-scheduler's files for the extender."""

    def scheduler_here(self, text: str) -> str:
        """A shipped KubeSchedulerConfiguration, with the scorer's address here."""
        return entry_here(text, self.machine.url(EXTENDER_PORT, "https"), self.extender_client)

    def said(self) -> list[dict[str, Any]]:
        """Everything so far: subject and message."""
        lines = self.machine.log("tap").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    async def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it came true in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            if condition():
                return True
            await asyncio.sleep(0.2)
        return condition()

    async def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """AssertionError, with what everyone said last, when it does not come true in time."""
        if not await self.wait(condition, seconds):
            tails = "\n".join(f"-- {name}\n{self.machine.tail(name, 6)}" for name in (*SERVICES, "tap", "nats"))
            raise AssertionError(f"not so after {seconds:g} s: {what}\n{tails}")

    def evictions(self) -> int:
        return sum(eviction.succeeded for eviction in self.world.cluster.evictions())


@asynccontextmanager
async def running_base(world: World) -> AsyncIterator[Run]:
    """Started all at once, as Kubernetes does; from here on evictions are real."""
    made = made_secrets(world.directory / "certificates")
    machine = world.machine("base", base_programs(base_documents()), made)
    client = lay_out(machine.path / "extender-client", made[CLIENT_SECRET])
    machine.evict = True
    async with asyncio.TaskGroup() as group:
        for name in machine.programs:
            group.create_task(machine.start(name))
    tap = ("equipoise", "tap", "-o", "json", "--nats", machine.url(NATS_PORT, "nats"), "--user", "tap")
    machine.run_beside("tap", (*tap, "--password-file", str(machine.password_file("tap"))))
    await machine.completed("setup")
    async with asyncio.TaskGroup() as group:
        for service in SERVICES:
            group.create_task(machine.ready(service))
    run = Run(world=world, machine=machine, extender_client=client)
    text = run.scheduler_here((ROOT / "k8s" / "scheduler" / "extender.yaml").read_text())
    await asyncio.to_thread(world.cluster.restart_scheduler, {"extenders": yaml.safe_load(text)["extenders"]})
    yield run
    await asyncio.to_thread(machine.stop)
