"""From bytes to handlers and back: alike for every kind of bus, so that all of them fail alike."""

import asyncio
from typing import Any, Generic

import msgspec

from equipoise.runtime.bus import Delivery, Endpoint, Handler, Redeliver, Response, T, TooLarge, Worker
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.headers import Headers, continuing_trace

ACK_WAIT = 60.0
"""Seconds after which an intent goes to another worker, if the first has said nothing."""

WORK_LIMIT = 50.0
"""Seconds that a worker has for one intent: less than ACK_WAIT, so that no two work on the same one."""

MAX_DELIVERIES = 10
"""How often an intent is tried at most. A worker that dies takes one of them along, so there are some to spare."""

RETRY_PAUSE = 1.0
"""Seconds until a failed intent is tried again."""

MAX_PAYLOAD = 2**20
"""Bytes of one message, the default of nats-server."""


def encode(subject: str, message: msgspec.Struct, limit: int = MAX_PAYLOAD) -> bytes:
    """A message as JSON. Raises TooLarge with the subject and both sizes."""
    payload = msgspec.json.encode(message)
    if len(payload) > limit:
        raise TooLarge(
            f"{subject}: the message has {len(payload)} bytes, the bus takes {limit}: raise max_payload of NATS"
        )
    return payload


class MessageReader(Generic[T]):
    """Reads messages of one kind; what cannot be read is logged with its subject, counted and passed over."""

    def __init__(self, kind: type[T], errors: BusErrors) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._errors = errors

    def read(
        self, subject: str, payload: bytes, *, replayed: bool = False, last_attempt: bool = False
    ) -> Delivery[T] | None:
        try:
            message = self._decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError) as error:
            self._errors.count("unreadable", subject, error)
            return None
        return Delivery(subject=subject, message=message, replayed=replayed, last_attempt=last_attempt)

    async def hand_over(
        self, handler: Handler[T], subject: str, payload: bytes, *, headers: Headers | None, replayed: bool = False
    ) -> None:
        """Let a handler hear one message; its failure is logged and counted, and is the end of it."""
        delivery = self.read(subject, payload, replayed=replayed)
        if delivery is None:
            return
        try:
            with continuing_trace(headers):
                await handler(delivery)
        except Exception as error:
            self._errors.count("handler", subject, error)

    async def attempt(
        self, worker: Worker[T], subject: str, payload: bytes, *, headers: Headers | None, deliveries: int = 1
    ) -> Redeliver | None:
        """Let a worker try one message: None settles it (also one that cannot be read), Again asks for another try.

        `deliveries`: how often it was delivered by now.
        """
        delivery = self.read(subject, payload, last_attempt=deliveries >= MAX_DELIVERIES)
        if delivery is None:
            return None
        try:
            with continuing_trace(headers):
                async with asyncio.timeout(WORK_LIMIT):
                    return await worker(delivery)
        except Exception as error:
            self._errors.count("worker", subject, error)
            return Redeliver(after=RETRY_PAUSE)


class UnreadableRequest(ValueError):
    """A question that is no message of its kind: who asked is at fault."""


async def answer(endpoint: Endpoint[Any, Any], payload: bytes) -> msgspec.Struct:
    """Let an endpoint answer one question. Raises Unreadable, and what the endpoint raises."""
    try:
        question = msgspec.json.decode(payload, type=endpoint.request_type)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnreadableRequest(f"the question cannot be read: {error}") from error
    answered: msgspec.Struct = await endpoint.handler(question)
    return answered


def read_answer(subject: str, payload: bytes, kind: type[Response]) -> Response:
    """An answer as its message. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(payload, type=kind)
