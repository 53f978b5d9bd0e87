"""Messages as bytes and headers, and the calls of their handlers: the same for every kind of bus.

The headers of a message contain its id, the attributes of CloudEvents (binary mode), and its trace (W3C `traceparent`).
Messages that are published while another one is handled have its trace, also in tasks that the handler starts.
"""

import asyncio
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Generic

import msgspec

from equipoise.contracts.bus.channels import message_types
from equipoise.contracts.bus.decoding import TolerantDecoder, of_its_time, plausible, refusal
from equipoise.contracts.bus.subjects import matches
from equipoise.contracts.messages.message import Message, type_name
from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.bus import Delivery, Handler, InvalidSubject, OutOfBounds, Redeliver, T, TooLarge, Worker
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.process.clock import Clock

ACK_WAIT = 60.0
"""Seconds without an acknowledgement after which an intent is delivered to another worker."""

WORK_LIMIT = 50.0
"""Seconds that a worker has for one intent. Less than ACK_WAIT, so that two workers never process the same intent."""

MAX_DELIVERIES = 10
"""Maximum number of attempts for one intent. A worker process that is killed uses up one of them."""

RETRY_PAUSE = 1.0
"""Seconds until a failed intent is tried again."""

MAX_PAYLOAD = 2**20
"""Bytes of one message with its headers, the default of nats-server."""

HEADER_ROOM = 4_096
"""Bytes of a message that are reserved for its headers, which need some hundred. nats-server counts headers, and closes
the connection of a client that sends more than it accepts."""

SHOWN_SUBJECT = 160
"""The maximum number of characters of an invalid subject that an error shows."""

MAX_SUBJECT = 2_048
"""Characters of a subject. nats-server closes the connection of a client that sends a line of more than 4,096."""

_SUBJECT = re.compile(r"[^\s*>.\x00-\x20\x7f]+(?:\.[^\s*>.\x00-\x20\x7f]+)*")

Headers = Mapping[str, str]

MESSAGE_ID = "Nats-Msg-Id"
MAX_AGE = "Nats-TTL"
SUBJECT = "ce-subject"
"""The header with the subject for which a message was published. With a free reply subject, NATS may deliver the
message on another subject."""

TYPE = "ce-type"
"""The header with the type of the message. Readers skip types that they do not know, which a later version may
publish."""

TRACE = "traceparent"

_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_current_trace: ContextVar[str] = ContextVar("trace of the message that is handled", default="")


def encode(subject: str, message: msgspec.Struct, limit: int = MAX_PAYLOAD) -> bytes:
    """A message as JSON. Raises TooLarge with the subject and both sizes, OutOfBounds, InvalidSubject.

    `limit`: bytes that the server accepts, headers included.
    """
    if len(subject) > MAX_SUBJECT or not _SUBJECT.fullmatch(subject):
        raise InvalidSubject(
            f"{plain_text(subject, SHOWN_SUBJECT)!r} ({len(subject)} characters) is no subject of the bus: it contains "
            "what is no name of a Kubernetes object"
        )
    payload = msgspec.json.encode(message)
    if isinstance(message, Message) and message.checked and (why := refusal(message)):
        raise OutOfBounds(f"{subject} is not published: nobody could read it: {why}")
    if len(payload) > limit - HEADER_ROOM:
        raise TooLarge(
            f"{subject}: the message has {len(payload)} bytes, the bus takes {limit - HEADER_ROOM}: raise max_payload "
            "of NATS"
        )
    return payload


def encode_fitting(subject: str, message: msgspec.Struct, errors: BusErrors, limit: int = MAX_PAYLOAD) -> bytes:
    """The result of `encode`. For a message that is too large, the first of its smaller messages that fits.

    What the smaller message lacks is reported as a problem until the message fits again.
    """
    problem = f"size {subject}"
    errors.set_problem(problem, None)
    try:
        return encode(subject, message, limit)
    except TooLarge as error:
        for smaller, lacking in message.smaller() if isinstance(message, Message) else ():
            with suppress(TooLarge):
                payload = encode(subject, smaller, limit)
                errors.set_problem(problem, f"{error}. It is published without {lacking}")
                return payload
        raise


class Envelope:
    """Creates the headers of a service's messages. `chance` generates ids, which must be unique."""

    def __init__(self, service: str, clock: Clock, chance: random.Random) -> None:
        self._fixed = {
            "ce-specversion": "1.0",
            "ce-source": f"/equipoise/{service}",
            "ce-datacontenttype": "application/json",
        }
        self._clock = clock
        self._chance = chance

    def new_id(self) -> str:
        """128 bits as 32 hexadecimal digits."""
        return f"{self._chance.getrandbits(128):032x}"

    def around(self, subject: str, message: msgspec.Struct, message_id: str | None = None) -> dict[str, str]:
        """The headers of a message for this subject. `message_id`: the id of the message; by default a new one."""
        identity = message_id or self.new_id()
        max_age = message.max_age if isinstance(message, Message) else None
        return {
            MESSAGE_ID: identity,
            "ce-id": identity,
            SUBJECT: subject,
            TYPE: type_name(type(message)),
            "ce-time": datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="milliseconds"),
            TRACE: f"00-{_current_trace.get() or self.new_id()}-{self._chance.getrandbits(64) or 1:016x}-01",
            **({} if max_age is None else {MAX_AGE: f"{max_age:.0f}s"}),
            **self._fixed,
        }


@contextmanager
def continuing_trace(headers: Headers | None) -> Iterator[None]:
    """Adds the messages that are published in this context to the trace of the message with these headers."""
    found = _TRACE.fullmatch(headers.get(TRACE, "")) if headers else None
    token = _current_trace.set(found[1] if found else "")
    try:
        yield
    finally:
        _current_trace.reset(token)


class MessageReader(Generic[T]):
    """Decodes messages of one kind, published for subjects of one pattern.

    A message is logged with its subject, counted and skipped if it was published for another subject, has another type,
    cannot be decoded, or contains an implausible number (`contracts.bounds`). /readyz names the subjects of messages
    that cannot be read or handled, until a later message on that subject is handled.
    """

    def __init__(self, pattern: str, kind: type[T], errors: BusErrors, clock: Clock) -> None:
        self._pattern = pattern
        self._clock = clock
        self._types = message_types(pattern) | {None}  # a message of a very early version has no type
        self._decoder = TolerantDecoder(kind)
        self._errors = errors

    def _read(self, subject: str, payload: bytes, headers: Headers | None, **flags: bool) -> Delivery[T] | None:
        # A redirected message is delivered or stored on another subject than the one in its headers.
        if not matches(self._pattern, subject) or (headers or {}).get(SUBJECT) != subject:
            self._errors.count("redirected", subject, f"skipped: it was not published for {self._pattern}")
            return None
        if (found := (headers or {}).get(TYPE)) not in self._types:
            self._errors.count("other_type", subject, f"skipped: this version does not know messages of type {found}")
            return None
        try:
            message = of_its_time(plausible(self._decoder.decode(payload)), self._clock.now())
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._errors.add_unreadable("unreadable", subject, error)
            return None
        return Delivery(subject=subject, message=message, **flags)

    async def handle(
        self, handler: Handler[T], subject: str, payload: bytes, *, headers: Headers | None, replayed: bool = False
    ) -> None:
        """Call a handler with one message. Its error is logged and counted, and goes no further."""
        delivery = self._read(subject, payload, headers, replayed=replayed)
        if delivery is None:
            return
        try:
            with continuing_trace(headers):
                await handler(delivery)
        except Exception as error:
            self._errors.add_unreadable("handler", subject, error)
        else:
            self._errors.remove_unreadable(subject)

    async def attempt(
        self, worker: Worker[T], subject: str, payload: bytes, *, headers: Headers | None, deliveries: int = 1
    ) -> Redeliver | None:
        """Call a worker with one message. None: it is processed, or skipped.

        `deliveries`: the number of its deliveries, this one included.
        """
        delivery = self._read(subject, payload, headers, last_attempt=deliveries >= MAX_DELIVERIES)
        if delivery is None:
            return None
        try:
            with continuing_trace(headers):
                async with asyncio.timeout(WORK_LIMIT):
                    return await worker(delivery)
        except Exception as error:
            self._errors.add_unreadable("worker", subject, error)
            return Redeliver(after=RETRY_PAUSE)
