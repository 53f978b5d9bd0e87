"""TLS connections to the bus: the certificates that they trust, and a client that never continues without TLS."""

import asyncio
import dataclasses
import ssl
from collections.abc import Callable
from typing import Any

import nats.errors
from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport

from equipoise.runtime.async_tools.name_resolution import NameResolution, Resolve
from equipoise.runtime.bus.nats.refusals import CLIENT_PORT
from equipoise.runtime.configuration import Tls

RESOLVE_SECONDS = 2.0
"""Seconds in which a name must be resolved. The client waits as long for a connection."""

_NOT_TRIED_AGAIN = ("authorization", "authentication", "permissions violation")
"""Words in the errors of nats-server after which this client does not connect again: those about credentials, and
those about a subject, which do not end the connection."""


class TlsClient(Client):
    """A client of nats-py that raises an error if TLS is required and the server does not offer it.

    The original client continues in plain text and sends its password. Anybody in between could cause that by changing
    the first line of the server. TLS is required by `required`, or by an address that begins with tls://.
    """

    def __init__(
        self, *, required: bool, before_attempt: Callable[[], None] = lambda: None, resolve: Resolve[Any] | None = None
    ) -> None:
        """`before_attempt` is called before each attempt to connect. `resolve`: the resolution of names; by default
        that of the event loop.
        """
        super().__init__()
        self._tls_required = required
        self._before_attempt = before_attempt
        self._names: NameResolution[Any] = NameResolution(
            resolve or (lambda host, port: asyncio.get_running_loop().getaddrinfo(host, port)), RESOLVE_SECONDS
        )
        self.attempted = ""
        """The URL of the last server to which a connection was attempted."""

        self.addresses = 1
        """The number of addresses that the name in this URL has: each may be another server."""

        self._next: dict[str, int] = {}
        """The index of the address of a host that the next attempt begins with."""

    @property
    def certificate_end(self) -> float | None:
        """The time at which the certificate of the server expires (Unix seconds); None without TLS."""
        transport = self._tls_transport()
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        return ssl.cert_time_to_seconds(certificate["notAfter"]) if certificate else None

    async def _connect_to_server(self, s: Srv) -> None:
        """Connects to one of the addresses that a name has. Each attempt begins with the next one, so that every server
        behind the name is tried, even if one of them always refuses this client.

        The name is resolved first: otherwise a slow resolution would end as a timeout without a reason.
        """
        self.attempted, self.addresses = s.uri.geturl(), 1
        self._before_attempt()
        host, port = s.uri.hostname or "", s.uri.port or CLIENT_PORT
        answer = await self._names.addresses(host, port)
        if s.uri.scheme in ("ws", "wss"):  # their request must contain the name, not an address
            await super()._connect_to_server(s)
            return
        resolved = [entry[4][0] for entry in answer]
        addresses = sorted(set(resolved))
        self.addresses = len(addresses)
        begin = self._next.get(host, addresses.index(resolved[0]))
        self._next[host] = (begin + 1) % len(addresses)
        for tried in range(len(addresses)):
            address = addresses[(begin + tried) % len(addresses)]
            netloc = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            target = dataclasses.replace(s, uri=s.uri._replace(netloc=netloc))
            try:
                await super()._connect_to_server(target)
            except OSError:
                if tried == len(addresses) - 1:
                    raise
            else:
                s.last_attempt = target.last_attempt
                return

    async def _process_err(self, err_msg: str) -> None:
        """Connects again after most errors of the server, after which nats-py would give up.

        To give up is right for credentials only: the process ends, and reads them again when it starts. Any other error
        is caused by one message, or by the server.
        """
        if self.is_connected and not any(words in err_msg.lower() for words in _NOT_TRIED_AGAIN):
            error = nats.errors.Error(f"nats: {err_msg.strip(chr(39))}")
            await self._error_cb(error)
            await self._process_op_err(error)
            return
        await super()._process_err(err_msg)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Checks the first line of the server for TLS, before anything is sent."""
        if initial_connection and self._without_tls(info):
            raise nats.errors.Error("nats: the server does not offer TLS")
        await super()._process_info(info, initial_connection)

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except BaseException:
            self._announce_transport()
            # After a failed handshake, asyncio never reports that the connection is closed. nats-py would wait for that
            # forever, and a service that starts with a rejected certificate would never try again.
            if self._transport is not None:
                self._transport.close()  # type: ignore[no-untyped-call]
                if isinstance(self._transport, TcpTransport) and self._transport._bare_io_writer is not None:
                    self._transport._bare_io_writer.close()  # below TLS, which may still be open
                self._transport = None
            raise
        self._announce_transport()

    def _announce_transport(self) -> None:
        """Calls `connection_made`, which `loop.start_tls` leaves to its caller. nats-py does not call it.

        Without the call, asyncio does not stop reading from a server that is faster than this client. It also logs a
        warning at the end of each connection.
        """
        transport = self._tls_transport()
        # Without a protocol the server has closed the connection already: it rejects the certificate of this client.
        if transport is not None and (protocol := transport.get_protocol()) is not None:
            protocol.connection_made(transport)

    def _tls_transport(self) -> asyncio.WriteTransport | None:
        writer = self._transport._io_writer if isinstance(self._transport, TcpTransport) else None
        encrypted = writer is not None and writer.get_extra_info("sslcontext") is not None
        return writer.transport if writer is not None and encrypted else None

    def _without_tls(self, info: dict[str, Any]) -> bool:
        scheme = self._current_server.uri.scheme if self._current_server is not None else ""
        return (self._tls_required or scheme == "tls") and scheme != "wss" and not info.get("tls_required")


def client_context(tls: Tls) -> ssl.SSLContext:
    """An SSL context from the current contents of the files. It trusts only the CAs of `ca_file`, if there is one.
    Raises OSError."""
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context
