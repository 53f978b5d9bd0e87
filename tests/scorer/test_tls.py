"""The extender over TLS: who is answered, and certificates that change while it runs."""

import asyncio
import json
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from scorer.extender_bodies import a_body
from scorer.running import Running, Start, settings_for

from equipoise.cli.certificates.issue import CertificatePair, client_pair, new_ca, server_pair
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.reload import PERIOD
from equipoise.scorer.settings import ExtenderTls, ScorerSettings
from equipoise.scorer.shell.tls import Certificates

TODAY = SystemClock().now()
"""OpenSSL reads the machine's own time: certificates must be valid today."""

HERE = [ip_address("127.0.0.1")]
TWO_LOOKS = 2 * PERIOD
"""Once to see a change, once to see that it is over."""


class Files:
    """The scorer's files, in a folder as kubelet lays out a Secret: links through a link that is swapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tls = ExtenderTls(
            certificate_file=str(folder / "tls.crt"),
            key_file=str(folder / "tls.key"),
            client_ca_file=str(folder / "ca.crt"),
        )
        self._generation = 0
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (folder / name).symlink_to(Path("..data") / name)

    def put(self, certificate: CertificatePair, key: CertificatePair, authority: CertificatePair) -> None:
        self.put_bytes(certificate.certificate_text, key.key_text, authority.certificate_text)

    def put_bytes(self, certificate: bytes, key: bytes, authority: bytes) -> None:
        self._generation += 1
        data = self.folder / f"..{self._generation}"
        data.mkdir()
        for name, content in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", authority)):
            (data / name).write_bytes(content)
        (self.folder / "..new").symlink_to(data.name)
        (self.folder / "..new").replace(self.folder / "..data")


class World:
    """An authority, the files of the scorer, and callers."""

    def __init__(self, folder: Path) -> None:
        (folder / "scorer").mkdir()
        self.folder = folder
        self.authority = new_ca(TODAY)
        self.files = Files(folder / "scorer")
        self.served = self.a_server()
        self.files.put(self.served, self.served, self.authority)

    @property
    def settings(self) -> ScorerSettings:
        return settings_for(tls=self.files.tls)

    def a_server(self, authority: CertificatePair | None = None) -> CertificatePair:
        return server_pair(authority or self.authority, [], HERE, 1, TODAY)

    def a_client(self, authority: CertificatePair | None = None) -> CertificatePair:
        return client_pair(authority or self.authority, 1, TODAY)

    def caller(self, own: CertificatePair | None = None, authority: CertificatePair | None = None) -> ssl.SSLContext:
        """Who trusts the authority, and shows `own`."""
        text = (authority or self.authority).certificate_text.decode()
        context = ssl.create_default_context(cadata=text)
        if own is not None:
            file = self.folder / "caller.pem"
            file.write_bytes(own.certificate_text + own.key_text)
            context.load_cert_chain(file)
        return context


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Connection:
    """One that stays open, as kube-scheduler's does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, running: Running, context: ssl.SSLContext) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", running.port, ssl=context))

    @property
    def serial_number(self) -> int:
        """Of the certificate that was shown."""
        return int(self._writer.get_extra_info("peercert")["serialNumber"], 16)

    async def asks(self) -> int:
        """The status."""
        body = json.dumps(a_body()).encode()
        head = f"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in answer.split(b"\r\n") if line.startswith(b"Content-Length:"))
        await self._reader.readexactly(length)
        return int(answer.split()[1])

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def served_to(running: Running, context: ssl.SSLContext) -> int:
    """Serial number of the certificate that a new caller sees, once it was answered."""
    connection = await Connection.open(running, context)
    assert await connection.asks() == 200
    await connection.close()
    return connection.serial_number


async def status(running: Running, context: ssl.SSLContext) -> int:
    url = f"https://127.0.0.1:{running.port}/prioritize"
    async with aiohttp.ClientSession() as session, session.post(url, json=a_body(), ssl=context) as response:
        return response.status


async def test_a_caller_with_a_certificate_of_the_authority_is_answered(start: Start, world: World) -> None:
    """As kube-scheduler is, with `caFile`, `certFile` and `keyFile`."""
    running = await start(world.settings)

    assert await status(running, world.caller(world.a_client())) == 200


STRANGERS: dict[str, Callable[[World], CertificatePair | None]] = {
    "no certificate": lambda world: None,
    "of another authority": lambda world: client_pair(new_ca(TODAY), 1, TODAY),
    "expired": lambda world: client_pair(world.authority, 1, TODAY - 2 * 86400),
    "not valid yet": lambda world: client_pair(world.authority, 1, TODAY + 86400),
    "of a server": lambda world: world.a_server(),
}


@pytest.mark.parametrize("own", STRANGERS.values(), ids=STRANGERS.keys())
async def test_other_callers_get_no_connection(
    start: Start, world: World, own: Callable[[World], CertificatePair | None]
) -> None:
    """Neither do they stop those who may ask."""
    running = await start(world.settings)

    with pytest.raises(aiohttp.ClientError):
        await status(running, world.caller(own(world)))

    assert await status(running, world.caller(world.a_client())) == 200


async def test_nobody_is_answered_in_plain_http_or_old_tls(start: Start, world: World) -> None:
    """TLS 1.3 only: Go's client has had it since 2019."""
    running = await start(world.settings)
    old = world.caller(world.a_client())
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    with pytest.raises(aiohttp.ClientError):
        await status(running, old)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{running.url}/prioritize", json=a_body())


async def test_without_an_authority_of_callers_anyone_is_answered(start: Start, world: World) -> None:
    """`clientCaFile: null`: the caller knows the scorer, not the other way round."""
    tls = ExtenderTls(certificate_file=world.files.tls.certificate_file, key_file=world.files.tls.key_file)
    running = await start(settings_for(tls=tls))

    assert await status(running, world.caller()) == 200


async def test_a_changed_certificate_is_taken_up_on_the_same_port(start: Start, world: World) -> None:
    """New callers see the new one; who is connected goes on without noticing."""
    running = await start(world.settings)
    port = running.port
    caller = world.caller(world.a_client())
    kept = await Connection.open(running, caller)
    assert await kept.asks() == 200
    assert await served_to(running, caller) == world.served.certificate.serial_number

    fresh = world.a_server()
    world.files.put(fresh, fresh, world.authority)
    await running.clock.advance(TWO_LOOKS)

    assert await served_to(running, caller) == fresh.certificate.serial_number
    assert await kept.asks() == 200
    assert (running.port, running.health.problems[:-1]) == (port, [])
    await kept.close()


async def test_an_authority_that_is_withdrawn_is_no_longer_trusted(start: Start, world: World) -> None:
    """With another authority in the file, certificates of the old one open nothing any more."""
    running = await start(world.settings)
    other = new_ca(TODAY)
    fresh = world.a_server(other)
    world.files.put(fresh, fresh, other)
    await running.clock.advance(TWO_LOOKS)

    assert await status(running, world.caller(world.a_client(other), other)) == 200
    with pytest.raises(aiohttp.ClientError):
        await status(running, world.caller(world.a_client(), other))


BROKEN: dict[str, Callable[[World], tuple[bytes, bytes, bytes]]] = {
    "garbage for a certificate": lambda world: (b"x", world.served.key_text, world.authority.certificate_text),
    "the key of another": lambda world: (
        world.a_server().certificate_text,
        world.a_server().key_text,
        world.authority.certificate_text,
    ),
    "a key with a password": lambda world: (
        world.served.certificate_text,
        world.served.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"open sesame"),
        ),
        world.authority.certificate_text,
    ),
    "no authority": lambda world: (world.served.certificate_text, world.served.key_text, b""),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
async def test_files_that_cannot_be_used_change_nothing(
    start: Start, world: World, content: Callable[[World], tuple[bytes, bytes, bytes]]
) -> None:
    """/readyz says which, the old pair is still served; with good files again that is over."""
    running = await start(world.settings)
    caller = world.caller(world.a_client())
    world.files.put_bytes(*content(world))
    await running.clock.advance(TWO_LOOKS)

    told = [text for text in running.health.problems if "certificates" in text]
    assert len(told) == 1
    assert str(world.files.folder) in told[0]
    assert await served_to(running, caller) == world.served.certificate.serial_number

    fresh = world.a_server()
    world.files.put(fresh, fresh, world.authority)
    await running.clock.advance(TWO_LOOKS)

    assert [text for text in running.health.problems if "certificates" in text] == []
    assert await served_to(running, caller) == fresh.certificate.serial_number


async def test_files_that_are_gone_change_nothing(start: Start, world: World) -> None:
    """A Secret that is deleted and made anew."""
    running = await start(world.settings)
    (world.files.folder / "..data").rename(world.files.folder / "aside")
    await running.clock.advance(TWO_LOOKS)

    assert any("tls.crt: No such file" in text for text in running.health.problems)
    caller = world.caller(world.a_client())
    assert await served_to(running, caller) == world.served.certificate.serial_number


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
async def test_a_scorer_does_not_start_with_files_that_cannot_be_used(
    world: World, content: Callable[[World], tuple[bytes, bytes, bytes]]
) -> None:
    """It names the setting and the file, and asks nobody for a password."""
    world.files.put_bytes(*content(world))

    with pytest.raises(ConfigurationError, match=r"scorer\.extender\.tls: .*/scorer/"):
        Certificates(world.files.tls)


async def test_callers_that_come_during_the_exchange_are_answered(start: Start, world: World) -> None:
    """By the old certificate or by the new one; none is refused."""
    running = await start(world.settings)
    caller = world.caller(world.a_client())
    asking = [asyncio.create_task(served_to(running, caller)) for _ in range(30)]
    fresh = world.a_server()
    world.files.put(fresh, fresh, world.authority)
    await running.clock.advance(TWO_LOOKS)
    asking += [asyncio.create_task(served_to(running, caller)) for _ in range(10)]

    old, new = world.served.certificate.serial_number, fresh.certificate.serial_number
    seen = await asyncio.gather(*asking)

    assert set(seen[:30]) <= {old, new}
    assert set(seen[30:]) == {new}


async def test_a_session_cannot_be_resumed(start: Start, world: World) -> None:
    """Else who was let in once could come again after its authority was withdrawn."""
    running = await start(world.settings)
    caller = world.caller(world.a_client())

    def resumable() -> bool:
        plain = socket.create_connection(("127.0.0.1", running.port))
        with caller.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(1)  # tickets come with the first answer
            session = connection.session
            return session is not None and session.has_ticket

    assert not await asyncio.to_thread(resumable)
