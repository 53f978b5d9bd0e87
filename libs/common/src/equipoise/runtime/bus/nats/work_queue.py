"""The work queue that all workers share. Each message is acknowledged, delivered again, or removed."""

import asyncio
from contextlib import suppress

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from equipoise.contracts.bus.streams import WORKERS, Stream
from equipoise.runtime.bus import BusError, NotPermitted, T, Worker
from equipoise.runtime.bus.codec import MessageReader
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.process.clock import Clock

_FETCH_TIMEOUT = 2.0
"""Seconds for which a request for work stays open. Short, because a restart of the server is noticed only when it
ends."""

CHECK_PERIOD = 10.0
"""Seconds between two checks of the consumer."""

_ERROR_PAUSE = 1.0
"""Seconds between a failed request and the next one."""


class _DeliveredTooOften(msgspec.Struct, frozen=True, kw_only=True):
    """The advisory MAX_DELIVERIES of JetStream, about a message that was delivered too often."""

    stream_seq: int


class WorkQueue:
    """A stream of work and the durable consumer that its workers share."""

    def __init__(
        self, link: NatsConnection, stream: Stream, clock: Clock, *, check_period: float = CHECK_PERIOD
    ) -> None:
        self._link = link
        self._check_period = check_period
        self._queue = stream
        self._stream = stream.name
        self._consumer = WORKERS
        self._advisory = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream.name}.{WORKERS}"
        self._clock = clock

    async def run(self, reader: MessageReader[T], worker: Worker[T], concurrency: int) -> None:
        """Processes messages until it is cancelled. A message that is being processed then is delivered to another
        worker."""
        advisory = await self._link.client.subscribe(
            self._advisory,
            queue=self._consumer,
            cb=self._on_delivered_too_often,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._check())
                for _ in range(concurrency):
                    tasks.create_task(self._work(reader, worker))
        finally:
            with suppress(nats.errors.Error):
                await advisory.unsubscribe()

    async def _work(self, reader: MessageReader[T], worker: Worker[T]) -> None:
        pulls = await self._link.streams.pull_subscribe_bind(consumer=self._consumer, stream=self._stream)
        task = asyncio.current_task()
        assert task is not None
        try:
            # `asyncio.wait_for` of Python 3.11 loses a cancellation that comes together with the response.
            while not task.cancelling():
                await self._link.wait_connected()
                try:
                    message = await self._link.wait_for(
                        f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}", _fetch(pulls)
                    )
                except BusError as error:
                    await self._on_failed_request(error)
                    continue
                self._link.errors.set_problem("work", None)
                if message is not None:
                    await self._try(message, reader, worker)
        finally:
            with suppress(nats.errors.Error):
                await pulls.unsubscribe()

    async def _try(self, message: Msg, reader: MessageReader[T], worker: Worker[T]) -> None:
        try:
            deliveries = message.metadata.num_delivered or 1
            redeliver = await reader.attempt(
                worker, message.subject, message.data, headers=message.headers, deliveries=deliveries
            )
        except asyncio.CancelledError:
            with suppress(nats.errors.Error):
                await message.nak()
            raise
        try:
            if redeliver is None:
                await message.ack_sync(timeout=int(_FETCH_TIMEOUT))
            else:
                await message.nak(delay=redeliver.after)
        except (nats.errors.Error, TimeoutError) as error:
            # The message is delivered again after ACK_WAIT. The worker that receives it must find out what was done
            # already.
            self._link.errors.count("acknowledgement", message.subject, error)

    async def _check(self) -> None:
        """Reports messages that the consumer skips, which it does until it is created again."""
        while True:
            await self._link.wait_connected()
            try:
                count = await skipped(self._link, self._queue)
                problem = (
                    f"{self._stream} lost messages: its consumer skips the next {count}: run `equipoise setup`"
                    if count
                    else None
                )
                self._link.errors.set_problem("work skipped", problem)
            except NotPermitted:
                return
            except BusError as error:
                if self._link.connected:
                    self._link.errors.count("work", self._stream, error)
            await self._clock.sleep(self._check_period)

    async def _on_failed_request(self, error: BusError) -> None:
        if self._link.connected:
            self._link.errors.count("work", self._stream, error)
            self._link.errors.set_problem("work", f"cannot take work from {self._stream}: {error}")
        await self._clock.sleep(_ERROR_PAUSE)

    async def _on_delivered_too_often(self, message: Msg) -> None:
        """Removes a message that no worker could process, because it would block its subject until it expires."""
        if message.subject != self._advisory:
            return  # not an advisory, but a message of a stream that was redirected to this subscription
        try:
            sequence = msgspec.json.decode(message.data, type=_DeliveredTooOften).stream_seq
            self._link.errors.count("delivered_too_often", self._stream, f"message {sequence} removed from the queue")
            await self._link.wait_for(
                f"$JS.API.STREAM.MSG.DELETE.{self._stream}",
                self._link.streams.delete_msg(self._stream, sequence),
            )
        except (BusError, msgspec.MsgspecError) as error:
            if not isinstance(error.__cause__, NotFoundError):
                self._link.errors.count("work", self._stream, error)


async def skipped(link: NatsConnection, stream: Stream) -> int:
    """The number of new messages that the consumer of a work queue skips because their sequence numbers are reused.

    After a power failure, nats-server may have lost the last messages of a stream, but not the state of its consumer. 0
    if the stream or the consumer does not exist. Raises NotPermitted and BusUnavailable.
    """
    reading = link.streams.consumer_info(stream.name, WORKERS)
    consumer = await link.find(f"$JS.API.CONSUMER.INFO.{stream.name}.{WORKERS}", reading)
    # The consumer is read first. Messages that the stream receives in between are delivered, and must not count as
    # skipped.
    info = await link.find(f"$JS.API.STREAM.INFO.{stream.name}", link.streams.stream_info(stream.name))
    if consumer is None or info is None or consumer.delivered is None:
        return 0
    return max(0, int(consumer.delivered.stream_seq) - int(info.state.last_seq))


async def _fetch(pulls: JetStreamContext.PullSubscription) -> Msg | None:
    """The next message, or None if there is none."""
    try:
        return (await pulls.fetch(1, timeout=_FETCH_TIMEOUT))[0]
    except nats.errors.TimeoutError:
        return None
