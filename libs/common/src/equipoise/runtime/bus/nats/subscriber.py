"""Delivers the last message of every subject, then new messages. A lost pull consumer is created again."""

import asyncio
from contextlib import suppress
from typing import Generic

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.js import api

from equipoise.runtime.bus import BusError, BusUnavailable, Handler, NotPermitted, T
from equipoise.runtime.bus.codec import MessageReader
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.process.clock import Clock

_BATCH = 256
"""Messages per request: the most that wait in this process for their handler."""

_REQUEST_LIFETIME = 60.0
"""Seconds after which a request for messages is repeated."""

_TURN = 0.0005
"""Seconds for which messages are handled before other tasks run. Handlers rarely wait: without this limit, hundreds of
messages would be handled in one go, and a request of kube-scheduler would wait for all of them."""

_FIRST_PAUSE, _MAX_PAUSE = 0.2, 5.0
"""Seconds between attempts to create a consumer."""

_NANOSECONDS = 1_000_000_000


class StreamSubscriber(Generic[T]):
    """Calls one handler with the messages of a pattern while `run` runs."""

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
        self._turn_ends = 0.0
        self._replaying = 0
        self._pause = _FIRST_PAUSE
        self.caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the initial last values have been handled. Fails with NotPermitted if the pattern is forbidden."""

    async def run(self) -> None:
        """Create a consumer and read from it, again after each loss. Ends only if the pattern is forbidden before
        `caught_up` is done."""
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
            self._pause = min(2 * self._pause, _MAX_PAUSE)

    async def _follow(self) -> None:
        """Create a consumer and read from it. Ends with BusUnavailable when the connection or consumer is lost."""
        self._arrived = asyncio.Queue()
        remove_callback = self._link.when_lost(lambda: self._arrived.put_nowait(None))
        inbox = self._link.client.new_inbox()
        try:
            subscription = await self._link.client.subscribe(inbox, cb=self._arrived.put)
        except nats.errors.Error as error:
            remove_callback()
            raise self._link.as_bus_error(self._pattern, error) from error
        try:
            consumer, self._replaying = await self._link.create_reader(
                self._stream, self._pattern, deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT
            )
            if not self._replaying:
                self._set_caught_up()
            while True:
                await self._read_batch(consumer, inbox)
        finally:
            remove_callback()
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def _read_batch(self, consumer: str, inbox: str) -> None:
        """Request messages and handle them, until the batch is complete or the request has expired."""
        request = {
            "batch": _BATCH,
            "expires": int(_REQUEST_LIFETIME * _NANOSECONDS),
            "idle_heartbeat": int(self._heartbeat * _NANOSECONDS),
        }
        try:
            await self._link.client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}", msgspec.json.encode(request), reply=inbox
            )
        except nats.errors.Error as error:
            raise self._link.as_bus_error(self._pattern, error) from error
        received = 0
        while received < _BATCH:
            message = await self._next()
            # Only a message of the server about the request has a status; one of the stream has none.
            if (status := message.headers.get("Status") if message.headers else None) is None:
                received += 1
                await self._handle(message)
            elif status in (api.StatusCode.CONTROL_MESSAGE, api.StatusCode.REQUEST_TIMEOUT):
                # The server has no more messages. If last values are still expected, they have expired.
                self._set_caught_up()
                if status == api.StatusCode.REQUEST_TIMEOUT:
                    return
            else:
                description = (message.headers or {}).get("Description", "")
                raise BusUnavailable(f"the consumer was lost: {status} {description}")

    async def _next(self) -> Msg:
        time = asyncio.get_running_loop().time
        if time() >= self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = time() + _TURN
        try:
            if not self._arrived.empty():
                message = self._arrived.get_nowait()  # a timeout would cost as much as the message itself
            else:
                async with asyncio.timeout(2.5 * self._heartbeat):
                    message = await self._arrived.get()
        except TimeoutError:
            self._link.errors.count("stalled", self._pattern, "no heartbeats")
            raise BusUnavailable("the consumer sent no heartbeats") from None
        if message is None:
            raise BusUnavailable("the connection was lost")
        return message

    async def _handle(self, message: Msg) -> None:
        replayed = self._replaying > 0
        await self._reader.handle(
            self._handler, message.subject, message.data, headers=message.headers, replayed=replayed
        )
        if replayed:
            self._replaying -= 1
            if not self._replaying or not message.metadata.num_pending:
                self._set_caught_up()

    def _set_caught_up(self) -> None:
        self._replaying = 0
        self._pause = _FIRST_PAUSE
        self._link.errors.set_problem(f"follow {self._pattern}", None)
        if not self.caught_up.done():
            self.caught_up.set_result(None)
