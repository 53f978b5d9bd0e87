"""Reads the configuration of the streams and the permissions of this user from the server. Changes nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from equipoise.contracts.bus.streams import WORKERS, Stream
from equipoise.runtime.bus import BusError
from equipoise.runtime.bus.nats.connection import RESPONSE_TIMEOUT, NatsConnection, connected_within
from equipoise.runtime.bus.nats.work_queue import skipped
from equipoise.runtime.bus.permissions import OWN_RIGHTS
from equipoise.runtime.bus.setup import stream_config
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

_CONNECT_TIMEOUT = 5.0
"""Seconds to connect to the bus. Short, because a person waits."""

_COMPARED = (
    "storage",
    "retention",
    "max_msgs_per_subject",
    "discard",
    "max_bytes",
    "max_msg_size",
    "allow_direct",
    "allow_msg_ttl",
    "num_replicas",
)
"""The properties of a stream that are compared, besides its subjects. The maximum age is a setting, so it may
differ."""


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    allow: list[str] | None = None
    """Patterns of allowed subjects; None if all are allowed."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    publish: Allowed = Allowed()
    subscribe: Allowed = Allowed()


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """This user, as the server knows it."""

    user: str = ""
    permissions: Rights | None = None
    """None if the user may do everything."""


class _UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    data: Identity = Identity()


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """A stream on the server."""

    subjects: tuple[str, ...]
    max_age: float
    """Seconds; 0: unlimited."""

    differences: dict[str, tuple[str, str]]
    """The actual and the expected value of each property that differs, except subjects and maximum age."""

    waiting: int | None = None
    """The messages of a work queue that no worker has received; None: the consumer of the workers does not exist."""

    skipped: int = 0
    """The new messages of a work queue that its consumer skips."""

    workers: int = 0
    """The open requests of workers for messages of a work queue."""


class Inspection:
    """Requests about this user and the streams. Methods raise NotPermitted, or BusUnavailable if there is no
    response."""

    def __init__(self, link: NatsConnection, replicas: int) -> None:
        self._link = link
        self._replicas = replicas

    @property
    def certificate_end(self) -> float | None:
        """The time at which the certificate of the server expires (Unix seconds); None without TLS."""
        return self._link.client.certificate_end

    async def identity(self) -> Identity:
        """This user and its permissions."""
        request = self._link.client.request(OWN_RIGHTS, b"", timeout=RESPONSE_TIMEOUT)
        response = await self._link.wait_for(OWN_RIGHTS, request)
        try:
            return msgspec.json.decode(response.data, type=_UserInfo).data
        except msgspec.MsgspecError as error:
            raise BusError(f"{OWN_RIGHTS}: the response cannot be decoded: {error}") from error

    async def stream(self, expected: Stream) -> StreamState | None:
        """The state of a stream on the server; None if it does not exist."""
        name = expected.name
        info = await self._link.find(f"$JS.API.STREAM.INFO.{name}", self._link.streams.stream_info(name))
        if info is None:
            return None
        queue = None
        if expected.work_queue:
            request = self._link.streams.consumer_info(name, WORKERS)
            queue = await self._link.find(f"$JS.API.CONSUMER.INFO.{name}.{WORKERS}", request)
        actual, wanted = info.config, stream_config(expected, self._replicas)
        compared = {key: (_plain(getattr(actual, key)), _plain(getattr(wanted, key))) for key in _COMPARED}
        return StreamState(
            subjects=tuple(actual.subjects or ()),
            max_age=actual.max_age or 0.0,
            differences={
                key: (_shown(actual_value), _shown(wanted_value))
                for key, (actual_value, wanted_value) in compared.items()
                if actual_value != wanted_value
            },
            waiting=None if queue is None else queue.num_pending or 0,
            skipped=await skipped(self._link, expected) if expected.work_queue else 0,
            workers=0 if queue is None else queue.num_waiting or 0,
        )


@asynccontextmanager
async def inspecting(settings: Nats, user: str, clock: Clock) -> AsyncIterator[Inspection]:
    """A connection for one inspection. `user` names the inbox, as in `connect`. Raises BusUnavailable."""
    async with connected_within(_CONNECT_TIMEOUT, settings, user, clock) as link:
        yield Inspection(link, settings.replicas)


def _plain(value: Any) -> Any:
    """A value for comparison. The server returns -1 if it is not set, where the client has None or 0."""
    return -1 if value in (None, 0) else value


def _shown(value: Any) -> str:
    return str(getattr(value, "value", value))
