"""Publishes to streams, with one inbox for all acknowledgements.

The client's `publish_async` never completes for a message that a stream rejects, and its `publish` waits until the
timeout if the user has no permission for the subject.
"""

import asyncio

import msgspec
import nats.errors
from nats.aio.msg import Msg

from equipoise.contracts.bus.streams import stream_of
from equipoise.runtime.bus import AlreadyQueued, BusError, BusUnavailable, Receipt
from equipoise.runtime.bus.connection import RESPONSE_TIMEOUT, SETUP, NatsConnection
from equipoise.runtime.bus.headers import Headers

_STORE_FAILED = 10077
"""JetStream's code for a message that a stream did not store; its text contains the reason."""


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    err_code: int = 0
    description: str = ""


class _Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


def acknowledgement_deadline() -> float:
    """Until when messages sent now must be acknowledged, on the event loop's clock."""
    return asyncio.get_running_loop().time() + RESPONSE_TIMEOUT


class Publisher:
    """Sends messages and matches the acknowledgements of streams to them."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._inbox: str | None = None
        self._sent = 0
        self._waiting: dict[str, asyncio.Future[Msg]] = {}

    async def send(self, subject: str, payload: bytes, headers: Headers) -> asyncio.Future[Msg]:
        """Send a message to its stream; pass the future to `receipt`. It fails early when no response can arrive."""
        if self._inbox is None:
            self._inbox = self._link.client.new_inbox()
            await self._link.client.subscribe(f"{self._inbox}.*", cb=self._on_response)
        self._sent += 1
        token = str(self._sent)
        response: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = response
        response.add_done_callback(lambda _: self._waiting.pop(token, None))
        self._link.interruptible(subject, response)
        try:
            await self._link.client.publish(subject, payload, reply=f"{self._inbox}.{token}", headers=dict(headers))
        except nats.errors.Error as error:
            response.cancel()
            raise self._link.as_bus_error(subject, error) from error
        return response

    async def receipt(self, subject: str, response: asyncio.Future[Msg], deadline: float) -> Receipt:
        """Wait until the stream has acknowledged the message, at most until `deadline` (the event loop's time).

        Raises BusUnavailable, NotPermitted and AlreadyQueued.
        """
        stream = stream_of(subject)
        assert stream is not None, f"no stream has {subject}"
        try:
            receipt = await self._receipt(subject, response, deadline)
        except BusUnavailable as error:
            self._link.errors.count("stream", stream.name, error)
            self._link.errors.set_problem(f"stream {stream.name}", f"{stream.name} does not take messages: {error}")
            raise
        self._link.errors.set_problem(f"stream {stream.name}", None)
        return receipt

    async def _receipt(self, subject: str, response: asyncio.Future[Msg], deadline: float) -> Receipt:
        try:
            async with asyncio.timeout_at(deadline):
                message = await response
        except TimeoutError as error:
            raise self._link.as_bus_error(subject, error) from error
        if not message.data:  # the server's "no responders"
            raise BusUnavailable(f"no stream keeps {subject}: {SETUP}")
        try:
            reply = msgspec.json.decode(message.data, type=_Acknowledgement)
        except msgspec.MsgspecError as error:
            raise BusError(f"{subject}: the response of the stream cannot be decoded: {error}") from error
        if reply.error is None:
            return Receipt(sequence=reply.seq, duplicate=reply.duplicate)
        if reply.error.err_code == _STORE_FAILED and "per subject" in reply.error.description:
            raise AlreadyQueued(f"the stream still holds a message of {subject}")
        raise BusUnavailable(f"{subject}: {reply.error.description}")

    async def _on_response(self, message: Msg) -> None:
        response = self._waiting.get(message.subject.rpartition(".")[2])
        if response is not None and not response.done():
            response.set_result(message)
