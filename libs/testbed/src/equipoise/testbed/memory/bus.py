"""A bus inside one process, with the streams of the real one. Messages are encoded, so each is tested as JSON."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self

import msgspec

from equipoise.contracts.bus.decoding import TolerantDecoder
from equipoise.contracts.bus.streams import STREAMS, Stream
from equipoise.contracts.bus.subjects import matches
from equipoise.contracts.messages.message import type_name
from equipoise.runtime.bus import (
    AlreadyQueued,
    BusError,
    BusUnavailable,
    Endpoint,
    Handler,
    NoResponders,
    Receipt,
    Response,
    Stop,
    T,
    Worker,
)
from equipoise.runtime.bus.codec import (
    MAX_AGE,
    MAX_DELIVERIES,
    MESSAGE_ID,
    SUBJECT,
    TYPE,
    Envelope,
    Headers,
    MessageReader,
    continuing_trace,
    encode,
    encode_fitting,
)
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.following import ChannelFollower
from equipoise.runtime.bus.responder import EndpointResponder, TooManyRequests, UnreadableRequest
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.unreadable import UnreadableThings
from equipoise.testbed.memory.clock import settle

_HISTORY = 10_000
"""Messages that `published` returns at most."""

DUPLICATE_WINDOW = 120.0
"""Seconds for which a message id is stored, the default of JetStream."""


class StoredMessage(msgspec.Struct, kw_only=True):
    """A message in a stream, with its state in a work queue."""

    sequence: int
    subject: str
    payload: bytes
    headers: Headers
    stored_at: float
    due_at: float
    deliveries: int = 0
    taken: bool = False


class MemoryStream:
    """Stores the last message of every subject. Older ones cannot be read through the bus."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._sequence = 0
        self._messages: dict[str, StoredMessage] = {}
        self._ids: dict[str, tuple[int, float]] = {}
        """The sequence number and the time of each stored message, by message id."""

        self._expiring: dict[str, float] = {}
        """The time at which a message with an age of its own expires (`Message.max_age`), by subject."""

    def store(self, subject: str, payload: bytes, headers: Headers, now: float) -> Receipt:
        """Store a message. Raises AlreadyQueued if a work queue still holds a message of this subject."""
        self._expire(now)
        message_id = headers.get(MESSAGE_ID)
        if message_id in self._ids:
            return Receipt(sequence=self._ids[message_id][0], duplicate=True)
        if self.stream.work_queue and subject in self._messages:
            raise AlreadyQueued(f"{self.stream.name} still holds a message of {subject}")
        self._sequence += 1
        self._messages.pop(subject, None)
        self._expiring.pop(subject, None)
        if MAX_AGE in headers:
            self._expiring[subject] = now + float(headers[MAX_AGE].removesuffix("s"))
        self._messages[subject] = StoredMessage(
            sequence=self._sequence, subject=subject, payload=payload, headers=headers, stored_at=now, due_at=now
        )
        if message_id is not None:
            self._ids[message_id] = (self._sequence, now)
        return Receipt(sequence=self._sequence)

    def last(self, pattern: str, now: float) -> list[StoredMessage]:
        """The last message of every subject that matches, oldest first."""
        self._expire(now)
        return [message for message in self._messages.values() if matches(pattern, message.subject)]

    def take(self, now: float) -> StoredMessage | None:
        """The next message for a worker; counts the delivery."""
        self._expire(now)
        for message in self._messages.values():
            if not message.taken and message.due_at <= now:
                message.taken = True
                message.deliveries += 1
                return message
        return None

    def acknowledge(self, message: StoredMessage) -> None:
        """Remove a processed message."""
        if self._messages.get(message.subject) is message:
            del self._messages[message.subject]

    def redeliver(self, message: StoredMessage, due_at: float) -> bool:
        """Deliver a message again at `due_at`. False if it was delivered too often and is removed instead."""
        message.taken = False
        message.due_at = due_at
        if message.deliveries >= MAX_DELIVERIES:
            self.acknowledge(message)
            return False
        return True

    def _expire(self, now: float) -> None:
        """Remove expired messages and ids.

        The tables are in the order of expiry, provided that all messages with an age of their own have the same age.
        """
        while self._expiring and self._expiring[first := next(iter(self._expiring))] <= now:
            del self._messages[first], self._expiring[first]
        if self.stream.max_age is not None:
            while (
                self._messages
                and (oldest := next(iter(self._messages.values()))).stored_at <= now - self.stream.max_age
            ):
                del self._messages[oldest.subject]
                self._expiring.pop(oldest.subject, None)
        while self._ids and self._ids[first := next(iter(self._ids))][1] <= now - DUPLICATE_WINDOW:
            del self._ids[first]


class _Subscription:
    """Calls one handler with one message after the other. It has a task only while messages wait."""

    def __init__(
        self,
        pattern: str,
        handle: Callable[[str, bytes, Headers, bool], Coroutine[Any, Any, None]],
        follows: MemoryStream | None,
    ) -> None:
        self.pattern = pattern
        self.follows = follows
        self._handle = handle
        self._waiting: deque[tuple[str, bytes, Headers, bool]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, subject: str, payload: bytes, headers: Headers, *, replayed: bool = False) -> None:
        self._waiting.append((subject, payload, headers, replayed))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name=f"subscription {self.pattern}")

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._handle(*self._waiting.popleft())
        finally:
            self._task = None

    async def handled(self) -> None:
        """Wait until everything put so far has been handled."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class MemoryBus(ChannelFollower):
    """A `Bus` that all services of a test (or of the lab) share.

    In addition to the protocol, `published` returns messages, `headers` their headers, `inject` publishes raw bytes,
    `disconnect` and `reconnect` simulate a lost connection, `settled` waits until all handlers are idle. `streams`
    replaces the default streams (see `with_max_ages`). `chance` generates the ids of messages and traces; by default
    they are the same in every run.
    """

    def __init__(
        self, clock: Clock, *, streams: Sequence[Stream] = STREAMS, chance: random.Random | None = None
    ) -> None:
        self._clock = clock
        self._envelope = Envelope("memory", clock, chance or random.Random(0))
        self._streams = [MemoryStream(stream) for stream in streams]
        self._subscriptions: list[_Subscription] = []
        self._endpoints: dict[str, EndpointResponder] = {}
        self._history: deque[tuple[str, bytes, Headers]] = deque(maxlen=_HISTORY)
        self._work_arrived = asyncio.Event()
        self._wakers: set[asyncio.Task[None]] = set()
        self._connected = True
        self.errors = BusErrors(clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for subscription in self._subscriptions:
            await subscription.close()
        for waker in self._wakers:
            waker.cancel()

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def problems(self) -> Sequence[str]:
        return self.errors.problems

    @property
    def unreadable(self) -> UnreadableThings:
        return self.errors.unreadable

    async def publish(self, subject: str, message: msgspec.Struct, *, message_id: str | None = None) -> Receipt:
        payload = encode_fitting(subject, message, self.errors)
        await asyncio.sleep(0)
        return self._store(subject, payload, self._envelope.around(subject, message, message_id))

    async def publish_many(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> int:
        stored = 0
        failure: BusError | None = None
        for subject, message in messages:
            try:
                await self.publish(subject, message)
                stored += 1
            except BusError as error:
                failure = error
        if failure is not None and stored == 0:
            raise failure
        return stored

    async def subscribe(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        self._subscribe(pattern, kind, handler, None)

    async def subscribe_latest(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        stream = next((stream for stream in self._streams if _stores(stream, pattern)), None)
        if stream is None or stream.stream.work_queue:
            raise ValueError(f"no stream keeps the last values of {pattern}: use subscribe")
        subscription = self._subscribe(pattern, kind, handler, stream)
        self._replay(subscription)
        await subscription.handled()

    async def work(self, kind: type[T], worker: Worker[T], *, concurrency: int = 1) -> None:
        queue = next(stream for stream in self._streams if stream.stream.work_queue)
        reader = MessageReader(queue.stream.subjects[0], kind, self.errors, self._clock)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(concurrency):
                tasks.create_task(self._work(queue, reader, worker))

    async def request(
        self, subject: str, request: msgspec.Struct, response: type[Response], *, timeout: float
    ) -> Response:
        payload = encode(subject, request)
        self._check_connected(subject)
        if (responder := self._endpoints.get(subject)) is None:
            raise NoResponders(f"no service responds on {subject}")
        responding = asyncio.create_task(
            self._respond(subject, responder, payload, self._envelope.around(subject, request))
        )
        expired = asyncio.create_task(self._clock.sleep(timeout))
        try:
            await asyncio.wait([responding, expired], return_when=asyncio.FIRST_COMPLETED)
            if not responding.done():
                raise BusUnavailable(f"{subject}: no response within {timeout:g} s")
            return TolerantDecoder(response).decode(responding.result())
        finally:
            responding.cancel()
            expired.cancel()

    async def serve(self, name: str, endpoints: Sequence[Endpoint[Any, Any]]) -> Stop:
        own = {endpoint.subject: EndpointResponder(endpoint, self._clock) for endpoint in endpoints}
        self._endpoints.update(own)

        async def stop() -> None:
            for subject, responder in own.items():
                # Another replica may serve the same subject by now.
                if self._endpoints.get(subject) is responder:
                    del self._endpoints[subject]
            own.clear()

        return stop

    def published(self, kind: type[T], pattern: str = ">") -> list[T]:
        """Messages of this type on the matching subjects, oldest first (of the last 10,000 messages)."""
        return [
            msgspec.json.decode(payload, type=kind)
            for subject, payload, headers in self._history
            if matches(pattern, subject) and headers.get(TYPE) in (None, type_name(kind))
        ]

    def headers(self, pattern: str = ">") -> list[Headers]:
        """Headers of the messages of the matching subjects, oldest first (of the last 10,000)."""
        return [headers for subject, _, headers in self._history if matches(pattern, subject)]

    def inject(self, subject: str, payload: bytes, *, headers: Headers | None = None) -> None:
        """Publish bytes that need not be a valid message. Default headers: those of a message for this subject."""
        self._store(subject, payload, {SUBJECT: subject} if headers is None else headers)

    def disconnect(self) -> None:
        """Lose the connection: nothing can be published or received until `reconnect`."""
        self._connected = False
        self.errors.set_problem("connection", "not connected to the bus", lasting=True)

    async def reconnect(self) -> None:
        """Restore the connection; `subscribe_latest` delivers the last values again."""
        self._connected = True
        self.errors.set_problem("connection", None)
        self._work_arrived.set()
        for subscription in self._subscriptions:
            self._replay(subscription)
        await self.settled()

    async def settled(self) -> None:
        """Wait until all handlers and workers are idle."""
        await settle()

    def _store(self, subject: str, payload: bytes, headers: Headers) -> Receipt:
        self._check_connected(subject)
        self._history.append((subject, payload, headers))
        for subscription in self._subscriptions:
            if subscription.follows is None and matches(subscription.pattern, subject):
                subscription.put(subject, payload, headers)
        stream = next((stream for stream in self._streams if _stores(stream, subject)), None)
        if stream is None:
            return Receipt()
        receipt = stream.store(subject, payload, headers, self._clock.now())
        if not receipt.duplicate:
            self._work_arrived.set()
            for subscription in self._subscriptions:
                if subscription.follows is stream and matches(subscription.pattern, subject):
                    subscription.put(subject, payload, headers)
        return receipt

    def _check_connected(self, subject: str) -> None:
        if not self._connected:
            raise BusUnavailable(f"{subject}: not connected to the bus")

    def _subscribe(
        self, pattern: str, kind: type[T], handler: Handler[T], follows: MemoryStream | None
    ) -> _Subscription:
        reader = MessageReader(pattern, kind, self.errors, self._clock)

        async def handle(subject: str, payload: bytes, headers: Headers, replayed: bool) -> None:
            await reader.handle(handler, subject, payload, headers=headers, replayed=replayed)

        subscription = _Subscription(pattern, handle, follows)
        self._subscriptions.append(subscription)
        return subscription

    def _replay(self, subscription: _Subscription) -> None:
        if subscription.follows is not None:
            for last in subscription.follows.last(subscription.pattern, self._clock.now()):
                subscription.put(last.subject, last.payload, last.headers, replayed=True)

    async def _work(self, queue: MemoryStream, reader: MessageReader[T], worker: Worker[T]) -> None:
        while True:
            taken = queue.take(self._clock.now()) if self._connected else None
            if taken is None:
                self._work_arrived.clear()
                await self._work_arrived.wait()
                continue
            try:
                retry = await reader.attempt(
                    worker, taken.subject, taken.payload, headers=taken.headers, deliveries=taken.deliveries
                )
            except asyncio.CancelledError:
                self._redeliver(queue, taken, 0.0)
                raise
            if retry is None:
                queue.acknowledge(taken)
            else:
                self._redeliver(queue, taken, retry.after)

    async def _respond(self, subject: str, responder: EndpointResponder, payload: bytes, headers: Headers) -> bytes:
        try:
            with continuing_trace(headers):
                response = await responder.respond(payload)
                while response is None:
                    # The responder dropped the request: wait until it expires, which cancels this task.
                    await asyncio.Event().wait()
                return encode(subject, response)
        except UnreadableRequest as error:
            self.errors.count("unreadable", subject, error)
            raise BusError(f"{subject}: {error}") from error
        except TooManyRequests as error:
            self.errors.count("refused_request", subject, str(error))
            raise BusError(f"{subject}: {error}") from error
        except Exception as error:
            self.errors.count("endpoint", subject, error)
            raise BusError(f"{subject}: {type(error).__name__}: {error}") from error

    def _redeliver(self, queue: MemoryStream, message: StoredMessage, after: float) -> None:
        if not queue.redeliver(message, self._clock.now() + after):
            self.errors.count("delivered_too_often", message.subject, "removed from the queue")
            return
        waker = asyncio.create_task(self._wake_after(after))
        self._wakers.add(waker)
        waker.add_done_callback(self._wakers.discard)

    async def _wake_after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._work_arrived.set()


def _stores(stream: MemoryStream, subject: str) -> bool:
    return any(subject.startswith(pattern.removesuffix(">")) for pattern in stream.stream.subjects)
