"""The bus of a cluster: NATS with JetStream."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import msgspec
import nats.errors
from nats import micro
from nats.aio.msg import Msg
from nats.micro.request import Request
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus.decoding import TolerantDecoder, plausible
from equipoise.contracts.bus.streams import STREAMS, Stream, foreign_subjects, stream_of
from equipoise.contracts.bus.subjects import micro_name
from equipoise.runtime.bus import (
    AlreadyQueued,
    BusError,
    BusUnavailable,
    Endpoint,
    Handler,
    InvalidSubject,
    NoResponders,
    OutOfBounds,
    Receipt,
    Response,
    Stop,
    T,
    TooLarge,
    Worker,
)
from equipoise.runtime.bus.codec import (
    Envelope,
    Headers,
    MessageReader,
    continuing_trace,
    encode,
    encode_fitting,
)
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.following import ChannelFollower
from equipoise.runtime.bus.nats.connection import RECONNECT_PAUSE, RESPONSE_TIMEOUT, SETUP, NatsConnection
from equipoise.runtime.bus.nats.subscriber import StreamSubscriber
from equipoise.runtime.bus.nats.work_queue import CHECK_PERIOD, WorkQueue
from equipoise.runtime.bus.responder import EndpointResponder, TooManyRequests, UnreadableRequest
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.unreadable import UnreadableThings

_IN_FLIGHT = 256
"""Messages of `publish_many` that wait for their acknowledgement at the same time."""

_HEARTBEAT = 5.0

_STORE_FAILED = 10077
"""JetStream's code for a message that a stream did not store; its text contains the reason."""


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    err_code: int = 0
    description: str = ""


class _Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


class _Purged(msgspec.Struct, frozen=True, kw_only=True):
    purged: int = 0


def acknowledgement_deadline() -> float:
    """The time until which messages sent now must be acknowledged, on the event loop's clock."""
    return asyncio.get_running_loop().time() + RESPONSE_TIMEOUT


class QueueFull(BusUnavailable):
    """The work queue takes no more messages until some are processed, expire or are removed."""


class Publisher:
    """Sends messages and matches the acknowledgements of streams to them."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._inbox: str | None = None
        self._sent = 0
        self._waiting: dict[str, asyncio.Future[Msg]] = {}

    async def send(self, subject: str, payload: bytes, headers: Headers) -> asyncio.Future[Msg]:
        """Send a message to its stream; returns the future for `receipt`. It fails early if no response can arrive."""
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
            receipt = await self._receipt(stream, subject, response, deadline)
        except BusUnavailable as error:
            self._link.errors.count("stream", stream.name, error)
            self._link.errors.set_problem(f"stream {stream.name}", f"{stream.name} does not take messages: {error}")
            raise
        self._link.errors.set_problem(f"stream {stream.name}", None)
        return receipt

    async def _receipt(self, stream: Stream, subject: str, response: asyncio.Future[Msg], deadline: float) -> Receipt:
        try:
            async with asyncio.timeout_at(deadline):
                message = await response
        except TimeoutError as error:
            raise self._link.as_bus_error(subject, error) from error
        if not message.data:  # the server's "no responders"
            raise BusUnavailable(f"no stream keeps {subject} (or its servers have no leader): {SETUP}")
        try:
            reply = msgspec.json.decode(message.data, type=_Acknowledgement)
        except msgspec.MsgspecError as error:
            raise BusError(f"{subject}: the response of the stream cannot be decoded: {error}") from error
        if reply.error is None and reply.stream != stream.name:
            raise BusUnavailable(f"{subject}: the stream {reply.stream} took the message, which nobody reads there")
        if reply.error is None:
            return Receipt(sequence=reply.seq, duplicate=reply.duplicate)
        if reply.error.err_code == _STORE_FAILED and "per subject" in reply.error.description:
            raise AlreadyQueued(f"the stream still holds a message of {subject}")
        if stream.work_queue and "maximum bytes" in reply.error.description:
            raise QueueFull(f"{subject}: {reply.error.description}")
        raise BusUnavailable(f"{subject}: {reply.error.description}")

    async def _on_response(self, message: Msg) -> None:
        response = self._waiting.get(message.subject.rpartition(".")[2])
        if response is not None and not response.done():
            response.set_result(message)


class NatsBus(ChannelFollower):
    """A `Bus` over one connection; `connect` makes it."""

    def __init__(
        self,
        link: NatsConnection,
        tasks: asyncio.TaskGroup,
        clock: Clock,
        envelope: Envelope,
        heartbeat: float,
        check_period: float,
    ) -> None:
        self._link = link
        self._envelope = envelope
        self._tasks = tasks
        self._clock = clock
        self._heartbeat = heartbeat
        self._check_period = check_period
        self._publisher = Publisher(link)
        self._followers: list[asyncio.Task[None]] = []
        self.errors = link.errors

    @property
    def connected(self) -> bool:
        return self._link.connected

    @property
    def problems(self) -> Sequence[str]:
        return self.errors.problems

    @property
    def unreadable(self) -> UnreadableThings:
        return self.errors.unreadable

    async def publish(self, subject: str, message: msgspec.Struct, *, message_id: str | None = None) -> Receipt:
        payload = self._encode(subject, message)
        headers = self._envelope.around(subject, message, message_id)
        if stream_of(subject) is None:
            await self._link.wait_for(subject, self._link.client.publish(subject, payload, headers=headers))
            await self._link.permitted(subject)
            return Receipt()
        try:
            return await self._publish_stored(subject, payload, headers)
        except QueueFull:
            return await self._publish_after_removal(subject, payload, headers)

    async def _publish_stored(self, subject: str, payload: bytes, headers: Headers) -> Receipt:
        sent = await self._publisher.send(subject, payload, headers)
        return await self._publisher.receipt(subject, sent, acknowledgement_deadline())

    async def _publish_after_removal(self, subject: str, payload: bytes, headers: Headers) -> Receipt:
        """Publish to a full work queue, after removing messages from it.

        The limit is thousands of messages, which services never reach. But a client with the password of another
        service can store any number of messages in the queue. Messages of other subjects are removed first. If there
        are none, all messages are removed: only reading them would show which are work, and lost intents are proposed
        again. The queue may be full again at once, so this is repeated until a response would be late.
        """
        queue = stream_of(subject)
        assert queue is not None, "only a stream is full"
        self.errors.count("foreign_messages", queue.name, "the work queue is full: messages of others are removed")
        deadline = acknowledgement_deadline()
        while True:
            removed = [await self._remove(queue, pattern) for pattern in foreign_subjects(queue)]
            if not any(removed):
                await self._remove(queue, ">")
            try:
                return await self._publish_stored(subject, payload, headers)
            except QueueFull:
                if asyncio.get_running_loop().time() > deadline:
                    raise

    async def _remove(self, queue: Stream, pattern: str) -> int:
        """Remove the messages of a work queue on matching subjects; returns how many there were."""
        subject = f"$JS.API.STREAM.PURGE.{queue.name}"
        request = msgspec.json.encode({"filter": pattern})
        sending = self._link.client.request(subject, request, timeout=RESPONSE_TIMEOUT)
        response = await self._link.wait_for(subject, sending)
        try:
            return msgspec.json.decode(response.data, type=_Purged).purged
        except msgspec.MsgspecError as error:
            raise BusError(f"{subject}: the response cannot be decoded: {error}") from error

    async def publish_many(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> int:
        failures: list[BusError] = []
        for first in range(0, len(messages), _IN_FLIGHT):
            failures += await self._publish_batch(messages[first : first + _IN_FLIGHT])
        if failures and len(failures) == len(messages):
            raise failures[0]
        return len(messages) - len(failures)

    async def _publish_batch(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> list[BusError]:
        """Send all messages, then wait for their acknowledgements; returns the errors."""
        failures: list[BusError] = []
        sent: list[tuple[str, asyncio.Future[Msg]]] = []
        for subject, message in messages:
            try:
                if stream_of(subject) is None:
                    await self.publish(subject, message)
                else:
                    payload = self._encode(subject, message)
                    headers = self._envelope.around(subject, message)
                    sent.append((subject, await self._publisher.send(subject, payload, headers)))
            except BusError as error:
                failures.append(error)
        deadline = acknowledgement_deadline()  # the same for all messages, because they were sent together
        for subject, acknowledgement in sent:
            try:
                await self._publisher.receipt(subject, acknowledgement, deadline)
            except AlreadyQueued as error:
                failures.append(error)
            except BusError as error:
                self.errors.count("publish", subject, error)
                failures.append(error)
        return failures

    async def subscribe(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        reader = MessageReader(pattern, kind, self.errors, self._clock)

        async def on_message(message: Msg) -> None:
            await reader.handle(handler, message.subject, message.data, headers=message.headers)

        await self._link.client.subscribe(pattern, cb=on_message)
        await self._link.permitted(pattern)

    async def subscribe_latest(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        if (stream := stream_of(pattern)) is None or stream.work_queue:
            raise ValueError(f"no stream keeps the last values of {pattern}: use subscribe")
        reader = MessageReader(pattern, kind, self.errors, self._clock)
        follower = StreamSubscriber(
            self._link, stream.name, pattern, reader, handler, clock=self._clock, heartbeat=self._heartbeat
        )
        self._followers.append(self._tasks.create_task(follower.run(), name=f"follow {pattern}"))
        await follower.caught_up

    async def work(self, kind: type[T], worker: Worker[T], *, concurrency: int = 1) -> None:
        queue = next(stream for stream in STREAMS if stream.work_queue)
        reader = MessageReader(queue.subjects[0], kind, self.errors, self._clock)
        work = WorkQueue(self._link, queue, self._clock, check_period=self._check_period)
        await work.run(reader, worker, concurrency)

    async def request(
        self, subject: str, request: msgspec.Struct, response: type[Response], *, timeout: float
    ) -> Response:
        payload, headers = self._encode(subject, request), self._envelope.around(subject, request)
        sending = self._link.client.request(subject, payload, timeout=timeout, headers=headers)
        try:
            received = await self._link.wait_for(subject, sending)
        except BusError as error:
            if isinstance(error.__cause__, nats.errors.NoRespondersError):
                raise NoResponders(f"no service responds on {subject}") from error
            if isinstance(error.__cause__, TimeoutError):
                raise BusUnavailable(f"{subject}: no response within {timeout:g} s") from error
            raise
        if failure := (received.headers or {}).get("Nats-Service-Error"):
            raise BusError(f"{subject}: {failure}")
        try:
            return plausible(TolerantDecoder(response).decode(received.data))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self.errors.count("unreadable", subject, error)
            raise BusError(f"{subject}: the response cannot be decoded: {error}") from error

    async def serve(self, name: str, endpoints: Sequence[Endpoint[Any, Any]]) -> Stop:
        service = await micro.add_service(self._link.client, name=micro_name(name), version=version("equipoise-common"))
        for endpoint in endpoints:
            await service.add_endpoint(
                name=endpoint.subject.rpartition(".")[2], subject=endpoint.subject, handler=self._responder(endpoint)
            )
        for endpoint in endpoints:
            await self._link.permitted(endpoint.subject)
        return service.stop

    def stop_following(self) -> None:
        for task in self._followers:
            task.cancel()

    def _responder(self, endpoint: Endpoint[Any, Any]) -> Callable[[Request], Awaitable[None]]:
        responder = EndpointResponder(endpoint, self._clock)

        async def on_request(request: Request) -> None:
            try:
                with continuing_trace(request.headers):
                    response = await responder.respond(request.data)
                    if response is None:
                        self.errors.count("dropped_request", endpoint.subject)
                        return
                    headers = self._envelope.around(endpoint.subject, response)
                payload = encode(endpoint.subject, response, self._link.client.max_payload)
            except UnreadableRequest as error:
                self.errors.count("unreadable", endpoint.subject, error)
                await request.respond_error("400", str(error))
            except TooManyRequests as error:
                self.errors.count("refused_request", endpoint.subject, str(error))
                await request.respond_error("429", str(error))
            except Exception as error:
                self.errors.count("endpoint", endpoint.subject, error)
                await request.respond_error("500", f"{type(error).__name__}: {error}")
            else:
                await request.respond(payload, headers=headers)

        return on_request

    def _encode(self, subject: str, message: msgspec.Struct) -> bytes:
        if not self.connected:
            raise BusUnavailable(f"{subject}: not connected to the bus")
        try:
            return encode_fitting(subject, message, self.errors, self._link.client.max_payload)
        except (TooLarge, InvalidSubject) as error:
            self.errors.count("too_large" if isinstance(error, TooLarge) else "invalid_subject", subject, error)
            self.errors.set_problem("size", str(error))
            raise
        except OutOfBounds as error:
            self.errors.count("unreadable_publication", subject, error)
            self.errors.set_problem(f"content {subject}", str(error))
            raise


@asynccontextmanager
async def open_bus(
    settings: Nats,
    service: str,
    clock: Clock,
    metrics: CollectorRegistry | None,
    *,
    errors: BusErrors | None = None,
    heartbeat: float = _HEARTBEAT,
    check_period: float = CHECK_PERIOD,
    reconnect_pause: float = RECONNECT_PAUSE,
    chance: random.Random | None = None,
    ends_when_refused: bool = False,
) -> AsyncIterator[NatsBus]:
    """See `equipoise.runtime.bus.connect`.

    heartbeat: seconds between heartbeats of a stream without messages.
    check_period: seconds between two checks of the consumer of a work queue.
    chance: generates the ids of messages and traces.
    """
    failure: Exception | None = None
    link = NatsConnection(
        settings,
        service,
        errors or BusErrors(clock, metrics),
        reconnect_pause,
        ends_when_refused=ends_when_refused,
    )
    envelope = Envelope(service, clock, chance or random.Random())
    try:
        async with asyncio.TaskGroup() as tasks:
            bus = NatsBus(link, tasks, clock, envelope, heartbeat, check_period)
            ending = tasks.create_task(link.ended())
            try:
                await link.open()
                yield bus
            except Exception as error:
                failure = error  # raised below, because the group would wrap it in an ExceptionGroup
            finally:
                ending.cancel()
                bus.stop_following()
                await link.close()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    if failure is not None:
        raise failure
