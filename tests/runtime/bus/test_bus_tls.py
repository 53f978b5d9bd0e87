"""The bus over TLS: a connection never continues without it, and takes up renewed certificates while it runs."""

import asyncio
import json
from pathlib import Path

import pytest
from bus_worlds import PATIENCE, eventually
from prometheus_client import CollectorRegistry
from tls_worlds import DAY, NOW, TlsWorld

from equipoise.cli.certificates.issue import new_ca
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.connection import connected_within
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.bus.nats.tls import client_context
from equipoise.runtime.configuration import Nats, Tls
from equipoise.runtime.process.clock import SystemClock

CERTIFICATE_END = "equipoise_bus_certificate_expiry_timestamp_seconds"


async def test_a_connection_survives_certificates_that_are_half_renewed(tmp_path: Path) -> None:
    """A file that is away when the connection is lost must not end the attempts to come back."""
    world = TlsWorld(tmp_path)
    await world.start()
    try:
        async with open_bus(world.settings, "scorer", SystemClock(), None, reconnect_pause=0.1) as bus:
            world.ca_file.unlink()
            await world.stop()
            await eventually(lambda: not bus.connected)
            await world.start()
            await eventually(lambda: bus.connected)
    finally:
        await world.stop()


async def test_an_expired_certificate_is_named_and_its_renewal_is_taken_up(tmp_path: Path) -> None:
    """With another CA, and the server's side first: two attempts after both are renewed, the bus is connected."""
    world = TlsWorld(tmp_path)
    await world.start()
    errors = BusErrors(SystemClock())
    try:
        async with open_bus(world.settings, "scorer", SystemClock(), None, errors=errors, reconnect_pause=0.1) as bus:
            world.serve(now=NOW - 2 * DAY)
            await world.stop()
            await world.start()
            await eventually(lambda: any("certificate has expired" in text for text in bus.problems))
            assert not bus.connected
            assert [text for text in bus.problems if world.settings.url in text] == list(bus.problems)

            other = new_ca(NOW)
            world.serve(now=NOW, ca=other)
            await world.reload()
            await eventually(lambda: any("unable to get local issuer" in text for text in bus.problems))

            world.ca_file.write_bytes(other.certificate_text)
            failures = errors.total("connection")
            await eventually(lambda: bus.connected)
            assert errors.total("connection") - failures <= 2
            assert bus.problems == []
    finally:
        await world.stop()


async def test_the_end_of_a_connection_is_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """asyncio warned at each, because nats-py does not complete the change to TLS: reading was not limited either."""
    world = TlsWorld(tmp_path)
    await world.start()
    async with open_bus(world.settings, "scorer", SystemClock(), None, reconnect_pause=0.1) as bus:
        await world.stop()
        await eventually(lambda: not bus.connected)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


async def test_a_renewal_closes_no_connection(tmp_path: Path) -> None:
    """With the same CA: the server reads its new certificate for the next connections."""
    world = TlsWorld(tmp_path)
    await world.start()
    metrics, clock = CollectorRegistry(), SystemClock()
    errors = BusErrors(clock, metrics)
    try:
        async with open_bus(world.settings, "scorer", clock, None, errors=errors, reconnect_pause=0.1) as bus:
            assert metrics.get_sample_value(CERTIFICATE_END) == pytest.approx(NOW + DAY, abs=1)
            world.serve(now=NOW + 60)
            await world.reload()
            async with connected_within(PATIENCE, world.settings, "tap", clock) as other:
                end = other.client.certificate_end
            assert bus.connected
            assert errors.total("connection") == 0
    finally:
        await world.stop()
    assert end == pytest.approx(NOW + 60 + DAY, abs=1)


async def test_a_service_that_starts_names_a_rejected_certificate(tmp_path: Path) -> None:
    """It waits: the certificate may be renewed. Until the bus is open, only `errors` has the reason."""
    world = TlsWorld(tmp_path)
    world.serve(now=NOW - 2 * DAY)
    await world.start()
    errors = BusErrors(SystemClock())

    async def use() -> None:
        async with open_bus(world.settings, "scorer", SystemClock(), None, errors=errors, reconnect_pause=0.1):
            pass

    try:
        opening = asyncio.create_task(use())
        await eventually(lambda: any("certificate has expired" in text for text in errors.problems))
        world.serve(now=NOW)
        await world.reload()
        async with asyncio.timeout(PATIENCE):
            await opening
    finally:
        await world.stop()


async def test_a_removed_ca_is_no_longer_trusted(tmp_path: Path) -> None:
    """After the next loss of the connection. The CAs of the system are not trusted beside the given one."""
    world = TlsWorld(tmp_path)
    await world.start()
    try:
        async with open_bus(world.settings, "scorer", SystemClock(), None, reconnect_pause=0.1) as bus:
            world.ca_file.write_bytes(new_ca(NOW).certificate_text)
            await world.stop()
            await world.start()
            await eventually(lambda: any("certificate of the server is rejected" in text for text in bus.problems))
    finally:
        await world.stop()
    assert len(client_context(Tls(ca_file=str(world.ca_file))).get_ca_certs()) == 1


@pytest.mark.parametrize(("scheme", "ca"), [("tls", False), ("tls", True), ("nats", True)])
async def test_nothing_is_sent_to_a_server_without_tls(tmp_path: Path, scheme: str, ca: bool) -> None:
    """It may be somebody in between who has removed TLS from the first line of the server."""
    received = bytearray()
    line = {"server_id": "x", "version": "2.15.1", "proto": 1, "auth_required": True, "max_payload": 1_048_576}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"INFO {json.dumps(line)}\r\n".encode())
        received.extend(await reader.read(1000))
        writer.close()

    world = TlsWorld(tmp_path)
    (tmp_path / "password").write_text("secret")
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        settings = Nats(
            url=f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            user="scorer",
            password_file=str(tmp_path / "password"),
            tls=Tls(ca_file=str(world.ca_file)) if ca else None,
        )
        with pytest.raises(BusUnavailable, match="the server does not offer TLS"):
            async with connected_within(0.5, settings, "scorer", SystemClock()):
                pass
    assert received == b""


async def test_a_missing_ca_file_is_named(tmp_path: Path) -> None:
    """A service ends and is started again; a command ends."""
    settings = Nats(url="tls://127.0.0.1:1", tls=Tls(ca_file=str(tmp_path / "absent.crt")))
    with pytest.raises(BusUnavailable, match=r"absent\.crt"):
        async with connected_within(5, settings, "scorer", SystemClock()):
            pass
