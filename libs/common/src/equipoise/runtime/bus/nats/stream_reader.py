"""Reads the messages of a stream once, from beginning to end. For reports, not for services."""

import datetime
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
import nats.errors
from nats.aio.subscription import Subscription

from equipoise.contracts.bus.channels import message_types
from equipoise.contracts.bus.streams import Stream
from equipoise.runtime.bus import BusError
from equipoise.runtime.bus.codec import SUBJECT, TYPE, Headers
from equipoise.runtime.bus.nats.connection import RESPONSE_TIMEOUT, SETUP, NatsConnection, connected_within
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

_BATCH = 256
"""The number of messages per request."""

CONNECT_TIMEOUT = 10.0
"""Seconds to connect to the bus. Short, because a person waits."""

_END_OF_BATCH, _NO_MORE_MESSAGES, _NO_RESPONDERS = "204", "404", "503"
"""Statuses of the response that ends a request."""


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

    `user` names the inbox, as in `connect`. `pattern`: the subjects to read, by default the first pattern of the
    stream. Users must be permitted to read the stream. Raises BusUnavailable when the bus cannot be reached,
    NotPermitted, and BusError when there is no such stream.
    """
    async with (
        connected_within(connect_timeout, settings, user, clock) as link,
        aclosing(retained(link, stream, since=since, pattern=pattern)) as messages,
    ):
        async for message in messages:
            yield message


async def retained(
    link: NatsConnection, stream: Stream, *, since: float, pattern: str = ""
) -> AsyncGenerator[tuple[str, bytes], None]:
    """The same as `history`, by a connection that is open."""
    subject = f"$JS.API.DIRECT.GET.{stream.name}"  # without a consumer: users may not create one
    start = datetime.datetime.fromtimestamp(since, datetime.UTC).isoformat()
    types = message_types(pattern or stream.subjects[0]) | {None}
    request: dict[str, Any] = {"batch": _BATCH, "next_by_subj": pattern or stream.subjects[0], "start_time": start}
    inbox = link.client.new_inbox()
    try:
        responses = await link.client.subscribe(inbox)
    except nats.errors.Error as error:
        raise link.as_bus_error(subject, error) from error
    waiting = True
    while waiting:
        messages, end = await link.wait_for(subject, _batch(link, subject, request, inbox, responses))
        for headers, payload in messages:
            message_subject = headers["Nats-Subject"]
            # Messages that were redirected, or have another type, are skipped.
            if message_subject == headers.get(SUBJECT) and headers.get(TYPE) in types:
                yield message_subject, payload
        if messages:
            request.pop("start_time", None)
            request["seq"] = int(messages[-1][0]["Nats-Sequence"]) + 1
        status = end["Status"]
        waiting = status == _END_OF_BATCH and end["Nats-Num-Pending"] != "0"
    if status == _NO_RESPONDERS:
        raise BusError(f"there is no stream {stream.name} that may be read: {SETUP}")
    if status not in (_END_OF_BATCH, _NO_MORE_MESSAGES):
        raise BusError(f"{subject}: {status} {end.get('Description', '')}")


async def _batch(
    link: NatsConnection, subject: str, request: dict[str, Any], inbox: str, responses: Subscription
) -> tuple[list[tuple[Headers, bytes]], Headers]:
    """Headers and payload of the messages of one request, and the headers of the response that ends it."""
    await link.client.publish(subject, msgspec.json.encode(request), reply=inbox)
    messages: list[tuple[Headers, bytes]] = []
    while True:
        message = await responses.next_msg(timeout=RESPONSE_TIMEOUT)
        headers = message.headers or {}
        if "Status" in headers:
            return messages, headers
        messages.append((headers, message.data))
