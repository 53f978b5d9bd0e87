"""Every port of every program: clients that send nothing, or slowly, or open many connections, delay nobody."""

import ast
import asyncio
import io
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import islice
from pathlib import Path

import aiohttp
import msgspec
import pytest
from cli.live_pages import ShownCluster, shown_page
from prometheus_client import CollectorRegistry
from scorer.shell.test_connections import scorer_process

from equipoise.agent.shell.health import AgentHealth, HealthServer
from equipoise.agent.shell.log import Log
from equipoise.agent.shell.metrics import Metrics
from equipoise.contracts.connection_limits import ConnectionLimits
from equipoise.runtime.process.health import Health, serving_health

ROOT = Path(__file__).parents[1]

QUICK = ConnectionLimits(request_seconds=0.5, response_seconds=0.5)

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serving = Callable[[ConnectionLimits], AbstractAsyncContextManager[str]]
"""Gives HOST:PORT."""


@asynccontextmanager
async def health_port(limits: ConnectionLimits) -> AsyncIterator[str]:
    """The port of the services and of `equipoise scheduler`."""
    metrics = CollectorRegistry()
    health = Health(configuration_hash="", metrics=metrics)
    async with serving_health("127.0.0.1:0", health, metrics, "1", limits) as address:
        yield address


@asynccontextmanager
async def agent_port(limits: ConnectionLimits) -> AsyncIterator[str]:
    metrics = Metrics()
    health = AgentHealth(Log(lambda: 0.0, stream=io.StringIO()), metrics, stalled_after=600, monotonic=lambda: 0.0)
    server = HealthServer("127.0.0.1:0", health, metrics, "1", limits=limits)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.close()


@asynccontextmanager
async def page_port(limits: ConnectionLimits) -> AsyncIterator[str]:
    wide = msgspec.structs.replace(limits, total=512, per_address=256)
    async with shown_page(ShownCluster(3, 1e9), limits=wide) as (url, _):
        yield url.removeprefix("http://").strip("/")


PORTS: dict[str, Serving] = {"health": health_port, "agent": agent_port, "page": page_port}

PORT_MODULES = {
    "libs/common/src/equipoise/runtime/http_server/connections.py": "health of services and scheduler, live page",
    "services/agent/src/equipoise/agent/shell/health.py": "health of the agent",
    "services/scorer/src/equipoise/scorer/shell/connections.py": "extender: tests/scorer/shell/test_connections.py",
    "libs/common/src/equipoise/runtime/kubernetes/port_forward.py": "a command, on 127.0.0.1",
}
"""The only modules of the product that listen."""


def test_every_port_is_in_the_table() -> None:
    """A new one needs limits, and an entry here."""
    listening = set()
    for folder in ("libs/common", "libs/cli", "libs/lab", "libs/scheduling", "services"):
        for file in (ROOT / folder).rglob("src/**/*.py"):
            calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
            names = {call.attr if isinstance(call, ast.Attribute) else ast.unparse(call) for call in calls}
            if names & {
                "create_server",
                "start_server",
                "TCPSite",
                "SockSite",
                "start_http_server",
                "HTTPServer",
            }:
                listening.add(str(file.relative_to(ROOT)))

    assert listening - {file for file in listening if "/testbed/" in file} == set(PORT_MODULES)


class Clients:
    """Connections to one port that are not what they should be."""

    def __init__(self, address: str) -> None:
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.url = f"http://{address}"
        self._tasks: list[asyncio.Task[None]] = []
        self._pipes: list[Pipe] = []

    async def connect(self, source: str = "127.0.0.1") -> Pipe:
        pipe = await asyncio.open_connection(self.host, self.port, local_addr=(source, 0))
        self._pipes.append(pipe)
        return pipe

    async def drip(self, source: str = "127.0.0.1") -> Pipe:
        """A request whose head never ends, a byte at a time."""
        pipe = await self.connect(source)

        async def write() -> None:
            with suppress(OSError):
                pipe[1].write(b"GET /healthz HTTP/1.1\r\nx: ")
                while True:
                    pipe[1].write(b"y")
                    await pipe[1].drain()
                    await asyncio.sleep(0.05)

        self._tasks.append(asyncio.create_task(write()))
        return pipe

    async def liveness(self) -> int:
        """A request on a new connection, as of the kubelet. It is repeated if this process sent it too late."""
        async with asyncio.timeout(60):
            while True:
                with suppress(aiohttp.ClientError):
                    async with aiohttp.ClientSession() as session, session.get(f"{self.url}/healthz") as response:
                        return response.status

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, writer in self._pipes:
            writer.transport.abort()


@asynccontextmanager
async def clients_of(name: str, limits: ConnectionLimits) -> AsyncIterator[Clients]:
    async with PORTS[name](limits) as address:
        clients = Clients(address)
        try:
            yield clients
        finally:
            await clients.end()


PATIENT = ConnectionLimits(request_seconds=600, response_seconds=600)
"""Only the number of connections is limited."""


async def end_of(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()


@pytest.mark.parametrize("name", PORTS)
@pytest.mark.parametrize("kind", ["idle", "dripping"])
async def test_liveness_is_served_beside_many_connections(name: str, kind: str) -> None:
    """Of one address, and of the address of the kubelet itself: what is above a limit is closed, and nothing waits."""
    async with clients_of(name, PATIENT) as clients:
        connect = clients.drip if kind == "dripping" else clients.connect
        pipes = [await connect(source) for source in ("127.0.0.1", "127.0.0.2", "127.0.0.3") for _ in range(40)]
        assert [await clients.liveness() for _ in range(5)] == [200] * 5
        if name != "page":
            async with asyncio.timeout(60):
                for at in range(3):
                    ends = [asyncio.ensure_future(end_of(reader)) for reader, _ in pipes[40 * at : 40 * at + 40]]
                    for end in islice(asyncio.as_completed(ends), 24):
                        await end
                    for end in ends:
                        end.cancel()


@pytest.mark.parametrize("name", PORTS)
async def test_a_request_that_does_not_end_is_closed(name: str) -> None:
    """However often it sends a byte; and a connection that sends nothing."""
    async with clients_of(name, QUICK) as clients:
        pipes = [await clients.drip(), await clients.connect()]
        async with asyncio.timeout(60):
            for reader, _ in pipes:
                await end_of(reader)
        assert await clients.liveness() == 200


@pytest.mark.parametrize("name", PORTS)
async def test_liveness_is_served_during_a_flood(name: str) -> None:
    """Hundreds of new connections in a second from the address of the kubelet."""
    async with clients_of(name, ConnectionLimits()) as clients:
        open_now: deque[asyncio.StreamWriter] = deque(maxlen=200)

        async def flood() -> None:
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(clients.host, clients.port)
                    writer.write(b"GET /")
                    if len(open_now) == 200:
                        open_now[0].transport.abort()
                    open_now.append(writer)

        tasks = [asyncio.create_task(flood()) for _ in range(4)]
        statuses = [await clients.liveness() for _ in range(5)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in open_now:
            writer.transport.abort()

    assert statuses == [200] * 5


@pytest.mark.parametrize("name", ["health", "page"])
async def test_a_used_connection_stays(name: str) -> None:
    """The deadline is that of a request: a scraper asks again after a while on the same connection."""
    async with clients_of(name, QUICK) as clients, asyncio.timeout(60):
        reader, writer = await clients.connect()
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            assert b" 200 " in head
            await asyncio.sleep(2 * QUICK.request_seconds)


async def test_the_extender_has_the_same_pool() -> None:
    """Idle clients are closed, and scores served: the other cases are in tests/scorer/shell/test_connections.py."""
    async with scorer_process() as scorer:
        await scorer.attack(["127.0.0.2"] * 100)
        assert await scorer.scored(3) == 3
