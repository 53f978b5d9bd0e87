"""Saying things to streams, and knowing that they were kept: one inbox for all acknowledgements.

The client's own `publish_async` never completes for a message that a stream refuses, and its `publish` waits in vain
for a stream that a user may not speak to.
"""

import asyncio

import msgspec
import nats.errors
from nats.aio.msg import Msg

from equipoise.contracts.bus.streams import stream_of
from equipoise.runtime.bus import AlreadyQueued, BusError, BusUnavailable, Receipt
from equipoise.runtime.bus.connection import ANSWER_TIMEOUT, SETUP, NatsConnection
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


def answers_by() -> float:
    """When what was sent by now must be acknowledged, on the event loop's clock."""
    return asyncio.get_running_loop().time() + ANSWER_TIMEOUT


class Publisher:
    """Sends messages and matches the acknowledgements of streams to them."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._inbox: str | None = None
        self._sent = 0
        self._waiting: dict[str, asyncio.Future[Msg]] = {}

    async def send(self, subject: str, payload: bytes, headers: Headers) -> asyncio.Future[Msg]:
        """Send a message to its stream; `kept` tells what became of it. The answer fails early when none will come."""
        if self._inbox is None:
            self._inbox = self._link.client.new_inbox()
            await self._link.client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        self._sent += 1
        token = str(self._sent)
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(token, None))
        self._link.interruptible(subject, answer)
        try:
            await self._link.client.publish(subject, payload, reply=f"{self._inbox}.{token}", headers=dict(headers))
        except nats.errors.Error as error:
            answer.cancel()
            raise self._link.meaning(subject, error) from error
        return answer

    async def kept(self, subject: str, answer: asyncio.Future[Msg], deadline: float) -> Receipt:
        """Wait until the stream has taken the message, no longer than until `deadline` (the event loop's time).

        Raises BusUnavailable, NotPermitted and Refused.
        """
        stream = stream_of(subject)
        assert stream is not None, f"no stream keeps {subject}"
        try:
            receipt = await self._receipt(subject, answer, deadline)
        except BusUnavailable as error:
            self._link.errors.count("stream", stream.name, error)
            self._link.errors.set_problem(f"stream {stream.name}", f"{stream.name} does not take messages: {error}")
            raise
        self._link.errors.set_problem(f"stream {stream.name}", None)
        return receipt

    async def _receipt(self, subject: str, answer: asyncio.Future[Msg], deadline: float) -> Receipt:
        try:
            async with asyncio.timeout_at(deadline):
                message = await answer
        except TimeoutError as error:
            raise self._link.meaning(subject, error) from error
        if not message.data:  # the server's "no responders"
            raise BusUnavailable(f"no stream keeps {subject}: {SETUP}")
        try:
            said = msgspec.json.decode(message.data, type=_Acknowledgement)
        except msgspec.MsgspecError as error:
            raise BusError(f"{subject}: the response of the stream cannot be decoded: {error}") from error
        if said.error is None:
            return Receipt(sequence=said.seq, duplicate=said.duplicate)
        if said.error.err_code == _STORE_FAILED and "per subject" in said.error.description:
            raise AlreadyQueued(f"the stream still holds a message of {subject}")
        raise BusUnavailable(f"{subject}: {said.error.description}")

    async def _on_answer(self, message: Msg) -> None:
        answer = self._waiting.get(message.subject.rpartition(".")[2])
        if answer is not None and not answer.done():
            answer.set_result(message)
