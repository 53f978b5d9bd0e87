"""The extender over TLS: which callers are accepted, and certificates that change while it runs."""

import asyncio
import json
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from scorer.extender_bodies import a_body
from scorer.running import Running, Start, settings_for

from equipoise.cli.certificates.issue import CertificatePair, client_pair, new_ca, server_pair
from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.http_server.server_certificates import Certificates, certificate_end
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.main import PERIOD
from equipoise.scorer.settings import ScorerSettings

TODAY = SystemClock().now()
"""OpenSSL reads the machine's own time: certificates must be valid today."""

HERE = [ip_address("127.0.0.1")]
CERTIFICATE_END = "equipoise_scorer_certificate_expiry_timestamp_seconds"
TWO_PERIODS = 2 * PERIOD
"""One to notice a change, one to notice that it is complete."""


class Files:
    """The scorer's files, as kubelet mounts a Secret: symbolic links through one link that is replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tls = ServerTls(
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
        """A caller that trusts the authority, with the certificate `own`."""
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
    """A connection that is kept open, as kube-scheduler does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, running: Running, context: ssl.SSLContext) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", running.port, ssl=context))

    @property
    def serial_number(self) -> int:
        """Of the server's certificate."""
        return int(self._writer.get_extra_info("peercert")["serialNumber"], 16)

    async def post(self) -> int:
        """The status."""
        body = json.dumps(a_body()).encode()
        request = f"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(request.encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
        await self._reader.readexactly(length)
        return int(head.split()[1])

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def served_to(running: Running, context: ssl.SSLContext) -> int:
    """Serial number of the certificate that a new caller gets, after a successful request."""
    connection = await Connection.open(running, context)
    assert await connection.post() == 200
    await connection.close()
    return connection.serial_number


async def status(running: Running, context: ssl.SSLContext) -> int:
    url = f"https://127.0.0.1:{running.port}/prioritize"
    async with aiohttp.ClientSession() as session, session.post(url, json=a_body(), ssl=context) as response:
        return response.status


async def test_a_caller_with_a_certificate_of_the_authority_is_accepted(start: Start, world: World) -> None:
    """As kube-scheduler, with `caFile`, `certFile` and `keyFile`."""
    running = await start(world.settings)

    assert await status(running, world.caller(world.a_client())) == 200


OTHER_CALLERS: dict[str, Callable[[World], CertificatePair | None]] = {
    "no certificate": lambda world: None,
    "of another authority": lambda world: client_pair(new_ca(TODAY), 1, TODAY),
    "expired": lambda world: client_pair(world.authority, 1, TODAY - 2 * 86400),
    "not valid yet": lambda world: client_pair(world.authority, 1, TODAY + 86400),
    "of a server": lambda world: world.a_server(),
}


@pytest.mark.parametrize("own", OTHER_CALLERS.values(), ids=OTHER_CALLERS.keys())
async def test_other_callers_get_no_connection(
    start: Start, world: World, own: Callable[[World], CertificatePair | None]
) -> None:
    """They do not disturb accepted callers."""
    running = await start(world.settings)

    with pytest.raises(aiohttp.ClientError):
        await status(running, world.caller(own(world)))

    assert await status(running, world.caller(world.a_client())) == 200


async def test_plain_http_and_old_tls_are_refused(start: Start, world: World) -> None:
    """TLS 1.3 only: Go's client has supported it since 2019."""
    running = await start(world.settings)
    old = world.caller(world.a_client())
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    with pytest.raises(aiohttp.ClientError):
        await status(running, old)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{running.url}/prioritize", json=a_body())


async def test_without_a_client_authority_any_caller_is_accepted(start: Start, world: World) -> None:
    """`clientCaFile: null`: only the caller verifies the scorer."""
    tls = ServerTls(certificate_file=world.files.tls.certificate_file, key_file=world.files.tls.key_file)
    running = await start(settings_for(tls=tls))

    assert await status(running, world.caller()) == 200


async def test_a_changed_certificate_is_loaded_without_a_restart(start: Start, world: World) -> None:
    """New connections get the new one; open connections continue."""
    running = await start(world.settings)
    port = running.port
    caller = world.caller(world.a_client())
    kept = await Connection.open(running, caller)
    assert await kept.post() == 200
    assert await served_to(running, caller) == world.served.certificate.serial_number

    fresh = world.a_server()
    world.files.put(fresh, fresh, world.authority)
    await running.clock.advance(TWO_PERIODS)

    assert await served_to(running, caller) == fresh.certificate.serial_number
    assert await kept.post() == 200
    assert (running.port, running.health.problems[:-1]) == (port, [])
    await kept.close()


async def test_a_removed_authority_is_no_longer_trusted(start: Start, world: World) -> None:
    """If the file has another authority, certificates of the old one are refused."""
    running = await start(world.settings)
    other = new_ca(TODAY)
    fresh = world.a_server(other)
    world.files.put(fresh, fresh, other)
    await running.clock.advance(TWO_PERIODS)

    assert await status(running, world.caller(world.a_client(other), other)) == 200
    with pytest.raises(aiohttp.ClientError):
        await status(running, world.caller(world.a_client(), other))


INVALID: dict[str, Callable[[World], tuple[bytes, bytes, bytes]]] = {
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


@pytest.mark.parametrize("content", INVALID.values(), ids=INVALID.keys())
async def test_invalid_files_change_nothing(
    start: Start, world: World, content: Callable[[World], tuple[bytes, bytes, bytes]]
) -> None:
    """A problem names the file, and the old pair is used until the files are valid again."""
    running = await start(world.settings)
    caller = world.caller(world.a_client())
    world.files.put_bytes(*content(world))
    await running.clock.advance(TWO_PERIODS)

    problems = [text for text in running.health.problems if "certificates" in text]
    assert len(problems) == 1
    assert str(world.files.folder) in problems[0]
    assert await served_to(running, caller) == world.served.certificate.serial_number

    fresh = world.a_server()
    world.files.put(fresh, fresh, world.authority)
    await running.clock.advance(TWO_PERIODS)

    assert [text for text in running.health.problems if "certificates" in text] == []
    assert await served_to(running, caller) == fresh.certificate.serial_number


async def test_missing_files_change_nothing(start: Start, world: World) -> None:
    """Of a Secret that is deleted and created again."""
    running = await start(world.settings)
    (world.files.folder / "..data").rename(world.files.folder / "aside")
    await running.clock.advance(TWO_PERIODS)

    assert any("tls.crt: No such file" in text for text in running.health.problems)
    caller = world.caller(world.a_client())
    assert await served_to(running, caller) == world.served.certificate.serial_number


@pytest.mark.parametrize("content", INVALID.values(), ids=INVALID.keys())
async def test_a_scorer_does_not_start_with_invalid_files(
    world: World, content: Callable[[World], tuple[bytes, bytes, bytes]]
) -> None:
    """The error names the setting and the file; nobody is prompted for a password."""
    world.files.put_bytes(*content(world))

    with pytest.raises(ConfigurationError, match=r"scorer\.extender\.tls: .*/scorer/"):
        Certificates(world.files.tls, "scorer.extender.tls")


async def test_callers_are_accepted_during_a_reload(start: Start, world: World) -> None:
    """With the old certificate or the new one."""
    running = await start(world.settings)
    caller = world.caller(world.a_client())
    requests = [asyncio.create_task(served_to(running, caller)) for _ in range(30)]
    fresh = world.a_server()
    world.files.put(fresh, fresh, world.authority)
    await running.clock.advance(TWO_PERIODS)
    requests += [asyncio.create_task(served_to(running, caller)) for _ in range(10)]

    old, new = world.served.certificate.serial_number, fresh.certificate.serial_number
    seen = await asyncio.gather(*requests)

    assert set(seen[:30]) <= {old, new}
    assert set(seen[30:]) == {new}


async def test_a_session_cannot_be_resumed(start: Start, world: World) -> None:
    """Otherwise a caller would be accepted after its authority was removed."""
    running = await start(world.settings)
    caller = world.caller(world.a_client())

    def resumable() -> bool:
        plain = socket.create_connection(("127.0.0.1", running.port))
        with caller.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(1)  # tickets are sent with the first response
            session = connection.session
            return session is not None and session.has_ticket

    assert not await asyncio.to_thread(resumable)


@pytest.mark.parametrize("days", [1, 365, 365 * 40])
def test_the_end_of_a_certificate_is_read_from_its_file(days: int) -> None:
    """From 2050 on, its time has four digits of the year. Text before the certificate does not matter."""
    pair = server_pair(new_ca(TODAY), ["scorer.example"], HERE, days, TODAY)

    end = certificate_end("subject=scorer\n" + pair.certificate_text.decode())

    assert end == end_of(pair)


def der(tag: int, *parts: bytes) -> bytes:
    """An element; of these certificates each is shorter than 64 KiB."""
    content = b"".join(parts)
    size = len(content)
    return bytes([tag, *([size] if size < 0x80 else [0x82, *size.to_bytes(2)])]) + content


@pytest.mark.parametrize(
    ("year", "expected"), [("260102030405Z", 2026), ("490102030405Z", 2049), ("990102030405Z", 1999)]
)
def test_certificates_of_version_1_have_no_version(year: str, expected: int) -> None:
    """Their serial number is the first field. Two digits of a year are from 1950 to 2049."""
    validity = der(0x30, der(0x17, b"200102030405Z"), der(0x17, year.encode()))
    body = der(0x30, der(0x02, b"\1"), der(0x30, b"\0" * 200), der(0x30), validity, der(0x30))
    pem = ssl.DER_cert_to_PEM_cert(der(0x30, body, der(0x30), der(0x03, b"\0")))

    assert datetime.fromtimestamp(certificate_end(pem), UTC) == datetime(expected, 1, 2, 3, 4, 5, tzinfo=UTC)


async def test_the_end_of_the_certificate_is_exported(start: Start, world: World) -> None:
    """And that of the next one, when its files are loaded."""
    running = await start(world.settings)
    assert running.metrics.get_sample_value(CERTIFICATE_END) == end_of(world.served)
    fresh = server_pair(world.authority, [], HERE, 2, TODAY)
    world.files.put(fresh, fresh, world.authority)
    await running.clock.advance(TWO_PERIODS)

    assert running.metrics.get_sample_value(CERTIFICATE_END) == end_of(fresh)


def end_of(pair: CertificatePair) -> float:
    return pair.certificate.not_valid_after_utc.timestamp()
