"""Access of commands to the bus: a single request, or the messages that a stream retains."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import msgspec

from equipoise.cli.progress import shown_activity
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.decoding import TolerantDecoder, plausible
from equipoise.contracts.bus.streams import stream_of
from equipoise.contracts.bus.subjects import matches
from equipoise.runtime.bus import BusUnavailable, NoResponders, connect
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.bus.nats.stream_reader import CONNECT_TIMEOUT, history, retained
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock, SystemClock

TIMEOUT = 20.0
"""Seconds for the connection and the response. With 5,000 nodes a plan takes seconds."""

R = TypeVar("R", bound=msgspec.Struct)


async def send_request(
    server: Nats, subject: str, request: msgspec.Struct, kind: type[R], *, no_responder: str, timeout: float = TIMEOUT
) -> R:
    """Send a request as the user tap and return the response.

    Raises BusError. `no_responder`: the text of the error if no service responds.
    """
    errors = BusErrors(SystemClock())
    try:
        async with (
            shown_activity("waiting for the answer of a service"),
            asyncio.timeout(timeout),
            connect(server, "tap", clock=SystemClock(), errors=errors, ends_when_refused=True) as bus,
        ):
            return await bus.request(subject, request, kind, timeout=timeout)
    except TimeoutError:
        raise BusUnavailable(
            f"no connection to {server.shown_url} within {timeout:g} s: check --nats, --user, --password-file "
            "and --nats-ca" + "".join(f" ({problem})" for problem in errors.problems)
        ) from None
    except NoResponders:
        raise NoResponders(no_responder) from None


async def retained_messages(
    server: Nats | NatsConnection,
    pattern: str,
    *,
    since: float,
    clock: Clock,
    user: str = "tap",
    connect_timeout: float = CONNECT_TIMEOUT,
) -> AsyncGenerator[tuple[str, msgspec.Struct], None]:
    """The subject and content of each retained message, oldest first. Messages that cannot be read are skipped, as
    services do.

    `server`: a connection, if one is open. `pattern`: subjects of one stream. `user`: the user whose inbox prefix is
    used. Raises BusError.
    """
    stream = stream_of(pattern)
    assert stream is not None
    channels = [channel for channel in CHANNELS if stream_of(channel.pattern) is stream]
    found = (
        retained(server, stream, since=since, pattern=pattern)
        if isinstance(server, NatsConnection)
        else history(server, user, stream, since=since, clock=clock, pattern=pattern, connect_timeout=connect_timeout)
    )
    async with aclosing(found) as payloads:
        async for subject, payload in payloads:
            kind = next((channel.message for channel in channels if matches(channel.pattern, subject)), None)
            if kind is None:
                continue
            try:
                message = plausible(TolerantDecoder(kind).decode(payload))
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue
            yield subject, message
