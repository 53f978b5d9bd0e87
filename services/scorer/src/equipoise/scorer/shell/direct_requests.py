"""Responds without aiohttp to requests in the form in which kube-scheduler sends them.

aiohttp needs more time for a request and its response than the computation of the scores. It takes over the connection
for good at the first request in another form: with another method, path or version, an unexpected header, a chunked or
compressed body, or sent before the response to the last request.
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
"""The expected headers. Of these, only Content-Length changes how a request is handled."""

_LENGTH = re.compile(rb"[0-9]{1,9}")


class Responder(Protocol):
    """Computes the responses, and limits the pending requests, including those that aiohttp handles."""

    def begin(self) -> bool:
        """Begin a request whose head was received. False if too many requests are pending."""
        ...

    def respond(self, verb: str, body: bytes, waited: float) -> tuple[int, bytes]:
        """Status and body. `waited` is the time in seconds from the head to the end of the body. Does not raise."""
        ...

    def refuse_late(self, verb: str) -> tuple[int, bytes]:
        """Status and body of the response if the request's body was not received within the deadline."""
        ...

    def end(self) -> None:
        """End a request. It must follow each `begin` that returned True."""
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
        """`on_request` is called when the head of a request was received, `on_response` when its response has status
        200."""
        self._transport = transport
        self._responder = responder
        self._settings = settings
        self._on_request = on_request
        self._on_response = on_response
        self._loop = asyncio.get_running_loop()
        self._received: list[bytes] = []
        """The parts of a request whose body is not complete."""

        self._missing_bytes = self._head_bytes = 0
        self._verb = ""
        self._begun = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._unused_since = self._loop.time()
        self._keep_alive = self._loop.call_later(settings.keep_alive_timeout, self._close_if_unused)

    def receive(self, data: bytes) -> bytes | None:
        """The bytes for aiohttp, which must handle the connection from now on; None if aiohttp is not needed."""
        if self._received:
            self._received.append(data)
            self._missing_bytes -= len(data)
        elif not self._begin(data):
            return data
        if self._missing_bytes > 0:
            if self._deadline is None:
                self._deadline = self._loop.call_later(self._settings.deadline, self._refuse_late)
            return None
        if self._missing_bytes < 0 or self._transport.get_write_buffer_size():
            # The client sent a second request, or does not read the response to the last one.
            return self._end()
        waited = self._responder.monotonic() - self._begun
        status, body = self._responder.respond(self._verb, self._end()[self._head_bytes :], waited)
        self._write(status, body)
        if status == HTTPStatus.OK:
            self._on_response()
        return None

    def stop(self) -> None:
        """End after the connection is lost, or aiohttp has taken it over."""
        self._keep_alive.cancel()
        if self._received:
            self._end()

    def _begin(self, data: bytes) -> bool:
        head = _HEAD.match(data)
        length = None if head is None else _body_length(head[2])
        if head is None or length is None or length > self._settings.max_body_bytes or not self._responder.begin():
            return False
        self._on_request()
        self._begun = self._responder.monotonic()
        self._verb, self._head_bytes = head[1].decode(), head.end()
        self._received, self._missing_bytes = [data], head.end() + length - len(data)
        return True

    def _end(self) -> bytes:
        data, self._received = b"".join(self._received), []
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
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
            self._keep_alive = self._loop.call_later(remaining, self._close_if_unused)

    def _write(self, status: int, body: bytes, more: bytes = b"") -> None:
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nDate: {formatdate(usegmt=True)}\r\n"
        )
        self._transport.write(b"".join([head.encode(), more, b"\r\n", body]))
        self._unused_since = self._loop.time()


def _body_length(headers: bytes) -> int | None:
    """The value of Content-Length. None if it or Host is missing, or if a header is unexpected or repeated."""
    values: dict[bytes, bytes] = {}
    for line in headers.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b": ")
        if (name := name.lower()) not in _HEADERS or name in values:
            return None
        values[name] = value
    length = values.get(b"content-length", b"")
    return int(length) if b"host" in values and _LENGTH.fullmatch(length) else None
