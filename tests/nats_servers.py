"""Three nats-servers that form a cluster; the connection between each two of them can be cut, also in one direction."""

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nats
import nats.errors
from bus_worlds import PATIENCE, free_port, server_process
from nats.aio.client import Client
from nats.js.api import ClusterInfo, StreamInfo

from equipoise.runtime.bus.dev_server import embedded_server

SERVERS = ("nats-0", "nats-1", "nats-2")
"""Names in JetStream, which reports the leader and the replicas of a stream by them."""

_CHUNK = 65_536
_POLL = 0.05


def others(name: str) -> tuple[str, ...]:
    return tuple(server for server in SERVERS if server != name)


class Network:
    """The routes between the servers: each goes through a proxy, which can hold the bytes of one direction.

    Held bytes are delivered later, as TCP does after a partition: connections are half open in the meantime.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], asyncio.Event] = {}
        self._proxies: list[asyncio.Server] = []

    async def proxy(self, source: str, target: str, port: int) -> int:
        """Starts the proxy by which `source` connects to the route port of `target`; its port."""

        async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()
                return
            pumps = [
                asyncio.ensure_future(self._pump(reader, far_writer, self._direction(source, target))),
                asyncio.ensure_future(self._pump(far_reader, writer, self._direction(target, source))),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                for each in (writer, far_writer):
                    each.close()

        server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
        self._proxies.append(server)
        return int(server.sockets[0].getsockname()[1])

    def cut(self, source: str, *targets: str) -> None:
        """No byte of `source` reaches these servers any more."""
        for target in targets:
            self._direction(source, target).clear()

    def isolate(self, server: str) -> None:
        """No byte passes between this server and the others."""
        self.cut(server, *others(server))
        for other in others(server):
            self.cut(other, server)

    def heal(self) -> None:
        for event in self._open.values():
            event.set()

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()

    def _direction(self, source: str, target: str) -> asyncio.Event:
        if (source, target) not in self._open:
            self._open[source, target] = asyncio.Event()
            self._open[source, target].set()
        return self._open[source, target]

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await passes.wait()
                writer.write(data)
                await writer.drain()


class NatsServers:
    """Made by `nats_servers`. `sync_interval: always`: a message is on disk before it is acknowledged."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.network = Network()
        self._ports = {name: free_port() for name in SERVERS}
        self._route_ports = {name: free_port() for name in SERVERS}
        self._monitoring_ports = {name: free_port() for name in SERVERS}
        self._routes: dict[str, list[int]] = {name: [] for name in SERVERS}
        self._running: dict[str, AsyncExitStack] = {}

    @property
    def url(self) -> str:
        return ",".join(self.url_of(name) for name in SERVERS)

    def url_of(self, *names: str) -> str:
        return ",".join(f"nats://127.0.0.1:{self._ports[name]}" for name in names)

    def name_of(self, url: str) -> str:
        """The server with this URL."""
        return next(name for name in SERVERS if self.url_of(name) == url)

    def directory(self, name: str) -> Path:
        """With the log, and the storage in `jetstream`."""
        return self._directory / name

    async def open(self) -> None:
        for source in SERVERS:
            for target in others(source):
                self._routes[source].append(await self.network.proxy(source, target, self._route_ports[target]))
        await self.start(*SERVERS)

    async def close(self) -> None:
        self.network.heal()
        for name in SERVERS:
            await self.kill(name)
        self.network.close()

    async def start(self, *names: str) -> None:
        """Until they listen; see `healthy`."""
        await asyncio.gather(*(self._start(name) for name in names))

    async def kill(self, *names: str) -> None:
        """SIGKILL at the same time, and wait for the ends."""
        running = [(name, self._running.pop(name)) for name in names if name in self._running]
        for name, _ in running:
            with suppress(ProcessLookupError):
                os.kill(server_process(self.directory(name)), signal.SIGKILL)
        for _, stack in running:
            await stack.aclose()

    async def stop(self, name: str) -> None:
        """SIGTERM, and wait for the end: the server writes a snapshot of each stream first."""
        await self._running.pop(name).aclose()

    async def healthy(self) -> None:
        """Until all three run, and every replica of every stream and consumer has everything."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if all([await asyncio.to_thread(self._is_healthy, name) for name in SERVERS]):
                    async with self.client() as client:
                        if await _replicated(client):
                            return
                await asyncio.sleep(_POLL)

    async def leader(self, stream: str) -> str:
        """The server that leads a stream now; waits for an election."""
        async with asyncio.timeout(PATIENCE), self.client() as client:
            while True:
                for info in await _streams(client):
                    if info.config.name == stream and info.cluster is not None and info.cluster.leader:
                        return str(info.cluster.leader)
                await asyncio.sleep(_POLL)

    async def lead(self, stream: str, name: str) -> None:
        """Until this server leads a stream."""
        request = json.dumps({"placement": {"preferred": name}}).encode()
        while await self.leader(stream) != name:
            async with self.client() as client:
                with suppress(nats.errors.Error, TimeoutError):
                    await client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", request, timeout=2)
            await asyncio.sleep(_POLL)

    @asynccontextmanager
    async def client(self, *names: str) -> AsyncIterator[Client]:
        """Of any server, or of one of these."""
        client = await nats.connect(self.url_of(*(names or SERVERS)).split(","), max_reconnect_attempts=3)
        try:
            yield client
        finally:
            await client.close()

    def log(self, name: str) -> str:
        file = self.directory(name) / "nats-server.log"
        return file.read_text(errors="replace") if file.exists() else ""

    async def _start(self, name: str) -> None:
        server = embedded_server(self.directory(name), port=self._ports[name], configuration=self._configuration(name))
        stack = AsyncExitStack()
        await stack.enter_async_context(server)
        self._running[name] = stack

    def _configuration(self, name: str) -> str:
        ports = [self._route_ports[name], *self._routes[name]]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        # Nothing listens on the advertised port: other servers connect through the proxies only.
        return f"""\
server_name: {name}
http: "127.0.0.1:{self._monitoring_ports[name]}"
jetstream {{ sync_interval: always }}
cluster {{
  name: equipoise
  listen: "127.0.0.1:{self._route_ports[name]}"
  advertise: "127.0.0.1:9"
  no_advertise: true
  ping_interval: "2s"
  routes: [{routes}]
}}
"""

    def _is_healthy(self, name: str) -> bool:
        try:
            url = f"http://127.0.0.1:{self._monitoring_ports[name]}/healthz"
            with urllib.request.urlopen(url, timeout=2) as response:
                report: dict[str, Any] = json.load(response)
        except OSError:
            return False
        return bool(report.get("status") == "ok")


async def _streams(client: Client) -> list[StreamInfo]:
    """Empty while JetStream has no leader."""
    try:
        return await client.jetstream(timeout=2).streams_info()
    except (nats.errors.Error, TimeoutError):
        return []


async def _replicated(client: Client) -> bool:
    """Whether all replicas of all streams and durable consumers are complete."""
    try:
        streams = await client.jetstream(timeout=2).streams_info()
        for info in streams:
            replicas = info.config.num_replicas or 1
            consumers = await client.jetstream(timeout=2).consumers_info(info.config.name or "")
            durable = [each.cluster for each in consumers if each.config.durable_name]
            if not all(_complete(cluster, replicas) for cluster in (info.cluster, *durable)):
                return False
    except (nats.errors.Error, TimeoutError):
        return False
    return bool(streams)


def _complete(cluster: ClusterInfo | None, replicas: int) -> bool:
    if cluster is None or not cluster.leader or len(cluster.replicas or ()) != replicas - 1:
        return False
    return all(each.current and not each.lag for each in cluster.replicas or ())


@asynccontextmanager
async def nats_servers(directory: Path) -> AsyncIterator[NatsServers]:
    """Three servers that listen; JetStream takes some seconds more to elect a leader."""
    servers = NatsServers(directory)
    try:
        await servers.open()
        yield servers
    finally:
        await servers.close()
