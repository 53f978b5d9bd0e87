"""Reads the messages that a stream holds, once from beginning to end: for reports, not for services."""

import datetime
from collections.abc import AsyncGenerator

import nats.errors
from nats.js import api

from equipoise.contracts.bus.streams import Stream
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.connection import connected_within
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

_BATCH = 256
"""Messages per request."""

CONNECT_TIMEOUT = 10.0
"""Seconds to reach the bus: a person waits."""

_SILENCE = 5.0
"""Seconds without a message after which there are no more: the last ones were replaced while they were read."""


async def history(
    settings: Nats,
    user: str,
    stream: Stream,
    *,
    since: float,
    clock: Clock,
    pattern: str = "",
    connect_timeout: float = CONNECT_TIMEOUT,
) -> AsyncGenerator[tuple[str, bytes], None]:
    """Subject and payload of every message that the stream has kept since `since` (Unix seconds), oldest first.

    `user` names the inbox, as in `connect`. `pattern`: only these subjects; default: the first of the stream. The
    stream must be one that users may read. Raises BusUnavailable when the bus cannot be reached, NotPermitted, and
    BusError when there is no such stream.
    """
    async with connected_within(connect_timeout, settings, user, clock) as link:
        name, waiting = await link.create_reader(
            stream.name,
            pattern or stream.subjects[0],
            deliver_policy=api.DeliverPolicy.BY_START_TIME,
            opt_start_time=datetime.datetime.fromtimestamp(since, datetime.UTC),
        )
        messages = await link.streams.pull_subscribe_bind(consumer=name, stream=stream.name)
        while waiting:
            try:
                batch = await messages.fetch(min(waiting, _BATCH), timeout=_SILENCE)
            except nats.errors.TimeoutError:
                if not link.connected:
                    raise BusUnavailable("the connection was lost") from None
                return
            except nats.errors.Error as error:
                raise link.as_bus_error(stream.name, error) from error
            for message in batch:
                yield message.subject, message.data
            waiting = batch[-1].metadata.num_pending
