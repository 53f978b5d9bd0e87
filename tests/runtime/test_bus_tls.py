"""The bus over TLS."""

import os
import shutil
from pathlib import Path

from bus_worlds import NatsWorld, eventually

from equipoise.runtime.bus.nats_bus import open_bus
from equipoise.runtime.configuration import Nats
from equipoise.runtime.configuration.sections import Tls
from equipoise.runtime.process.clock import SystemClock

FILES = Path(__file__).parents[1] / "data" / "tls"


async def test_a_connection_survives_certificates_that_are_half_renewed(tmp_path: Path) -> None:
    """A file that is away when the connection is lost must not end the attempts to come back."""
    world = NatsWorld(
        tmp_path / "nats", f'tls {{ cert_file: "{FILES / "server.pem"}", key_file: "{FILES / "server-key.pem"}" }}'
    )
    authority = Path(shutil.copy(FILES / "ca.pem", tmp_path))
    settings = Nats(url=world.settings.url.replace("nats://", "tls://"), tls=Tls(ca_file=str(authority)))
    await world.start()
    try:
        async with open_bus(settings, "scorer", SystemClock(), None, reconnect_pause=0.1) as bus:
            os.remove(authority)
            await world.stop()
            await eventually(lambda: not bus.connected)
            await world.start()
            await eventually(lambda: bus.connected)
    finally:
        await world.stop()
