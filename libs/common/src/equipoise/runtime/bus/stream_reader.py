"""What a stream holds since some moment, read once from beginning to end: for reports, not for services."""

import asyncio
import datetime
import uuid
from collections.abc import AsyncGenerator

import nats.errors
from nats.js import api
from nats.js.errors import APIError

from equipoise.contracts.bus.streams import Stream
from equipoise.runtime.bus import BusError, BusUnavailable
from equipoise.runtime.bus.connection import NatsConnection
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

_BATCH = 256
"""Messages asked for at once."""

_CONNECT_TIMEOUT = 10.0
"""Seconds to reach the bus: a person waits."""

_SILENCE = 5.0
"""Seconds without a message after which there are no more: the last ones were overtaken while they were read."""

_CONSUMER_LIFE = 30.0

_NOT_FOUND = 404


async def history(
    settings: Nats, user: str, stream: Stream, *, since: float, clock: Clock, pattern: str = ""
) -> AsyncGenerator[tuple[str, bytes], None]:
    """Subject and payload of everything that the stream has kept since `since` (Unix seconds), oldest first.

    `user` names the inbox, as in `connect`. `pattern`: only these subjects; default: the first of the stream. The
    stream must be one that may be read back. Raises BusUnavailable when the bus cannot be reached, NotPermitted, and
    BusError when there is no such stream.
    """
    link = NatsConnection(settings, user, BusErrors(clock))
    try:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await link.open()
        except TimeoutError:
            raise BusUnavailable(f"the bus at {settings.url} was not reached within {_CONNECT_TIMEOUT:g} s") from None
        name, waiting = await _make_consumer(link, stream, pattern or stream.subjects[0], since)
        messages = await link.streams.pull_subscribe_bind(consumer=name, stream=stream.name)
        while waiting:
            try:
                batch = await messages.fetch(min(waiting, _BATCH), timeout=_SILENCE)
            except nats.errors.TimeoutError:
                if not link.connected:
                    raise BusUnavailable("the connection was lost") from None
                return
            except nats.errors.Error as error:
                raise link.meaning(stream.name, error) from error
            for message in batch:
                yield message.subject, message.data
            waiting = batch[-1].metadata.num_pending
    finally:
        await link.close()


async def _make_consumer(link: NatsConnection, stream: Stream, pattern: str, since: float) -> tuple[str, int]:
    """Its name, and how many messages it will give. With a name and a filter, because rights are given by both."""
    name = f"{link.service}-{uuid.uuid4().hex[:12]}"
    config = api.ConsumerConfig(
        name=name,
        filter_subject=pattern,
        deliver_policy=api.DeliverPolicy.BY_START_TIME,
        opt_start_time=datetime.datetime.fromtimestamp(since, datetime.UTC),
        ack_policy=api.AckPolicy.NONE,
        mem_storage=True,
        num_replicas=1,
        inactive_threshold=_CONSUMER_LIFE,
    )
    subject = f"$JS.API.CONSUMER.CREATE.{stream.name}.{name}.{pattern}"
    try:
        info = await link.answered(subject, link.streams.add_consumer(stream.name, config))
    except BusUnavailable as error:
        if isinstance(error.__cause__, APIError) and error.__cause__.code == _NOT_FOUND:
            raise BusError(f"there is no stream {stream.name}: `equipoise setup` makes it") from error
        raise
    return name, info.num_pending or 0
