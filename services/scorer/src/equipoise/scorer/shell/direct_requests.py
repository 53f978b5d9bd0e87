"""Responds to the requests that kube-scheduler sends, as it sends them, without aiohttp.

aiohttp needs more time for a request and its response than it takes to find the scores. It is given the connection, for
good, with the first bytes that are not a request in the usual form: another method, path or version, a header that is
not expected, a chunked or compressed body, a second request before the response to the first one.
"""

import asyncio
import re
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from equipoise.scorer.settings import ExtenderSettings

_HEAD = re.compile(rb"POST /(prioritize|filter) HTTP/1\.1\r\n((?:[A-Za-z-]+: [\x20-\x7e]+\r\n)+)\r\n")

_HEADERS = {b"host", b"user-agent", b"accept", b"accept-encoding", b"content-type", b"content-length"}
"""The headers without a meaning for the response, except for the length."""

_LENGTH = re.compile(rb"[0-9]{1,9}")


class Responder(Protocol):
    """Computes the responses, and limits the requests, those given to aiohttp included."""

    def begin(self) -> bool:
        """The head of a request was received; False: too many are pending."""
        ...

    def respond(self, verb: str, body: bytes, waited: float) -> tuple[int, bytes]:
        """Status and body. `waited` is the time in seconds from the head to the end of the body. Does not raise."""
        ...

    def refuse_late(self, verb: str) -> tuple[int, bytes]:
        """The body was not received within the deadline."""
        ...

    def end(self) -> None:
        """Ends a request; called after each `begin` that returned True."""
        ...

    def monotonic(self) -> float: ...


class DirectRequests:
    """The requests of one connection, one after the other."""

    def __init__(
        self,
        transport: asyncio.Transport,
        responder: Responder,
        settings: ExtenderSettings,
        *,
        on_request: Callable[[], None],
        on_response: Callable[[], None],
    ) -> None:
        """`on_request`: the head of a request was received. `on_response`: the request was valid and is served."""
        self._transport = transport
        self._responder = responder
        self._settings = settings
        self._on_request = on_request
        self._on_response = on_response
        self._loop = asyncio.get_running_loop()
        self._received: list[bytes] = []
        """The parts of a request whose body is not complete."""

        self._missing = self._head = 0
        self._verb = ""
        self._begun = 0.0
        self._late: asyncio.TimerHandle | None = None
        self._unused_since = self._loop.time()
        self._unused = self._loop.call_later(settings.keep_alive_timeout, self._close_if_unused)

    def receive(self, data: bytes) -> bytes | None:
        """What aiohttp must be given, which has the connection from then on; None while the requests are usual."""
        if self._received:
            self._received.append(data)
            self._missing -= len(data)
        elif not self._begin(data):
            return data
        if self._missing > 0:
            if self._late is None:
                self._late = self._loop.call_later(self._settings.deadline, self._refuse_late)
            return None
        if self._missing < 0 or self._transport.get_write_buffer_size():
            # A second request, or a client that does not read the response to the last one.
            return self._end()
        waited = self._responder.monotonic() - self._begun
        status, body = self._responder.respond(self._verb, self._end()[self._head :], waited)
        self._write(status, body)
        if status == HTTPStatus.OK:
            self._on_response()
        return None

    def stop(self) -> None:
        """aiohttp has the connection, or it is lost."""
        self._unused.cancel()
        if self._received:
            self._end()

    def _begin(self, data: bytes) -> bool:
        head = _HEAD.match(data)
        length = None if head is None else _body_length(head[2])
        if head is None or length is None or length > self._settings.max_body_bytes or not self._responder.begin():
            return False
        self._on_request()
        self._begun = self._responder.monotonic()
        self._verb, self._head = head[1].decode(), head.end()
        self._received, self._missing = [data], head.end() + length - len(data)
        return True

    def _end(self) -> bytes:
        data, self._received = b"".join(self._received), []
        if self._late is not None:
            self._late.cancel()
            self._late = None
        self._responder.end()
        return data

    def _refuse_late(self) -> None:
        self._write(*self._responder.refuse_late(self._verb), more=b"Connection: close\r\n")
        self._end()
        self._transport.close()

    def _close_if_unused(self) -> None:
        unused = 0.0 if self._received else self._loop.time() - self._unused_since
        remaining = self._settings.keep_alive_timeout - unused
        if remaining <= 0:
            self._transport.close()
        else:
            self._unused = self._loop.call_later(remaining, self._close_if_unused)

    def _write(self, status: int, body: bytes, more: bytes = b"") -> None:
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nDate: {formatdate(usegmt=True)}\r\n"
        )
        self._transport.write(b"".join([head.encode(), more, b"\r\n", body]))
        self._unused_since = self._loop.time()


def _body_length(headers: bytes) -> int | None:
    """None if a header is not expected, or there twice, or the length is missing."""
    found: dict[bytes, bytes] = {}
    for line in headers.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b": ")
        if (name := name.lower()) not in _HEADERS or name in found:
            return None
        found[name] = value
    length = found.get(b"content-length", b"")
    return int(length) if b"host" in found and _LENGTH.fullmatch(length) else None
