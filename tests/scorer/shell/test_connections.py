"""Clients that hold connections to the extender and send nothing, or very slowly, and the requests of kube-scheduler.

Attackers connect from other addresses of the loopback interface. The scorer may have 512 open files.
"""

import asyncio
import gc
import itertools
import json
import socket
import ssl
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from scorer.extender_bodies import a_body
from scorer.running import Start, settings_for

from equipoise.cli.certificates.issue import client_pair, new_ca, server_pair
from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import SystemClock
from equipoise.scorer.shell.connections import MAX_NEW_CONNECTIONS

OPEN_FILES = 512
IDLE = 600
SLOW = 200
BEFORE_ASYNCIO_ENDS_A_HANDSHAKE = 40
"""Seconds. asyncio ends a TLS handshake after 60 s by itself, which proves nothing about the scorer."""

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Scorer:
    """A scorer in its own process, and a client that is kube-scheduler."""

    def __init__(self, ports: dict[str, int], tls: ssl.SSLContext | None) -> None:
        self.port = ports["extender"]
        self._url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}/prioritize"
        self._healthz = f"http://127.0.0.1:{ports['health']}/healthz"
        self._tls = tls
        self._attackers: list[Pipe] = []

    async def scored(self, times: int) -> int:
        """How many of this many requests get scores, each on a new connection."""
        count = 0
        async with asyncio.timeout(60):
            for _ in range(times):
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(self._url, json=a_body(), ssl=self._tls or True) as response,
                ):
                    count += response.status == 200 and len(await response.json()) == 2
        return count

    async def healthy(self) -> bool:
        async with asyncio.timeout(60), aiohttp.ClientSession() as session, session.get(self._healthz) as response:
            return response.status == 200

    async def attack(self, addresses: list[str], *, send: bytes = b"") -> list[Pipe]:
        pipes = await asyncio.gather(*(self._connect(address) for address in addresses))
        for _, writer in pipes:
            writer.write(send)
        self._attackers += pipes
        return pipes

    async def _connect(self, address: str) -> Pipe:
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))

    def end_attack(self) -> None:
        for _, writer in self._attackers:
            writer.transport.abort()


@asynccontextmanager
async def scorer_process(client: ssl.SSLContext | None = None, **extender: Any) -> AsyncIterator[Scorer]:
    section = msgspec.json.encode(settings_for(**extender).extender)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scorer.extender_process", str(OPEN_FILES), section),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while not (line := await process.stdout.readline()).startswith(b"{"):  # log lines
            assert line
        ports = json.loads(line)
    scorer = Scorer(ports, client)
    try:
        yield scorer
    finally:
        scorer.end_attack()
        process.stdin.close()
        await process.wait()


async def closed_by_server(pipe: Pipe) -> None:
    with suppress(ConnectionError):
        await pipe[0].read()


async def test_600_idle_connections_delay_nothing() -> None:
    """kube-scheduler gets its scores, the probes their response, and the idle connections are closed."""
    async with scorer_process(handshake_timeout=1.0) as scorer:
        idle = await scorer.attack(["127.0.0.2"] * IDLE)

        assert await scorer.scored(50) == 50
        assert await scorer.healthy()
        async with asyncio.timeout(60):
            await asyncio.gather(*map(closed_by_server, idle))


async def test_200_connections_with_slow_bodies_delay_nothing() -> None:
    """Each sends the head of a request, then one byte of the body at a time."""
    async with scorer_process() as scorer:
        head = b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
        async with sending_slowly(await scorer.attack(["127.0.0.2"] * SLOW, send=head), b"{"):
            assert await scorer.scored(100) == 100
            assert await scorer.healthy()


async def test_slow_heads_end_at_the_deadline() -> None:
    """A client that sends one byte of the head at a time does not extend its deadline."""
    async with scorer_process(handshake_timeout=1.0) as scorer:
        slow = await scorer.attack(["127.0.0.2"] * 10, send=b"POST /prioritize HTTP/1.1\r\nX: ")
        async with sending_slowly(slow, b"x"), asyncio.timeout(60):
            await asyncio.gather(*map(closed_by_server, slow))


@asynccontextmanager
async def sending_slowly(pipes: list[Pipe], piece: bytes) -> AsyncIterator[None]:
    async def send() -> None:
        while True:
            for _, writer in pipes:
                if not writer.transport.is_closing():
                    writer.write(piece)
            await asyncio.sleep(0.05)

    sending = asyncio.create_task(send())
    yield
    sending.cancel()


class Authority:
    """A CA, the files of the scorer, and the certificate of kube-scheduler. OpenSSL reads the machine's own time."""

    def __init__(self, folder: Path) -> None:
        today = SystemClock().now()
        ca = new_ca(today)
        server = server_pair(ca, [], [ip_address("127.0.0.1")], 1, today)
        client = client_pair(ca, 1, today)
        for name, content in (
            ("tls.crt", server.certificate_text),
            ("tls.key", server.key_text),
            ("ca.crt", ca.certificate_text),
            ("client.crt", client.certificate_text),
            ("client.key", client.key_text),
        ):
            (folder / name).write_bytes(content)
        self.tls = ServerTls(
            certificate_file=str(folder / "tls.crt"),
            key_file=str(folder / "tls.key"),
            client_ca_file=str(folder / "ca.crt"),
        )
        self.kube_scheduler = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self.kube_scheduler.load_cert_chain(folder / "client.crt", folder / "client.key")


async def test_connections_without_a_certificate_take_no_place(tmp_path: Path) -> None:
    """They come from 100 addresses, and never begin the handshake; kube-scheduler's new connections are served.

    Their deadline is far away: only the small limit of new connections closes them.
    """
    authority = Authority(tmp_path)
    async with scorer_process(authority.kube_scheduler, tls=authority.tls, handshake_timeout=600.0) as scorer:
        addresses = [f"127.0.0.{number}" for number in range(2, 102)]
        idle = await scorer.attack(addresses * (IDLE // len(addresses)))

        assert await scorer.scored(20) == 20
        assert await scorer.healthy()
        closing = [asyncio.create_task(closed_by_server(pipe)) for pipe in idle]
        async with asyncio.timeout(BEFORE_ASYNCIO_ENDS_A_HANDSHAKE):
            for closed in itertools.islice(asyncio.as_completed(closing), IDLE - MAX_NEW_CONNECTIONS):
                await closed
        for task in closing:
            task.cancel()


async def test_a_connection_without_a_certificate_ends_at_the_deadline(tmp_path: Path) -> None:
    """As long as there is room for it."""
    authority = Authority(tmp_path)
    async with scorer_process(authority.kube_scheduler, tls=authority.tls, handshake_timeout=1.0) as scorer:
        idle = await scorer.attack(["127.0.0.2"] * 10)
        async with asyncio.timeout(BEFORE_ASYNCIO_ENDS_A_HANDSHAKE):
            await asyncio.gather(*map(closed_by_server, idle))


async def test_a_verified_connection_waits_longer_than_the_deadline(start: Start, tmp_path: Path) -> None:
    """kube-scheduler may open a connection and use it later; keepAliveTimeout applies."""
    authority = Authority(tmp_path)
    running = await start(settings_for(tls=authority.tls, handshake_timeout=0.2))
    async with (
        connection(running.port, ssl=authority.kube_scheduler) as verified,
        connection(running.port) as unverified,
        asyncio.timeout(60),
    ):
        await closed_by_server(unverified)  # the deadline of the other one has passed as well
        assert b" 200 " in await request(verified)


@asynccontextmanager
async def connection(port: int, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[Pipe]:
    reader, writer = await asyncio.open_connection(host, port, **options)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def request(pipe: Pipe) -> bytes:
    """The head of the response."""
    body = json.dumps(a_body()).encode()
    pipe[1].write(b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    head = await pipe[0].readuntil(b"\r\n\r\n")
    await pipe[0].readuntil(b"]")
    return head


async def test_the_connection_in_use_is_kept(start: Start) -> None:
    """Of one address above its limit, connections without a valid request are closed first, and counted."""
    running = await start(settings_for(max_connections_per_address=2))
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        used = await stack.enter_async_context(connection(running.port))
        assert b" 200 " in await request(used)
        for _ in range(5):
            reader, writer = await stack.enter_async_context(connection(running.port))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 404 " in await reader.readline()
            assert b" 200 " in await request(used)
    dropped = running.metrics.get_sample_value("equipoise_scorer_connections_dropped_total", {"reason": "limit"})
    assert dropped == 4


async def test_more_connections_than_open_files_are_a_configuration_error(start: Start) -> None:
    """That names the setting and the limit."""
    running = await start(settings_for(max_connections=10**9))

    assert running.task is not None
    error = running.task.exception()
    assert isinstance(error, ConfigurationError)
    assert "scorer.extender.maxConnections" in str(error)
    running.task = asyncio.create_task(asyncio.sleep(0))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "", "0.0.0.0", "[::1]"])
async def test_it_listens_at_the_configured_address(start: Start, host: str) -> None:
    """Without a host on every interface."""
    if "::" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    running = await start(msgspec.structs.replace(settings_for(allow_unauthenticated=True), listen=f"{host}:0"))
    async with connection(running.port, "::1" if "::" in host else "127.0.0.1") as pipe, asyncio.timeout(60):
        assert b" 200 " in await request(pipe)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "plain HTTP"])
async def test_connections_whose_handshake_failed_need_no_garbage_collection(
    start: Start, tmp_path: Path, sent: bytes
) -> None:
    """Each has 256 KiB, services rarely collect garbage, and clients may open any number of connections."""
    authority = Authority(tmp_path)
    running = await start(settings_for(tls=authority.tls, handshake_timeout=0.2))
    gc.collect()
    before = tls_connections()
    gc.disable()
    try:
        async with asyncio.timeout(60):
            for _ in range(5):
                async with connection(running.port) as pipe:
                    pipe[1].write(sent)
                    await closed_by_server(pipe)
        assert tls_connections() <= before
    finally:
        gc.enable()


def tls_connections() -> int:
    """In this process, including garbage."""
    return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())
