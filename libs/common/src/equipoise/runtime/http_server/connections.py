"""Connections of a server, limited in number and time by `ConnectionLimits`."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from aiohttp import web

from equipoise.contracts.connection_limits import ConnectionLimits, ConnectionPool

HEAD_END = b"\r\n\r\n"


class RelayedConnection(asyncio.Protocol):
    """Passes all events of a connection on to `handler`, the protocol that aiohttp created."""

    handler: asyncio.Protocol
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self.handler.eof_received()

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()


class _LimitedConnection(RelayedConnection):
    """The connection of a client that sends requests without bodies."""

    def __init__(self, handler: asyncio.Protocol, server: "LimitedConnections") -> None:
        self.handler = handler
        self._server = server
        self._head_deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._received = b""
        """The last bytes of a request head that is not complete: HEAD_END may be split between two packets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._server.opened(self, transport)
        super().connection_made(transport)
        self._head_deadline = self._after(self._server.limits.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.pool.remove(self)
        self._head_deadline = _cancelled(self._head_deadline)
        self._write_deadline = _cancelled(self._write_deadline)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._server.pool.renew(self)
        head = self._received + data
        complete, _, begun = head.rpartition(HEAD_END)
        if complete or head.startswith(HEAD_END):
            self._head_deadline = _cancelled(self._head_deadline)
        self._received = begun[-len(HEAD_END) + 1 :]
        if begun and self._head_deadline is None:
            self._head_deadline = self._after(self._server.limits.request_seconds)
        super().data_received(data)

    def pause_writing(self) -> None:
        self._write_deadline = self._write_deadline or self._after(self._server.limits.response_seconds)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._write_deadline = _cancelled(self._write_deadline)
        super().resume_writing()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _after(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self.abort)


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel the timer; returns None, which replaces it."""
    if timer is not None:
        timer.cancel()
    return None


class LimitedConnections:
    """A factory of protocols for `create_server` that closes connections above the limits."""

    def __init__(self, create_handler: Callable[[], asyncio.Protocol], limits: ConnectionLimits) -> None:
        self.limits = limits
        self.pool = ConnectionPool[_LimitedConnection](limits.total, limits.per_address)
        self._create_handler = create_handler

    def __call__(self) -> asyncio.Protocol:
        return _LimitedConnection(self._create_handler(), self)

    def opened(self, connection: _LimitedConnection, transport: asyncio.BaseTransport) -> None:
        displaced = self.pool.add(connection, transport.get_extra_info("peername")[0])
        if displaced is not None:
            displaced.abort()


async def listen(
    runner: web.AppRunner, host: str, port: int, limits: ConnectionLimits, tls: ssl.SSLContext | None = None
) -> asyncio.Server:
    """Starts a server for the application of a runner. Listens on every interface if `host` is empty. Raises
    OSError."""
    assert runner.server is not None
    connections = LimitedConnections(runner.server, limits)
    return await asyncio.get_running_loop().create_server(
        connections, host or None, port, ssl=tls, ssl_handshake_timeout=limits.handshake_seconds if tls else None
    )
