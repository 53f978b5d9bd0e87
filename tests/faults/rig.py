"""A real cluster, a real nats-server and the services as processes, with proxies that inject faults.

Services reach the API server and Prometheus through the proxies; the harness does not. The checks read the API server's
audit log and the bus.
"""

import asyncio
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast

import aiohttp
import msgspec
import nats
import yaml
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError, ServerError
from nats_servers import SERVERS, NatsServers, nats_servers, others

from equipoise.binder.shell.ledger_store import create_ledger
from equipoise.contracts.bus.streams import STREAMS, WORKERS
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.bus import Bus, BusError, connect
from equipoise.runtime.bus.codec import ACK_WAIT
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Kubernetes, Nats
from equipoise.runtime.kubernetes.client import LEASES, Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.processes import configuration
from faults import cluster_setup
from faults.background import background
from faults.cluster_setup import APPS
from faults.convergence import differences
from faults.fakes import FakeCollector, FakeDescheduler, epoch_of, take_lease
from faults.fault_proxy import FaultProxy
from faults.history import Convergence, Finding, Stop
from faults.invariants import MinimumTraffic
from faults.recording import Recorder
from faults.sampling import LogSearch, ProcessSampler

PROGRAMS = (
    "collector-0",
    "scorer-0",
    "descheduler-0",
    "descheduler-1",
    "binder-0",
    "binder-1",
    "binder-2",
    "annotator-0",
    "reclaimer-0",
    "reclaimer-1",
)
"""Each with a service account of its own, so that proxy and audit log distinguish them."""

INTENT_STREAM = next(stream for stream in STREAMS if stream.work_queue)
OUTCOMES = "EQUIPOISE_OUTCOME"
TIMEOUT = 60.0
"""Seconds, even for what should happen at once: the machine may be busy."""

_TRAFFIC_POLL = 0.5
"""Seconds: each time, the audit log is read."""

ACCOUNTS = (*PROGRAMS, "agent-0", "agent-poison")
"""Those with every permission in the cluster: only the code of a program limits it."""

SAMPLE_PERIOD = 1.0
"""Seconds between two samples of the processes."""

TESTS = str(Path(__file__).parents[1])


EVENTS = "equipoise.decision.faults.event"
"""Nobody subscribes to it; its stream keeps all messages for a day."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A message of which only its presence matters."""

    event_id: str


class Inconclusive(Exception):
    """The run proves nothing: what should have happened besides the fault did not."""


class Program:
    """One process of a service, under its own name and health address."""

    def __init__(self, rig: "Rig", service: ServiceName, number: int) -> None:
        self.name = f"{service}-{number}"
        self._rig = rig
        self._service: ServiceName = service
        self.port = rig.port(self.name)
        self.pid = 0
        """0 before its first start."""

        self.sources: tuple[str, ...] = ()
        """The folders of another build; default: the current one."""

        self.account: Path | None = None
        """The files of a ServiceAccount, as in a pod; default: a kubeconfig."""

        self._sampler: ProcessSampler | None = None
        self._suspended = False
        self._disturbed_until = 0.0

    @property
    def log(self) -> Path:
        return self._rig.cluster.log(self.name)

    @property
    def configuration(self) -> Path:
        return self._rig.cluster.directory / f"{self.name}.yaml"

    async def start(self, *, offset: float = 0.0, **own: Any) -> None:
        """Until it is ready. `own` adds to its section of the configuration; `offset`: seconds of its clock."""
        rig = self._rig
        if self._service == "scorer":
            own = {"listen": f"127.0.0.1:{rig.port(f'{self.name}-extender')}", **own}
        document = cluster_setup.document(
            self._service,
            kubeconfig=str(rig.kubeconfigs[self.name]),
            nats=rig.nats_urls.get(self.name, rig.nats_url),
            prometheus=rig.prometheus.url,
            health=f"127.0.0.1:{self.port}",
            own=own,
        )
        document |= rig.sections
        if self.account is not None:
            document["kubernetes"] = {"serviceAccount": str(self.account), "namespace": cluster_setup.OWN}
        document["nats"] |= {"user": self._service, "passwordFile": str(rig.password_file)}
        self.configuration.write_text(yaml.safe_dump(document, sort_keys=False))
        self._launch(offset)
        await rig.until(self._ready, f"{self.name} is ready")

    async def exit_code_of_start(self) -> int:
        """Starts with the current file of the configuration, and waits for the end."""
        self._launch(0.0)
        await self._rig.until(lambda: not self.runs, f"{self.name} ends")
        return self._rig.cluster.guard.exit_code(self.pid) or 0

    def _launch(self, offset: float) -> None:
        control, samples = self._control(offset=offset), self.configuration.with_suffix(".samples")
        self._suspended, self._disturbed_until, self._was_ready = False, 0.0, False
        path = os.pathsep.join(filter(None, (TESTS, *self.sources, os.environ.get("PYTHONPATH"))))
        self.pid = self._rig.cluster.guard.start(
            [sys.executable, "-m", "faults.instrumented", f"equipoise.{self._service}", control, samples],
            log=self.log,
            environment={
                "EQUIPOISE_CONFIG": str(self.configuration),
                "PYTHONPATH": path,
                **({} if self.account is None else self._rig.in_cluster_environment),
            },
        )
        self._sampler = ProcessSampler(self.name, self.pid, samples)

    def _control(self, *, offset: float, block: float = 0.0) -> Path:
        """Writes the file that `faults.instrumented` reads at the start and at SIGUSR1."""
        control = self.configuration.with_suffix(".control")
        control.write_text(json.dumps({"offset": offset, "block": block}))
        return control

    def sample(self) -> None:
        """Records what the process uses; nothing of one that has ended."""
        if self._sampler is None or not self.runs:
            return
        now = self._rig.clock.now()
        disturbed = self._suspended or now < self._disturbed_until
        if sample := self._sampler.sample(now, disturbed=disturbed, ready=self._was_ready):
            self._rig.recorder.processes.append(sample)

    # Faults of the process itself

    def block(self, seconds: float, *, offset: float = 0.0) -> None:
        """Blocks the event loop once it runs again, and sets the clock."""
        self._control(offset=offset, block=seconds)
        self.sample()
        self.disturb(seconds)
        self.send(signal.SIGUSR1)

    def set_clock(self, offset: float) -> None:
        """Seconds by which the clock of the running process differs from now on."""
        self.block(0.0, offset=offset)

    def disturb(self, seconds: float) -> None:
        """Does not count the lag of the event loop until 5 s after that time."""
        self._disturbed_until = max(self._disturbed_until, self._rig.clock.now() + seconds + 5.0)

    def limit(self, what: int, most: int) -> None:
        """A soft limit of the running process, such as `resource.RLIMIT_NOFILE`."""
        _, hard = resource.prlimit(self.pid, what)
        resource.prlimit(self.pid, what, (most if hard < 0 else min(most, hard), hard))

    async def _ready(self) -> bool:
        code = self._rig.cluster.guard.exit_code(self.pid)
        if code is not None:
            raise Inconclusive(f"{self.name} ended with code {code}:\n{self.tail()}")
        report = await self.readiness()
        self._was_ready = self._was_ready or (report is not None and bool(report["ready"]))
        return self._was_ready

    async def readiness(self) -> dict[str, Any] | None:
        try:
            async with self._rig.http.get(f"http://127.0.0.1:{self.port}/readyz") as response:
                report: dict[str, Any] = await response.json(content_type=None)
                return report
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None

    async def configuration_hash(self) -> str:
        """Of the configuration in use. Raises Inconclusive."""
        report = await self.readiness()
        if report is None:
            raise Inconclusive(f"{self.name} does not respond")
        return str(report["configuration"])

    def changed_configuration(self, change: Mapping[str, Any]) -> str:
        """The file of its configuration with sections replaced: values by path, such as `binder.limits`."""
        document = yaml.safe_load(self.configuration.read_text())
        for path, value in change.items():
            section, _, key = path.rpartition(".")
            target = document[section] if section else document
            target[key] = value
        return yaml.safe_dump(document)

    def send(self, number: int) -> None:
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.sample()
            self._suspended = number == signal.SIGSTOP
            self.disturb(0.0)
        self._rig.cluster.guard.send(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end; also of a suspended process."""
        self._rig.cluster.guard.stop(self.pid, number=signal.SIGKILL)

    async def terminate(self) -> None:
        """SIGTERM, and wait for the end; the checks read how long it took."""
        begun = time.monotonic()
        self.send(signal.SIGTERM)
        guard = self._rig.cluster.guard
        await self._rig.until(lambda: guard.exit_code(self.pid) is not None, f"{self.name} ends after SIGTERM")
        code = guard.exit_code(self.pid)
        assert code is not None
        self._rig.recorder.stops.append(Stop(program=self.name, seconds=time.monotonic() - begun, code=code))

    @property
    def runs(self) -> bool:
        return bool(self.pid) and self._rig.cluster.guard.exit_code(self.pid) is None

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
        self.nats: NatsServers
        """Of a fault with three servers."""

        self._has_three_nats_servers = False

        self.nats_without_harness = ""
        """The one of them that the harness does not use."""

        self.nats_url = cluster.nats_url
        self.nats_urls: dict[str, str] = {}
        """By program, if not all servers."""

        self.sections: dict[str, Any] = {}
        """Sections of the configuration of all programs, in place of the usual ones."""

        self.since = clock.now()
        self.password_file = cluster.directory / "password"
        self.logs = LogSearch({})

    def port(self, name: str) -> int:
        """The same port for the same name: a cluster has few."""
        if name not in self._ports:
            self._ports[name] = self.cluster.free_port()
        return self._ports[name]

    @property
    def in_cluster_environment(self) -> dict[str, str]:
        """The variables of a pod, with the proxy in place of the API server."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": self.proxy.url.rpartition(":")[2],
        }

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

    async def until_time(self, at: float) -> None:
        """Until the clock shows this time."""
        await asyncio.sleep(max(0.0, at - self.clock.now()))

    async def evictions(self, more: int, *, seconds: float = TIMEOUT) -> None:
        """Until this many more outcomes report an eviction; the checks read the audit log."""
        await self.outcomes_of(Outcome.EVICTED, more, seconds=seconds)

    async def evictions_as_leader(self, more: int) -> None:
        """As `evictions`, in the name of the descheduler that leads, which may change meanwhile."""
        have = self.recorder.count(Outcome.EVICTED)

        async def reached() -> bool:
            await self.propose_as_leader()
            await asyncio.sleep(_TRAFFIC_POLL)
            return self.recorder.count(Outcome.EVICTED) >= have + more

        await self.until(reached, f"{more} more intents {Outcome.EVICTED.value}")

    async def outcomes_of(self, outcome: Outcome, more: int, *, seconds: float = TIMEOUT) -> None:
        """Until this many more intents have this outcome."""
        have = self.recorder.count(outcome)
        what = f"{more} more intents {outcome.value}"
        await self.until(lambda: self.recorder.count(outcome) >= have + more, what, seconds=seconds)

    async def outcomes(self, more: int, *, seconds: float = TIMEOUT) -> None:
        """Until this many more intents are settled."""
        have = len(self.recorder.settled)
        await self.until(lambda: len(self.recorder.settled) >= have + more, f"{more} more outcomes", seconds=seconds)

    async def traffic(self, minimum: MinimumTraffic) -> None:
        """Until the run has had this much, by the audit log. A run without it is inconclusive."""

        async def reached() -> bool:
            if not minimum.missing(self.recorder.history(self.since)):
                return True
            await asyncio.sleep(_TRAFFIC_POLL)
            return False

        with suppress(Inconclusive):
            await self.until(reached, "enough traffic")

    async def all_settled(self, *, seconds: float = TIMEOUT) -> None:
        """Until no intent is pending; the checks report those that remain."""
        with suppress(Inconclusive):
            await self.until(lambda: not self.recorder.pending(), "every intent has its outcome", seconds=seconds)

    async def all_replicas_ready(self) -> None:
        """Until every workload has all replicas ready."""

        async def ready() -> bool:
            lists = [await self.api.request("GET", f"{APPS}/{kind}") for kind in ("statefulsets", "deployments")]
            return all(
                item["status"].get("readyReplicas", 0) == item["spec"]["replicas"]
                for found in lists
                for item in found["items"]
            )

        await self.until(ready, "all replicas are ready")

    async def lease_epoch(self) -> LeaseEpoch:
        """Of the Lease of the deschedulers; without a holder nobody leads."""
        return epoch_of(await self.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN))

    async def propose_as_leader(self) -> None:
        """The harness proposes in the name of the descheduler that leads; it does not check coverage."""
        self.descheduler.epoch = await self.lease_epoch()

    # Programs

    async def start(
        self, service: ServiceName, count: int = 1, *, sources: tuple[str, ...] = (), **own: Any
    ) -> list[Program]:
        """Starts this many processes of a service and waits until they are ready. `sources`: of another build."""
        programs = [self.program(f"{service}-{number}") for number in range(count)]
        for program in programs:
            program.sources = sources
        await asyncio.gather(*(program.start(**own) for program in programs))
        return programs

    async def stop_fake_collector(self) -> None:
        """Until Prometheus has newer samples than the fake collector has published: a collector begins with those."""
        self.collector.publishing = False
        stopped_at = self.clock.now()

        async def scraped() -> bool:
            query = {"query": "min(timestamp(up))"}
            async with self.http.get(f"{self.cluster.prometheus_url}/api/v1/query", params=query) as response:
                return float((await response.json())["data"]["result"][0]["value"][1]) > stopped_at

        await self.until(scraped, "every target is scraped")

    def program(self, name: str) -> Program:
        """Created at its first use."""
        if name not in self.programs:
            service, _, number = name.rpartition("-")
            self.programs[name] = Program(self, cast(ServiceName, service), int(number))
        return self.programs[name]

    def stop_programs(self, service: str = "") -> None:
        """Of one service, or all."""
        for name, program in self.programs.items():
            if program.runs and name.startswith(service):
                program.kill()

    async def write_kubeconfig(self, user: str, ca_file: Path | None = None, *, account: str = "") -> None:
        """With a new token, by default of the account of that name, and the CA of the proxy."""
        token = (await self.cluster.service_account_token(cluster_setup.OWN, account or user)).read_text()
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
        replicas: Literal[1, 3] = 1 if self.nats_url == self.cluster.nats_url else 3
        await setup_streams(Nats(url=self.nats_url, replicas=replicas), intent_max_age=180)

    async def restart_nats_empty(self) -> None:
        """Kills the server, starts one without streams, and creates the streams."""
        self.cluster.kill("nats-server")
        shutil.rmtree(self.cluster.directory / "jetstream")
        self.recorder.streams_emptied()
        await asyncio.to_thread(self.cluster.restart, "nats-server")
        await self.prepare_streams()
        self.recorder.streams_emptied()
        await self.connected()

    async def restart_nats_on_small_disk(self, size: str = "32m") -> Path:
        """Restarts nats-server with empty storage on a tmpfs of its own, and creates the streams; returns the tmpfs."""
        store = self.cluster.directory / "jetstream"
        mount = 'mkdir -p "$1" && mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'
        user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        self.cluster.prefix("nats-server", ("unshare", "--mount", *user, "sh", "-c", mount, size, store))
        # Otherwise it creates no streams that may become larger than the disk.
        (self.cluster.directory / "nats.conf").write_text("jetstream { max_file_store: 100G }\n")
        await self.restart_nats_empty()
        return Path(f"/proc/{self.cluster.pid('nats-server')}/root{store}")

    async def restart_nats_on_disk(self, disk: Path) -> None:
        """Kills nats-server, and starts it with the files of the tmpfs on a disk with room."""
        store, copy = self.cluster.directory / "jetstream", self.cluster.directory / "jetstream-copy"
        self.cluster.kill("nats-server", signal.SIGSTOP)
        await asyncio.to_thread(shutil.copytree, disk, copy)
        self.cluster.kill("nats-server")
        shutil.rmtree(store)
        copy.rename(store)
        self.cluster.prefix("nats-server", ())
        (self.cluster.directory / "nats.conf").write_text("")
        await asyncio.to_thread(self.cluster.restart, "nats-server")
        self.recorder.streams_emptied()  # it acknowledges messages before it writes them
        await self.connected()

    async def recreate_consumer(self, *, ack_wait: float = ACK_WAIT) -> None:
        """Deletes and creates the consumer of the queue: everything not acknowledged is delivered again."""
        async with self.jetstream() as streams:
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
        async with self.jetstream() as streams:
            await streams.purge_stream(OUTCOMES)

    async def missing_streams(self) -> list[str]:
        """The names of streams that do not exist or are offline, or whose consumer does not or skips new messages."""
        missing = []
        async with self.jetstream() as streams:
            for stream in STREAMS:
                try:
                    consumer = await streams.consumer_info(stream.name, WORKERS) if stream.work_queue else None
                    info = await streams.stream_info(stream.name)
                except (NotFoundError, ServerError):  # a stream with damaged files is offline
                    missing.append(stream.name)
                else:
                    if consumer is not None and consumer.delivered.stream_seq > info.state.last_seq:
                        missing.append(stream.name)
        return missing

    async def repair_streams(self) -> None:
        """As an administrator does: `equipoise setup`; it refuses a stream with damaged files until that is deleted."""
        try:
            await self.prepare_streams()
        except BusError as error:
            damaged = next(stream.name for stream in STREAMS if str(error).startswith(f"{stream.name}: "))
            async with self.jetstream() as streams:
                await streams.delete_stream(damaged)
            await self.repair_streams()

    async def queue_empty(self) -> None:
        """Until the queue contains no intent."""
        async with self.jetstream() as streams:

            async def empty() -> bool:
                info = await streams.stream_info(INTENT_STREAM.name)
                return bool(info.state.messages == 0)

            await self.until(empty, "the queue of intents is empty")

    async def connected(self) -> None:
        """Until the harness is connected."""
        await self.until(lambda: self.bus.connected, "the harness is connected")

    async def reconnected(self) -> None:
        """Until the harness is connected, and knows the outcomes that were published meanwhile."""
        await self.connected()
        await self.count_kept()

    async def waiting_intents(self) -> int:
        """Intents that no binder has received, or that a binder has not settled."""
        async with self.jetstream() as streams:
            info = await streams.consumer_info(INTENT_STREAM.name, WORKERS)
            return int(info.num_pending or 0) + int(info.num_ack_pending or 0)

    async def count_kept(self) -> None:
        """Counts the outcomes of each intent in the stream, and records those that the harness did not receive."""
        self.recorder.kept.clear()
        for outcome in await self._stored(OUTCOMES, "equipoise.eviction.outcome.>"):
            self.recorder.kept[outcome["intent_id"]] += 1
            self.recorder.record_missed(outcome["intent_id"], Outcome(outcome["outcome"]))

    async def _stored(self, stream: str, subject: str) -> list[dict[str, Any]]:
        """All messages of a subject that a stream can still deliver."""
        found: list[dict[str, Any]] = []
        async with self.jetstream() as streams:
            config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
            with suppress(NotFoundError, TimeoutError):
                messages = await streams.subscribe(subject, ordered_consumer=True, config=config)
                more = bool((await streams.stream_info(stream, subjects_filter=subject)).state.subjects)
                while more:
                    message = await messages.next_msg(timeout=10)
                    found.append(json.loads(message.data))
                    more = message.metadata.num_pending > 0
                await messages.unsubscribe()
        return found

    async def _stored_events(self) -> set[str]:
        """The ids of the events that any nats-server has.

        A server that started with damaged files may lead the stream without messages that the other servers have
        (`test_damaged_replica.py`): each of the three leads it in turn.
        """
        if not self._has_three_nats_servers:
            return {event["event_id"] for event in await self._stored("EQUIPOISE_DECISION", EVENTS)}
        found: set[str] = set()
        for server in SERVERS:
            await self.nats.lead("EQUIPOISE_DECISION", server)
            found |= {event["event_id"] for event in await self._stored("EQUIPOISE_DECISION", EVENTS)}
        return found

    async def _publish_events(self, name: str) -> None:
        """Until cancelled, publishes messages and records those that the stream acknowledged."""
        for number in itertools.count():
            event = Event(event_id=f"{name}.{number}")
            with suppress(BusError):
                await self.bus.publish(EVENTS, event, message_id=event.event_id)
                self.recorder.record_event(event.event_id)
            await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _three_nats_servers(self, name: str) -> AsyncIterator[None]:
        """Everything uses a NATS cluster with empty streams while entered."""
        before, single = self.bus, self.nats_url
        async with nats_servers(self.cluster.directory / name) as self.nats:
            self.nats_url = self.nats.url
            await self.prepare_streams()
            await self.nats.healthy()
            # A fault cuts off the leader of the queue, and must not cut off the harness.
            leader = self.nats_without_harness = await self.nats.leader(INTENT_STREAM.name)
            async with connect(Nats(url=self.nats.url_of(*others(leader))), "faults", clock=self.clock) as bus:
                await self.recorder.subscribe(bus)
                self.bus = self.collector.bus = bus
                try:
                    self._has_three_nats_servers = True
                    yield
                finally:
                    self._has_three_nats_servers = False
                    self.bus = self.collector.bus = before
                    self.nats_url = single

    @asynccontextmanager
    async def jetstream(self) -> AsyncIterator[Any]:
        """The API of JetStream."""
        client = await nats.connect(self.nats_url.split(","), max_reconnect_attempts=3)
        try:
            yield client.jetstream()
        finally:
            await client.close()

    # Processes

    async def _sample_processes(self) -> None:
        """Until cancelled."""
        while True:
            for program in list(self.programs.values()):
                program.sample()
            await asyncio.sleep(SAMPLE_PERIOD)

    async def converge(self, *, seconds: float = TIMEOUT) -> None:
        """Records how long it takes until the running services agree with the API server."""
        begin = self.clock.now()
        while True:
            different = await differences(self)
            now = self.clock.now()
            if not different or now > begin + seconds:
                break
            await asyncio.sleep(0.1)
        found = Convergence(at=begin, seconds=now - begin, different=tuple(different))
        self.recorder.convergences.append(found)

    def find(self, what: str) -> None:
        """Records that something is wrong; `Fault.also` reports it."""
        self.recorder.findings.append(Finding(at=self.clock.now(), what=what))

    def search_logs(self) -> None:
        """Records secrets that were written to logs since the last search."""
        logs = [program.log for program in self.programs.values()]
        self.recorder.leaks += self.logs.found(self.clock.now(), logs)

    # A run

    @asynccontextmanager
    async def running(self, seed: int, name: str, *, nats_servers: Literal[1, 3] = 1) -> AsyncIterator[None]:
        """Traffic while entered; on exit everything is repaired, settled and stopped."""
        async with AsyncExitStack() as stack:
            if nats_servers == 3:
                servers = self._three_nats_servers(f"{name}.{seed}.{int(self.clock.now())}")
                await stack.enter_async_context(servers)
            await stack.enter_async_context(background(self.collector.run(), self._sample_processes()))
            await stack.enter_async_context(self._running(seed, name))
            yield

    @asynccontextmanager
    async def _running(self, seed: int, name: str) -> AsyncIterator[None]:
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
        self.nats_urls.clear()
        self.sections.clear()
        publishing = self._publish_events(f"{name}.{seed}.{int(self.since)}")
        try:
            async with background(self.descheduler.run(), publishing):
                yield
        finally:
            self.proxy.clear()
            self.prometheus.clear()
        await self.reconnected()
        await self.all_settled()
        await self.converge()
        self.stop_programs("descheduler")
        await self.all_settled()  # also what it proposed meanwhile
        self.stop_programs()
        self.search_logs()
        await self.all_replicas_ready()
        await self.count_kept()
        self.recorder.stored_events(await self._stored_events())


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
                received=lambda request, sent: started.recorder.sent.update({request: sent or clock.now()}),
            )
        )
        started.prometheus = await stack.enter_async_context(FaultProxy(cluster.prometheus_url, cluster.free_port()))
        started.http = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)))
        started.api = await stack.enter_async_context(cluster.api())
        started.password_file.write_text(cluster_setup.CANARIES["the password for NATS"])
        await _populate(started)
        tokens = {f"the token of {user}": token.rpartition(".")[2] for user, token in started.tokens.items()}
        started.logs.secrets = {**cluster_setup.CANARIES, **tokens}
        connection = Kubernetes(kubeconfig=str(cluster.kubeconfig), namespace=cluster_setup.OWN)
        started.kube = await stack.enter_async_context(connect_kube(connection, "faults", clock, environment={}))
        await create_ledger(started.kube, cluster_setup.OWN, clock)
        await started.prepare_streams()
        started.bus = await stack.enter_async_context(connect(Nats(url=cluster.nats_url), "faults", clock=clock))
        await started.recorder.subscribe(started.bus)
        started.collector = FakeCollector(started.kube, started.bus, clock)
        yield started


async def _populate(started: Rig) -> None:
    cluster = started.cluster
    await cluster.add_nodes(cluster_setup.node_manifests())
    await started.api.apply([*cluster_setup.manifests(), *_accounts()])
    await cluster.wait(
        "/api/v1/pods",
        lambda pods: sum(map(is_ready, pods["items"])) >= cluster_setup.POD_COUNT,
        what=f"{cluster_setup.POD_COUNT} pods run",
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
            "subjects": [{"kind": "ServiceAccount", "namespace": cluster_setup.OWN, "name": user} for user in ACCOUNTS],
        },
    ]


def is_ready(item: Mapping[str, Any]) -> bool:
    """A node or a pod."""
    conditions = item["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
