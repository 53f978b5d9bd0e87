"""Accepts the connections of the extender, with limits.

Every connection costs a file descriptor, and a scorer without free ones accepts nothing and responds to nobody, its own
probes included. kube-scheduler would wait for httpTimeout at every pod.
"""

import asyncio
import resource
import socket
import ssl
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import structlog

from equipoise.contracts.connection_limits import ConnectionPool
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.http_server.connections import RelayedConnection
from equipoise.scorer.settings import ExtenderSettings
from equipoise.scorer.shell.direct_requests import DirectRequests, Responder
from equipoise.scorer.shell.metrics import ScorerMetrics

log = structlog.get_logger()

MAX_NEW_CONNECTIONS = 64
"""Connections in total whose client is not verified yet, or has sent no request yet."""

_OTHER_FILES = 128
"""File descriptors for everything else: the bus, probes, files."""

_BACKLOG = 1024
"""Connections that the kernel holds until they are accepted. Clients of further connections wait a second."""

_RETRY_SECONDS = 0.1
"""The time until the next attempt to accept, after an error."""

_TLS_SHUTDOWN_SECONDS = 1.0
"""The time for a client that does not confirm the end of its TLS connection."""


def raise_file_limit() -> None:
    """Allow this process as many open files as it may have: many systems start it with 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of open files was not raised", error=str(error))


def check_file_limit(max_connections: int) -> None:
    """Raises ConfigurationError if this many connections could leave no file descriptor for anything else."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max_connections + MAX_NEW_CONNECTIONS + _OTHER_FILES
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise ConfigurationError(
            f"scorer.extender.maxConnections: {max_connections} connections need {needed} open files, and this process "
            f"may have {limit}: set a lower number, or raise the limit (ulimit -n)"
        )


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on this host; without a host, on every interface. Raises OSError."""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    listener.setblocking(False)
    return listener


@dataclass(eq=False)
class _Connection(RelayedConnection):
    handler: asyncio.Protocol
    address: str
    acceptor: "Acceptor"
    opening: asyncio.Task[None] | None = None
    deadline: asyncio.TimerHandle | None = None
    transport: asyncio.Transport | None = None
    direct: DirectRequests | None = None
    """The direct requests, until aiohttp has the connection."""

    paused: bool = False
    """The client does not read what is written."""

    def close(self) -> None:
        """Closes at once, without a response."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.acceptor.on_open(self)
        self.direct = self.acceptor.direct_requests(self, self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.acceptor.on_closed(self)
        if self.direct is not None:
            self.direct.stop()
        else:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        unread = data if self.direct is None else self.direct.receive(data)
        if unread is None:
            return
        if self.direct is not None:
            self._leave_to_aiohttp(self.direct)
        super().data_received(unread)

    def eof_received(self) -> bool | None:
        return None if self.direct is not None else super().eof_received()

    def pause_writing(self) -> None:
        self.paused = True
        if self.direct is None:
            super().pause_writing()

    def resume_writing(self) -> None:
        self.paused = False
        if self.direct is None:
            super().resume_writing()

    def _leave_to_aiohttp(self, direct: DirectRequests) -> None:
        direct.stop()
        self.direct = None
        assert self.transport is not None
        super().connection_made(self.transport)
        if self.paused:
            super().pause_writing()


@dataclass
class Acceptor:
    """Accepts connections in two steps.

    A connection is new until its client is verified (with a client CA) or has sent the head of a request. New ones have
    a small limit of their own and a deadline, so an unverified client cannot take the place of kube-scheduler.
    """

    create_handler: Callable[[], asyncio.Protocol]
    responder: Responder
    settings: ExtenderSettings
    tls: ssl.SSLContext | None
    metrics: ScorerMetrics
    _known: dict[asyncio.Protocol, _Connection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        per_address = self.settings.max_connections_per_address
        self._new = ConnectionPool[_Connection](MAX_NEW_CONNECTIONS, per_address)
        self._established = ConnectionPool[_Connection](self.settings.max_connections, per_address)

    async def accept(self, listener: socket.socket) -> None:
        """Accepts connections until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as opening:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listener)
                except OSError as error:
                    log.warning("a connection was not accepted", error=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                connection = _Connection(self.create_handler(), address[0], self)
                connection.opening = opening.create_task(self._open(connection, accepted))
                connection.deadline = loop.call_later(
                    self.settings.handshake_timeout, self._drop, connection, "timeout"
                )
                self._drop(self._new.add(connection, connection.address), "limit")
                await asyncio.sleep(0)  # between two connections of many, requests are served

    async def _open(self, connection: _Connection, accepted: socket.socket) -> None:
        """Opens an accepted connection, with the TLS handshake.

        After a handshake that failed, asyncio's frames and their error refer to each other. Without `clear_frames`, its
        buffer of 256 KiB would be kept until the next garbage collection, for every connection of an unverified client.
        """
        options: dict[str, Any] = {}
        if self.tls is not None:
            options = {"ssl": self.tls, "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted, **options)
        except OSError as error:  # includes all errors of TLS
            self.metrics.connections_dropped.labels("handshake").inc()
            log.debug("no connection", address=connection.address, error=str(error))
            traceback.clear_frames(error.__traceback__)
        except asyncio.CancelledError as error:
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            if connection.transport is None:
                self.on_closed(connection)

    def direct_requests(self, connection: _Connection, transport: asyncio.Transport) -> DirectRequests:
        return DirectRequests(
            transport,
            self.responder,
            self.settings,
            on_request=lambda: self.on_request(connection.handler),
            on_response=lambda: self.on_response(connection.handler),
        )

    def close_direct(self) -> None:
        """Closes the connections that are not left to aiohttp."""
        for connection in list(self._known.values()):
            if connection.direct is not None and connection.transport is not None:
                connection.transport.close()

    def on_open(self, connection: _Connection) -> None:
        self._known[connection.handler] = connection
        if self.tls is not None and self.tls.verify_mode == ssl.CERT_REQUIRED:
            self._establish(connection)

    def on_closed(self, connection: _Connection) -> None:
        self._new.remove(connection)
        self._established.remove(connection)
        self._known.pop(connection.handler, None)
        if connection.deadline is not None:
            connection.deadline.cancel()

    def on_request(self, handler: asyncio.Protocol) -> None:
        """The head of a request was received."""
        if (connection := self._known.get(handler)) is not None:
            self._establish(connection)

    def on_response(self, handler: asyncio.Protocol) -> None:
        """A request was valid and is served: the connection is in use."""
        if (connection := self._known.get(handler)) is not None:
            self._established.renew(connection)

    def _establish(self, connection: _Connection) -> None:
        if connection in self._new:
            self._new.remove(connection)
            if connection.deadline is not None:
                connection.deadline.cancel()
            self._drop(self._established.add(connection, connection.address), "limit")

    def _drop(self, connection: _Connection | None, reason: str) -> None:
        if connection is not None:
            self.metrics.connections_dropped.labels(reason).inc()
            connection.close()
