"""From bytes to handlers and back: alike for every kind of bus, so that all of them fail alike."""

import asyncio
from typing import Any, Generic

import msgspec

from equipoise.runtime.bus import Again, Answer, Delivery, Endpoint, Handler, T, TooLarge, Worker
from equipoise.runtime.bus.errors import Troubles
from equipoise.runtime.bus.headers import Headers, in_hand

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


class Reader(Generic[T]):
    """Reads messages of one kind; what cannot be read is logged with its subject, counted and passed over."""

    def __init__(self, kind: type[T], troubles: Troubles) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._troubles = troubles

    def read(self, subject: str, payload: bytes, *, replayed: bool = False, final: bool = False) -> Delivery[T] | None:
        try:
            message = self._decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError) as error:
            self._troubles.count("unreadable", subject, error)
            return None
        return Delivery(subject=subject, message=message, replayed=replayed, final=final)

    async def hand_over(
        self, handler: Handler[T], subject: str, payload: bytes, *, headers: Headers | None, replayed: bool = False
    ) -> None:
        """Let a handler hear one message; its failure is logged and counted, and is the end of it."""
        delivery = self.read(subject, payload, replayed=replayed)
        if delivery is None:
            return
        try:
            with in_hand(headers):
                await handler(delivery)
        except Exception as error:
            self._troubles.count("handler", subject, error)

    async def attempt(
        self, worker: Worker[T], subject: str, payload: bytes, *, headers: Headers | None, deliveries: int = 1
    ) -> Again | None:
        """Let a worker try one message: None settles it (also one that cannot be read), Again asks for another try.

        `deliveries`: how often it was delivered by now.
        """
        delivery = self.read(subject, payload, final=deliveries >= MAX_DELIVERIES)
        if delivery is None:
            return None
        try:
            with in_hand(headers):
                async with asyncio.timeout(WORK_LIMIT):
                    return await worker(delivery)
        except Exception as error:
            self._troubles.count("worker", subject, error)
            return Again(after=RETRY_PAUSE)


class Unreadable(ValueError):
    """A question that is no message of its kind: who asked is at fault."""


async def answer(endpoint: Endpoint[Any, Any], payload: bytes) -> msgspec.Struct:
    """Let an endpoint answer one question. Raises Unreadable, and what the endpoint raises."""
    try:
        question = msgspec.json.decode(payload, type=endpoint.question)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(f"the question cannot be read: {error}") from error
    answered: msgspec.Struct = await endpoint.answer(question)
    return answered


def read_answer(subject: str, payload: bytes, kind: type[Answer]) -> Answer:
    """An answer as its message. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(payload, type=kind)
