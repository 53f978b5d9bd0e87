"""A command that servers refuse for good ends; one that is refused during a rotation goes on, and so does a service."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from bus_worlds import PATIENCE, NatsWorld, free_port
from cli.programs import run
from tls_worlds import DAY, NOW, TlsWorld

from equipoise.cli.certificates.issue import new_ca
from equipoise.runtime.async_tools.name_resolution import Resolve
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.bus.nats.refusals import Refusals, is_refusal
from equipoise.runtime.configuration import Nats, Tls
from equipoise.runtime.process.clock import SystemClock

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


def users(password: str) -> str:
    return f'authorization {{ user: tap, password: "{password}" }}'


class PasswordWorld(TlsWorld):
    """A nats-server without TLS, which accepts a password of the user tap."""

    def __init__(self, directory: Path, password: str) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(directory)
        self.configuration = users(password)
        self.file = directory / "password"
        self.file.write_text(password)

    @property
    def settings(self) -> Nats:
        return Nats(url=f"nats://127.0.0.1:{self.port}", user="tap", password_file=str(self.file))


async def attempt(
    settings: Nats,
    *,
    ends: bool = True,
    on_failure: Callable[[int], Awaitable[None]] | None = None,
    resolve: Resolve[Any] | None = None,
) -> None:
    """Open a connection and close it. `on_failure`: called with the number of each failure, before the next attempt."""
    errors = BusErrors(SystemClock())
    link = NatsConnection(settings, "tap", errors, reconnect_pause=0.1, resolve=resolve, ends_when_refused=ends)
    failures, on_error = 0, link._on_error

    async def counted(error: Exception) -> None:
        nonlocal failures
        failures += 1
        await on_error(error)
        if on_failure is not None:
            await on_failure(failures)

    link._on_error = counted  # type: ignore[method-assign]
    try:
        async with asyncio.timeout(PATIENCE):
            await link.open()
    finally:
        await link.close()


def another_ca(world: TlsWorld) -> Nats:
    world.ca_file.write_bytes(new_ca(NOW).certificate_text)
    return world.settings


def an_expired_certificate(world: TlsWorld) -> Nats:
    world.serve(now=NOW - 2 * DAY)
    return world.settings


def another_name(world: TlsWorld) -> Nats:
    world.serve(now=NOW, names=["nats.equipoise-system.svc"])
    return Nats(url=f"tls://localhost:{world.port}", tls=Tls(ca_file=str(world.ca_file)))


def no_certificate_of_the_client(world: TlsWorld) -> Nats:
    world.configuration = world.configuration.replace(" }", f', ca_file: "{world.ca_file}", verify: true }}')
    return world.settings


def no_tls(world: TlsWorld) -> Nats:
    world.configuration = ""
    return world.settings


def no_password(world: TlsWorld) -> Nats:
    world.configuration += f"\n{users('secret')}"
    return world.settings


def another_password(world: TlsWorld) -> Nats:
    world.configuration = users("secret")
    file = world.ca_file.with_name("password")
    file.write_text("guessed")
    return Nats(url=f"nats://127.0.0.1:{world.port}", user="tap", password_file=str(file))


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (another_ca, "the certificate of the server is rejected: unable to get local issuer"),
        (an_expired_certificate, "certificate has expired"),
        (another_name, "Hostname mismatch"),
        (no_certificate_of_the_client, "certificate required"),
        (no_tls, "the server does not offer TLS"),
        (no_password, "'Authorization Violation'"),
        (another_password, "'Authorization Violation'"),
    ],
)
async def test_a_command_that_is_refused_for_good_ends(
    tmp_path: Path, refused: Callable[[TlsWorld], Nats], reason: str
) -> None:
    """Without a limit of time, and with what to check."""
    world = TlsWorld(tmp_path)
    settings = refused(world)
    await world.start()
    try:
        with pytest.raises(BusUnavailable, match=reason) as raised:
            await attempt(settings)
    finally:
        await world.stop()
    assert settings.url in str(raised.value)
    assert "check --user, --password-file and --nats-ca" in str(raised.value)


@pytest.mark.parametrize("first", ["server", "client"])
async def test_a_command_is_connected_when_a_password_is_rotated_meanwhile(tmp_path: Path, first: str) -> None:
    """Whichever side has the new one first: the file of the command is read at each attempt."""
    world = PasswordWorld(tmp_path, "new")
    if first == "server":
        world.file.write_text("old")
    else:
        world.configuration = users("old")
    await world.start()

    async def rotate(failures: int) -> None:
        world.file.write_text("new")
        if first == "client" and failures == 1:
            configuration = world.directory / "nats-server.conf"
            configuration.write_text(configuration.read_text().replace('"old"', '"new"'))
            await world.reload()

    try:
        await attempt(world.settings, on_failure=rotate)
    finally:
        await world.stop()


@pytest.mark.parametrize("first", ["server", "client"])
async def test_a_command_is_connected_when_a_ca_is_replaced_meanwhile(tmp_path: Path, first: str) -> None:
    """By another one, on both sides."""
    world, other = TlsWorld(tmp_path), new_ca(NOW)
    if first == "server":
        world.serve(now=NOW, ca=other)
    else:
        world.ca_file.write_bytes(other.certificate_text)
    await world.start()

    async def replace(failures: int) -> None:
        world.ca_file.write_bytes(other.certificate_text)
        if first == "client" and failures == 1:
            world.serve(now=NOW, ca=other)
            await world.reload()

    try:
        await attempt(world.settings, on_failure=replace)
    finally:
        await world.stop()


async def test_a_command_is_connected_if_one_server_accepts_it(tmp_path: Path) -> None:
    """Servers of a cluster get a new password one after the other."""
    accepting, other = PasswordWorld(tmp_path / "accepting", "new"), NatsWorld(tmp_path / "other", users("old"))
    await asyncio.gather(accepting.start(), other.start())
    try:
        urls = ",".join([other.settings.url] * 5 + [accepting.settings.url])
        await attempt(Nats(url=urls, user="tap", password_file=str(accepting.file)))
    finally:
        await asyncio.gather(accepting.stop(), other.stop())


@asynccontextmanager
async def forwarded(address: str, port: int, target: int) -> AsyncIterator[None]:
    """Connections to this address reach a server on another port of 127.0.0.1."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))

    async with await asyncio.start_server(accept, address, port):
        yield


def resolved_to(*addresses: str) -> Resolve[Any]:
    async def resolve(host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return resolve


async def test_a_command_tries_every_server_behind_one_name(tmp_path: Path) -> None:
    """Also if the DNS always names the same one first: only the last of three has the new password yet."""
    accepting, other = PasswordWorld(tmp_path / "accepting", "new"), NatsWorld(tmp_path / "other", users("old"))
    await asyncio.gather(accepting.start(), other.start())
    settings = Nats(url=f"nats://nats.test:{other.port}", user="tap", password_file=str(accepting.file))
    resolve = resolved_to("127.0.0.1", "127.0.0.2", "127.0.0.3")
    try:
        async with (
            forwarded("127.0.0.2", other.port, other.port),
            forwarded("127.0.0.3", other.port, accepting.port),
        ):
            await attempt(settings, resolve=resolve)
    finally:
        await asyncio.gather(accepting.stop(), other.stop())


async def test_a_command_ends_when_every_server_behind_a_name_refuses_it(tmp_path: Path) -> None:
    """An address at which nothing listens is none of them."""
    other = NatsWorld(tmp_path, users("old"))
    await other.start()
    resolve = resolved_to("127.0.0.3", "127.0.0.1", "127.0.0.2")
    try:
        async with forwarded("127.0.0.2", other.port, other.port):
            with pytest.raises(BusUnavailable, match="Authorization Violation"):
                await attempt(Nats(url=f"nats://nats.test:{other.port}"), resolve=resolve)
    finally:
        await other.stop()


async def test_a_command_waits_for_a_server_that_does_not_run_yet(tmp_path: Path) -> None:
    """The others refuse it, but this one may have restarted with the new password."""
    accepting, other = PasswordWorld(tmp_path / "accepting", "new"), NatsWorld(tmp_path / "other", users("old"))
    await other.start()

    async def start(failures: int) -> None:
        if failures == 6:
            await accepting.start()

    try:
        urls = f"{other.settings.url},{accepting.settings.url}"
        await attempt(Nats(url=urls, user="tap", password_file=str(accepting.file)), on_failure=start)
    finally:
        await asyncio.gather(accepting.stop(), other.stop())


async def test_a_service_goes_on_when_it_is_refused(tmp_path: Path) -> None:
    """Its password may be rotated an hour later."""
    world = PasswordWorld(tmp_path, "new")
    world.file.write_text("old")
    await world.start()

    async def rotate(failures: int) -> None:
        if failures == 6:
            world.file.write_text("new")

    try:
        await attempt(world.settings, ends=False, on_failure=rotate)
    finally:
        await world.stop()


async def test_a_server_that_is_not_there_is_no_refusal() -> None:
    """A command waits for it as long as it can."""
    enough = asyncio.Event()

    async def count(failures: int) -> None:
        if failures == 5:
            enough.set()

    trying = asyncio.create_task(attempt(Nats(url=f"nats://127.0.0.1:{free_port()}"), on_failure=count))
    try:
        async with asyncio.timeout(PATIENCE):
            await enough.wait()
        assert not trying.done()
    finally:
        trying.cancel()
        await asyncio.wait([trying])


async def test_a_service_goes_on_when_its_certificate_is_rejected(tmp_path: Path) -> None:
    """The server closes the connection after the handshake, in which nothing was wrong."""
    world = TlsWorld(tmp_path)
    settings = no_certificate_of_the_client(world)
    await world.start()

    async def permit(failures: int) -> None:
        if failures == 6:
            configuration = world.directory / "nats-server.conf"
            configuration.write_text(configuration.read_text().replace("verify: true", "verify: false"))
            await world.reload()

    try:
        await attempt(settings, ends=False, on_failure=permit)
    finally:
        await world.stop()


async def test_a_tap_with_a_wrong_password_ends(tmp_path: Path) -> None:
    """It would wait for messages without end."""
    world = PasswordWorld(tmp_path, "new")
    world.file.write_text("old")
    await world.start()
    try:
        access = ("--nats", world.settings.url, "--user", "tap", "--password-file", str(world.file))
        code, output = await run("tap", *access)
    finally:
        await world.stop()
    assert code == 1
    assert "refuses the connection" in output, output


def tls_alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (nats.errors.Error("nats: 'Authorization Violation'"), True),
        (nats.errors.Error("nats: the server does not offer TLS"), True),
        (tls_alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), True),
        (tls_alert("TLSV1_ALERT_UNKNOWN_CA"), True),
        (tls_alert("SSLV3_ALERT_BAD_CERTIFICATE"), True),
        (nats.errors.Error("nats: 'Authentication Timeout'"), False),
        (nats.errors.Error("nats: 'maximum connections exceeded'"), False),
        (nats.errors.Error("nats: empty response from server when expecting INFO message"), False),
        (tls_alert("TLSV1_ALERT_INTERNAL_ERROR"), False),
        (tls_alert("UNEXPECTED_EOF_WHILE_READING"), False),
        (ConnectionResetError(104, "Connection reset by peer"), False),
        (TimeoutError(), False),
    ],
)
def test_only_an_answer_that_stays_the_same_is_a_refusal(error: Exception, refusal: bool) -> None:
    """A server that is busy, starting or ending may accept the client a moment later."""
    assert is_refusal(error) is refusal


def test_a_refusal_counts_for_a_server_with_and_without_its_port() -> None:
    """The client adds the default port to an address."""
    refusals, error = Refusals(Nats(url="tls://nats")), nats.errors.Error("nats: 'Authorization Violation'")
    refusals.add("tls://nats:4222", error)
    with pytest.raises(BusUnavailable):
        refusals.add("tls://nats:4222", error)


def test_each_address_of_a_name_may_be_another_server() -> None:
    refusals, error = Refusals(Nats(url="tls://nats")), nats.errors.Error("nats: 'Authorization Violation'")
    for _ in range(5):
        refusals.add("tls://nats:4222", error, addresses=3)
    with pytest.raises(BusUnavailable):
        refusals.add("tls://nats:4222", error, addresses=3)
