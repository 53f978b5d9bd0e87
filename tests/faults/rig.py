"""A real cluster, a real nats-server and the services as processes, with proxies that inject faults.

Services reach the API server and Prometheus through the proxies; the harness does not. The checks read the API server's
audit log and the bus.
"""

import asyncio
import json
import random
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import aiohttp
import nats
import yaml
from nats.js.api import ConsumerConfig, DeliverPolicy

from equipoise.binder.shell.ledger_store import create_ledger
from equipoise.contracts.bus.streams import STREAMS, WORKERS
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import Bus, connect
from equipoise.runtime.bus.codec import ACK_WAIT
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Kubernetes, Nats
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.processes import configuration
from faults import cluster_setup
from faults.fakes import FakeCollector, FakeDescheduler, take_lease
from faults.fault_proxy import FaultProxy
from faults.recording import Recorder

PROGRAMS = ("collector-0", "scorer-0", "descheduler-0", "descheduler-1", "binder-0", "binder-1", "binder-2")
"""Each with a service account of its own, so that proxy and audit log distinguish them."""

INTENT_STREAM = next(stream for stream in STREAMS if stream.work_queue)
OUTCOMES = "EQUIPOISE_OUTCOME"
TIMEOUT = 60.0
"""Seconds, even for what should happen at once: the machine may be busy."""


class Inconclusive(Exception):
    """The run proves nothing: what should have happened besides the fault did not."""


class Program:
    """One process of a service, under its own name and health address."""

    def __init__(self, rig: "Rig", service: ServiceName, number: int) -> None:
        self.name = f"{service}-{number}"
        self._rig = rig
        self._service: ServiceName = service
        self._port = rig.port(self.name)
        self._pid = 0
        self.bus_user: Mapping[str, str] = {}
        """Added to the section `nats` of its configuration."""

    @property
    def log(self) -> Path:
        return self._rig.cluster.log(self.name)

    @property
    def pid(self) -> int:
        """0 before its first start."""
        return self._pid

    async def start(self, **own: Any) -> None:
        """Until it is ready. `own` adds to its section of the configuration."""
        rig = self._rig
        file = rig.cluster.directory / f"{self.name}.yaml"
        if self._service == "scorer":
            own = {"listen": f"127.0.0.1:{rig.port(f'{self.name}-extender')}", **own}
        document = cluster_setup.document(
            self._service,
            kubeconfig=str(rig.kubeconfigs[self.name]),
            nats=rig.cluster.nats_url,
            prometheus=rig.prometheus.url,
            health=f"127.0.0.1:{self._port}",
            own=own,
        )
        document["nats"] |= self.bus_user
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        self._pid = rig.cluster.guard.start(
            [sys.executable, "-m", f"equipoise.{self._service}"],
            log=self.log,
            environment={"EQUIPOISE_CONFIG": str(file)},
        )
        await rig.until(self._ready, f"{self.name} is ready")

    async def _ready(self) -> bool:
        code = self._rig.cluster.guard.exit_code(self._pid)
        if code is not None:
            raise Inconclusive(f"{self.name} ended with code {code}:\n{self.tail()}")
        report = await self.readiness()
        return report is not None and bool(report["ready"])

    async def readiness(self) -> dict[str, Any] | None:
        try:
            async with self._rig.http.get(f"http://127.0.0.1:{self._port}/readyz") as response:
                report: dict[str, Any] = await response.json(content_type=None)
                return report
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None

    def send(self, number: int) -> None:
        self._rig.cluster.guard.send(self._pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end; also of a suspended process."""
        self._rig.cluster.guard.stop(self._pid, number=signal.SIGKILL)

    @property
    def runs(self) -> bool:
        return bool(self._pid) and self._rig.cluster.guard.exit_code(self._pid) is None

    def tail(self, lines: int = 8) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


class Rig:
    """Created by `rig`. Faults break it and repair it."""

    def __init__(self, cluster: Cluster, clock: SystemClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.recorder = Recorder(clock, cluster.audit_log)
        self.generator = random.Random(0)
        self.kubeconfigs: dict[str, Path] = {}
        self.tokens: dict[str, str] = {}
        self.programs: dict[str, Program] = {}
        self._ports: dict[str, int] = {}
        self.proxy: FaultProxy
        self.prometheus: FaultProxy
        self.http: aiohttp.ClientSession
        self.api: Api
        self.binaries: Binaries
        self.kube: Kube
        self.bus: Bus
        self.collector: FakeCollector
        self.descheduler: FakeDescheduler
        self.since = clock.now()

    def port(self, name: str) -> int:
        """The same port for the same name: a cluster has few."""
        if name not in self._ports:
            self._ports[name] = self.cluster.free_port()
        return self._ports[name]

    # Waiting

    async def until(
        self, condition: Callable[[], bool | Awaitable[bool]], what: str, *, seconds: float = TIMEOUT
    ) -> None:
        """Raises Inconclusive when the condition is not met in time."""
        deadline = time.monotonic() + seconds
        while True:
            met = condition()
            if met if isinstance(met, bool) else await met:
                return
            if time.monotonic() > deadline:
                tails = "\n".join(f"-- {name}\n{program.tail()}" for name, program in self.programs.items())
                raise Inconclusive(f"not within {seconds:g} s: {what}\n{tails}")
            await asyncio.sleep(0.02)

    async def evictions(self, more: int, *, seconds: float = TIMEOUT) -> None:
        """Until so many more outcomes report an eviction; the checks read the audit log."""
        await self.outcomes_of(Outcome.EVICTED, more, seconds=seconds)

    async def outcomes_of(self, outcome: Outcome, more: int, *, seconds: float = TIMEOUT) -> None:
        """Until so many more intents have this outcome."""
        have = self.recorder.count(outcome)
        what = f"{more} more intents {outcome.value}"
        await self.until(lambda: self.recorder.count(outcome) >= have + more, what, seconds=seconds)

    async def outcomes(self, more: int, *, seconds: float = TIMEOUT) -> None:
        """Until so many more intents are settled."""
        have = len(self.recorder.settled)
        await self.until(lambda: len(self.recorder.settled) >= have + more, f"{more} more outcomes", seconds=seconds)

    async def all_settled(self, *, seconds: float = TIMEOUT) -> None:
        """Until no intent is pending; the checks report those that remain."""
        with suppress(Inconclusive):
            await self.until(lambda: not self.recorder.pending(), "every intent has its outcome", seconds=seconds)

    async def all_replicas_ready(self) -> None:
        """Until every workload has all replicas ready."""

        async def ready() -> bool:
            sets = await self.api.request("GET", f"/apis/apps/v1/namespaces/{cluster_setup.NAMESPACE}/statefulsets")
            deployments = await self.api.request(
                "GET", f"/apis/apps/v1/namespaces/{cluster_setup.NAMESPACE}/deployments"
            )
            return all(
                item["status"].get("readyReplicas", 0) == item["spec"]["replicas"]
                for item in (*sets["items"], *deployments["items"])
            )

        await self.until(ready, "all replicas are ready")

    # Programs

    async def start(self, service: ServiceName, count: int = 1, **own: Any) -> list[Program]:
        """Starts so many processes of a service and waits until they are ready."""
        programs = [self.program(f"{service}-{number}") for number in range(count)]
        await asyncio.gather(*(program.start(**own) for program in programs))
        return programs

    def program(self, name: str) -> Program:
        """Created at its first use."""
        if name not in self.programs:
            service, _, number = name.rpartition("-")
            self.programs[name] = Program(self, cast(ServiceName, service), int(number))
        return self.programs[name]

    def stop_programs(self) -> None:
        for program in self.programs.values():
            if program.runs:
                program.kill()

    async def write_kubeconfig(self, user: str, ca_file: Path | None = None) -> None:
        """With a new token, and the CA of the proxy."""
        token = (await self.cluster.service_account_token(cluster_setup.OWN, user)).read_text()
        server, ca = self.proxy.url, str(ca_file or self.cluster.ca_file)
        file = self.cluster.directory / f"{user}.kubeconfig"
        text = json.dumps(configuration.kubeconfig(server=server, ca_file=ca, user=user, token=token))
        new = file.with_suffix(".new")
        new.write_text(text)
        new.replace(file)
        self.kubeconfigs[user] = file
        self.tokens[user] = token

    # The bus

    async def prepare_streams(self) -> None:
        """As `equipoise setup` does."""
        await setup_streams(Nats(url=self.cluster.nats_url), intent_max_age=180)

    async def restart_nats_empty(self) -> None:
        """Kills the server, starts one without streams, and creates the streams."""
        self.cluster.kill("nats-server")
        shutil.rmtree(self.cluster.directory / "jetstream")
        self.recorder.streams_emptied()
        await asyncio.to_thread(self.cluster.restart, "nats-server")
        await self.prepare_streams()
        self.recorder.streams_emptied()
        await self.until(lambda: self.bus.connected, "the harness is connected")

    async def recreate_consumer(self, *, ack_wait: float = ACK_WAIT) -> None:
        """Deletes and creates the consumer of the queue: everything not acknowledged is delivered again."""
        async with self._jetstream() as streams:
            info = await streams.consumer_info(INTENT_STREAM.name, WORKERS)
            old = info.config
            await streams.delete_consumer(INTENT_STREAM.name, WORKERS)
            config = ConsumerConfig(
                name=WORKERS,
                durable_name=WORKERS,
                filter_subject=old.filter_subject,
                ack_policy=old.ack_policy,
                ack_wait=ack_wait,
                max_deliver=old.max_deliver,
            )
            await streams.add_consumer(INTENT_STREAM.name, config)

    async def purge_outcomes(self) -> None:
        """So that the cooldowns of a descheduler ignore the evictions of earlier runs."""
        async with self._jetstream() as streams:
            await streams.purge_stream(OUTCOMES)

    async def queue_empty(self) -> None:
        """Until the queue contains no intent."""
        async with self._jetstream() as streams:

            async def empty() -> bool:
                info = await streams.stream_info(INTENT_STREAM.name)
                return bool(info.state.messages == 0)

            await self.until(empty, "the queue of intents is empty")

    async def _count_kept(self) -> None:
        """Counts the outcomes of each intent in the stream."""
        self.recorder.kept.clear()
        async with self._jetstream() as streams:
            config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
            messages = await streams.subscribe("equipoise.eviction.outcome.>", ordered_consumer=True, config=config)
            info = await streams.stream_info(OUTCOMES)
            for _ in range(info.state.messages):
                message = await messages.next_msg(timeout=60)
                self.recorder.kept[json.loads(message.data)["intent_id"]] += 1
            await messages.unsubscribe()

    @asynccontextmanager
    async def _jetstream(self) -> AsyncIterator[Any]:
        client = await nats.connect(self.cluster.nats_url, max_reconnect_attempts=3)
        try:
            yield client.jetstream()
        finally:
            await client.close()

    # A run

    @asynccontextmanager
    async def running(self, seed: int, name: str) -> AsyncIterator[None]:
        """Traffic while entered; on exit everything is repaired, settled and stopped."""
        self.generator = random.Random(f"{seed} {name}")
        self.proxy.reseed(seed)
        await self.recreate_consumer()
        await self.collector.update()
        self.collector.hot = frozenset()
        self.collector.publishing = True
        self.since = self.clock.now()
        self.descheduler = FakeDescheduler(
            self.collector, self.bus, self.clock, self.recorder, self.generator, f"{name}.{seed}.{int(self.since)}"
        )
        self.descheduler.epoch = await take_lease(self.kube, cluster_setup.OWN, "faults")
        proposing = asyncio.create_task(self.descheduler.run())
        try:
            yield
            if proposing.done():
                proposing.result()
        finally:
            proposing.cancel()
            self.proxy.clear()
            self.prometheus.clear()
            with suppress(asyncio.CancelledError):
                await proposing
        await self.all_settled()
        self.stop_programs()
        await self.all_replicas_ready()
        await self._count_kept()


@asynccontextmanager
async def rig(binaries: Binaries, directory: Path | None = None) -> AsyncIterator[Rig]:
    """Starting takes about ten seconds."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(binaries=binaries, nats=True, directory=directory))
        started = Rig(cluster, clock)
        started.binaries = binaries
        certificates = cluster.directory / "certs"
        started.proxy = await stack.enter_async_context(
            FaultProxy(
                cluster.url,
                cluster.free_port(),
                ca_file=cluster.ca_file,
                cert_file=certificates / "apiserver.crt",
                key_file=certificates / "apiserver.key",
            )
        )
        started.prometheus = await stack.enter_async_context(FaultProxy(cluster.prometheus_url, cluster.free_port()))
        started.http = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)))
        started.api = await stack.enter_async_context(cluster.api())
        await _populate(started)
        connection = Kubernetes(kubeconfig=str(cluster.kubeconfig), namespace=cluster_setup.OWN)
        started.kube = await stack.enter_async_context(connect_kube(connection, "faults", clock, environment={}))
        await create_ledger(started.kube, cluster_setup.OWN, clock)
        await started.prepare_streams()
        started.bus = await stack.enter_async_context(connect(Nats(url=cluster.nats_url), "faults", clock=clock))
        await started.recorder.subscribe(started.bus)
        started.collector = FakeCollector(started.kube, started.bus, clock)
        publishing = asyncio.create_task(started.collector.run())
        try:
            yield started
        finally:
            publishing.cancel()
            with suppress(asyncio.CancelledError):
                await publishing


async def _populate(started: Rig) -> None:
    cluster = started.cluster
    await cluster.add_nodes(cluster_setup.node_manifests())
    await started.api.apply([*cluster_setup.manifests(), *_accounts()])
    await cluster.wait(
        "/api/v1/pods",
        lambda pods: sum(_ready(pod) for pod in pods["items"]) >= cluster_setup.PODS,
        what=f"{cluster_setup.PODS} pods run",
        timeout=TIMEOUT,
    )
    for user in PROGRAMS:
        await started.write_kubeconfig(user)


def _accounts() -> list[Mapping[str, Any]]:
    """Each process has its own name in the audit log, and every permission: only its own code limits it."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster_setup.OWN}},
        *(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": user, "namespace": cluster_setup.OWN}}
            for user in PROGRAMS
        ),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "equipoise-under-faults"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [
                {
                    "kind": "Group",
                    "apiGroup": "rbac.authorization.k8s.io",
                    "name": f"system:serviceaccounts:{cluster_setup.OWN}",
                }
            ],
        },
    ]


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"
