"""Whether a client can still be accepted by servers that have refused it."""

import ssl
from collections import Counter
from urllib.parse import urlsplit

from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.failure_reason import failure_reason

CLIENT_PORT = 4222
"""The port of an address that names none."""

_ATTEMPTS = 2
"""Refusals by every server after which a command gives up. One is not enough: servers and clients do not get a new
password or certificate at the same time, and servers of a cluster restart one by one.
"""

_ERRORS = ("authorization violation", "the server does not offer tls")
"""Texts of nats-server and of our client. `Authentication Timeout` is not among them: a busy server sends it."""

_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "PROTOCOL_VERSION")
"""Parts of the names of TLS alerts with which a server refuses a client or its certificate (RFC 8446, section 6.2)."""


def is_refusal(error: BaseException) -> bool:
    """Whether a server, or this client, has refused the other. A failed or slow connection is no refusal."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        return "ALERT" in reason and any(alert in reason for alert in _ALERTS)
    return any(text in str(error).lower() for text in _ERRORS)


class Refusals:
    """The refusals of each server of a bus, while a command tries to connect.

    A service does not give up: the passwords and certificates of both sides may be renewed at any time.
    """

    def __init__(self, settings: Nats) -> None:
        self._settings = settings
        self._counted: Counter[str] = Counter()
        self._needed: dict[str, int] = {}
        self._why = ""

    def add(self, url: str, error: BaseException, addresses: int = 1) -> None:
        """Count an error of the server at `url`, whose name has this many addresses, which are tried in turn.

        Raises BusUnavailable once every server has refused repeatedly.
        """
        server = _address(url)
        self._needed[server] = _ATTEMPTS * addresses
        if is_refusal(error):
            self._why = failure_reason(error)
            self._counted[server] += 1
        elif self._counted[server] and isinstance(error, ConnectionResetError):
            self._counted[server] += 1  # most likely another refusal, whose reason was lost
        servers = [_address(server_url) for server_url in self._settings.urls]
        if all(self._counted[name] >= self._needed.get(name, _ATTEMPTS) for name in servers):
            raise BusUnavailable(
                f"the bus at {self._settings.shown_url} refuses the connection: {self._why} (check --user, "
                "--password-file and --nats-ca)"
            )


def _address(url: str) -> str:
    """Host and port, which identify a server."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or CLIENT_PORT}"
