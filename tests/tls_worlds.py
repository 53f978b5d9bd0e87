"""A nats-server with TLS, whose certificates are replaced while it runs."""

import os
import signal
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from bus_worlds import NatsWorld, eventually

from equipoise.cli.certificates.issue import CertificatePair, new_ca, server_pair
from equipoise.runtime.configuration import Nats, Tls
from equipoise.runtime.process.clock import SystemClock

NOW = SystemClock().now()
DAY = 86_400


class TlsWorld(NatsWorld):
    """A nats-server with a certificate of a CA, both of which can be replaced while it runs, and a client's files."""

    def __init__(self, directory: Path) -> None:
        self._certificate, self._key = directory / "server.crt", directory / "server.key"
        configuration = f'tls {{ cert_file: "{self._certificate}", key_file: "{self._key}", min_version: "1.3" }}'
        super().__init__(directory / "nats", configuration)
        self.ca_file = directory / "ca.crt"
        self.ca = new_ca(NOW - 100 * DAY)
        self.ca_file.write_bytes(self.ca.certificate_text)
        self.serve(now=NOW)

    @property
    def settings(self) -> Nats:
        return Nats(url=f"tls://127.0.0.1:{self.port}", tls=Tls(ca_file=str(self.ca_file)))

    def serve(self, *, now: float, ca: CertificatePair | None = None, names: Sequence[str] = ("localhost",)) -> None:
        """Write a certificate for these names that is valid for a day from `now`."""
        pair = server_pair(ca or self.ca, list(names), [ip_address("127.0.0.1")], 1, now)
        self._certificate.write_bytes(pair.certificate_text)
        self._key.write_bytes(pair.key_text)

    async def reload(self) -> None:
        """As `kill -HUP` does: the server reads its certificate again, for new connections."""
        log = self.directory / "nats-server.log"
        before = log.read_text().count("Reloaded server configuration")
        [ports] = self.directory.glob("nats-server_*.ports")
        os.kill(int(ports.stem.rpartition("_")[2]), signal.SIGHUP)
        await eventually(lambda: log.read_text().count("Reloaded server configuration") > before)
