"""Last values of a stream, then everything new: a pull consumer that is made anew whenever it falls silent."""

import asyncio
import uuid
from contextlib import suppress
from typing import Generic

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.js import api

from equipoise.runtime.bus import BusError, BusUnavailable, Handler, NotPermitted, T
from equipoise.runtime.bus.codec import MessageReader
from equipoise.runtime.bus.connection import NatsConnection
from equipoise.runtime.process.clock import Clock

_BATCH = 256
"""Messages asked for at once: the most that wait in this process for their handler."""

_REQUEST_LIFE = 60.0
"""Seconds after which a request for messages is made anew."""

_CONSUMER_LIFE = 30.0
"""Seconds after which the server forgets a consumer that nobody asks."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""Seconds between attempts to make a consumer."""

_NANOSECONDS = 1_000_000_000


class StreamSubscriber(Generic[T]):
    """Keeps one handler informed for as long as `run` runs."""

    def __init__(
        self,
        link: NatsConnection,
        stream: str,
        pattern: str,
        reader: MessageReader[T],
        handler: Handler[T],
        *,
        clock: Clock,
        heartbeat: float,
    ) -> None:
        self._link = link
        self._stream = stream
        self._pattern = pattern
        self._reader = reader
        self._handler = handler
        self._clock = clock
        self._heartbeat = heartbeat
        self._arrived: asyncio.Queue[Msg | None] = asyncio.Queue()
        self._replaying = 0
        self._pause = _FIRST_PAUSE
        self.caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the last values of the beginning have been handled; NotPermitted when that cannot be."""

    async def run(self) -> None:
        """Follow for ever, through reconnects, restarts of the server and lost consumers."""
        while True:
            await self._link.wait_connected()
            try:
                await self._follow()
            except NotPermitted as error:
                if not self.caught_up.done():
                    self.caught_up.set_exception(error)
                    return
            except BusError as error:
                if self._link.connected:
                    self._link.errors.count("follow", self._pattern, error)
                    self._link.errors.set_problem(f"follow {self._pattern}", f"cannot follow {self._pattern}: {error}")
            await self._clock.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _follow(self) -> None:
        """Make a consumer and hear it out. Ends with BusUnavailable when the connection or the consumer is lost."""
        self._arrived = asyncio.Queue()
        forget = self._link.when_lost(lambda: self._arrived.put_nowait(None))
        inbox = self._link.client.new_inbox()
        try:
            subscription = await self._link.client.subscribe(inbox, cb=self._arrived.put)
        except nats.errors.Error as error:
            forget()
            raise self._link.meaning(self._pattern, error) from error
        try:
            consumer = await self._make_consumer()
            while True:
                await self._hear_batch(consumer, inbox)
        finally:
            forget()
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def _make_consumer(self) -> str:
        """A consumer with a name and a filter, because the rights of a service are given by both."""
        name = f"{self._link.service}-{uuid.uuid4().hex[:12]}"
        config = api.ConsumerConfig(
            name=name,
            filter_subject=self._pattern,
            deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT,
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=_CONSUMER_LIFE,
        )
        info = await self._link.answered(
            f"$JS.API.CONSUMER.CREATE.{self._stream}.{name}.{self._pattern}",
            self._link.streams.add_consumer(self._stream, config),
        )
        self._replaying = info.num_pending or 0
        if not self._replaying:
            self._is_caught_up()
        return name

    async def _hear_batch(self, consumer: str, inbox: str) -> None:
        """Ask for some messages and hand them over, until there were that many or the request has expired."""
        request = {
            "batch": _BATCH,
            "expires": int(_REQUEST_LIFE * _NANOSECONDS),
            "idle_heartbeat": int(self._heartbeat * _NANOSECONDS),
        }
        try:
            await self._link.client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}", msgspec.json.encode(request), reply=inbox
            )
        except nats.errors.Error as error:
            raise self._link.meaning(self._pattern, error) from error
        heard = 0
        while heard < _BATCH:
            message = await self._next()
            if (status := _status(message)) is None:
                heard += 1
                await self._hear(message)
            elif status in (api.StatusCode.CONTROL_MESSAGE, api.StatusCode.REQUEST_TIMEOUT):
                self._is_caught_up()  # the server has nothing more: some last values grew too old on their way
                if status == api.StatusCode.REQUEST_TIMEOUT:
                    return
            else:
                description = (message.headers or {}).get("Description", "")
                raise BusUnavailable(f"the consumer was lost: {status} {description}")

    async def _next(self) -> Msg:
        try:
            if self._arrived.empty():  # else a timeout would cost as much as the message itself
                async with asyncio.timeout(2.5 * self._heartbeat):
                    message = await self._arrived.get()
            else:
                message = self._arrived.get_nowait()
        except TimeoutError:
            self._link.errors.count("stalled", self._pattern, "silence instead of heartbeats")
            raise BusUnavailable("the consumer fell silent") from None
        if message is None:
            raise BusUnavailable("the connection was lost")
        return message

    async def _hear(self, message: Msg) -> None:
        replayed = self._replaying > 0
        await self._reader.hand_over(
            self._handler, message.subject, message.data, headers=message.headers, replayed=replayed
        )
        if replayed:
            self._replaying -= 1
            if not self._replaying or not message.metadata.num_pending:
                self._is_caught_up()

    def _is_caught_up(self) -> None:
        self._replaying = 0
        self._pause = _FIRST_PAUSE
        self._link.errors.set_problem(f"follow {self._pattern}", None)
        if not self.caught_up.done():
            self.caught_up.set_result(None)


def _status(message: Msg) -> str | None:
    """The status of a message of the server about the request, None for a message of the stream."""
    return message.headers.get("Status") if message.headers else None
