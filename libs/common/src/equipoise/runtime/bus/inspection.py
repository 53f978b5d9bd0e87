"""A look at the server: how our streams are made, and what it lets this user do. It changes nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from nats.js.errors import APIError

from equipoise.contracts.bus.streams import WORKERS, Stream
from equipoise.runtime.bus import BusError, BusUnavailable
from equipoise.runtime.bus.connection import ANSWER_TIMEOUT, NatsConnection
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.permissions import OWN_RIGHTS
from equipoise.runtime.bus.setup import stream_config
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

_CONNECT_TIMEOUT = 5.0
"""Seconds to reach the bus: a person waits."""

_NOT_FOUND = 404

_COMPARED = ("storage", "retention", "max_msgs_per_subject", "discard", "max_bytes")
"""Of a stream's configuration, beside its subjects; its life is a setting."""


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    allow: list[str] | None = None
    """None: everything."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    publish: Allowed = Allowed()
    subscribe: Allowed = Allowed()


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """As whom the server knows us."""

    user: str = ""
    permissions: Rights | None = None
    """None: no limits."""


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    data: Identity = Identity()


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as the server has it."""

    subjects: tuple[str, ...]
    max_age: float
    """Seconds; 0: for ever."""

    differences: dict[str, tuple[str, str]]
    """By property what it is and what it should be; neither subjects nor life are among them."""

    waiting: int | None = None
    """Of a work queue: messages that nobody has taken; None: it has no consumer of ours."""

    workers: int = 0
    """Of a work queue: requests for work that are open."""


class Inspection:
    """Asks; every method raises NotPermitted, or BusUnavailable when there is no answer."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link

    async def identity(self) -> Identity:
        """Who we are and what we may do."""
        asking = self._link.client.request(OWN_RIGHTS, b"", timeout=ANSWER_TIMEOUT)
        answer = await self._link.answered(OWN_RIGHTS, asking)
        try:
            return msgspec.json.decode(answer.data, type=_Said).data
        except msgspec.MsgspecError as error:
            raise BusError(f"{OWN_RIGHTS}: the response cannot be decoded: {error}") from error

    async def stream(self, wanted: Stream) -> StreamState | None:
        """None: there is no stream of this name."""
        info = await self._found(f"$JS.API.STREAM.INFO.{wanted.name}", self._link.streams.stream_info(wanted.name))
        if info is None:
            return None
        waiting, workers = await self._queue(wanted) if wanted.work_queue else (None, 0)
        has, should = info.config, stream_config(wanted, 1)
        return StreamState(
            subjects=tuple(has.subjects or ()),
            max_age=has.max_age or 0.0,
            differences={
                name: (_shown(have), _shown(want))
                for name in _COMPARED
                if (have := _plain(getattr(has, name))) != (want := _plain(getattr(should, name)))
            },
            waiting=waiting,
            workers=workers,
        )

    async def _queue(self, stream: Stream) -> tuple[int | None, int]:
        asking = self._link.streams.consumer_info(stream.name, WORKERS)
        info = await self._found(f"$JS.API.CONSUMER.INFO.{stream.name}.{WORKERS}", asking)
        return (None, 0) if info is None else (info.num_pending or 0, info.num_waiting or 0)

    async def _found(self, subject: str, asking: Any) -> Any:
        try:
            return await self._link.answered(subject, asking)
        except BusUnavailable as error:
            if isinstance(error.__cause__, APIError) and error.__cause__.code == _NOT_FOUND:
                return None
            raise


@asynccontextmanager
async def inspecting(settings: Nats, user: str, clock: Clock) -> AsyncIterator[Inspection]:
    """A connection for looking. `user` names the inbox, as in `connect`. Raises BusUnavailable when not let in."""
    link = NatsConnection(settings, user, BusErrors(clock))
    try:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await link.open()
        except TimeoutError:
            why = link.client.last_error
            raise BusUnavailable(
                f"not let in at {settings.url} within {_CONNECT_TIMEOUT:g} s{f': {why}' if why else ''}"
            ) from None
        yield Inspection(link)
    finally:
        await link.close()


def _plain(value: Any) -> Any:
    """The server says -1 where nothing was set."""
    return -1 if value in (None, 0) else value


def _shown(value: Any) -> str:
    return str(getattr(value, "value", value))
