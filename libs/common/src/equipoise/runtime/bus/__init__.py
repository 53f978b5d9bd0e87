"""The bus: publish, subscribe, request. Messages are encoded and decoded in this package; only it imports nats-py.

This module has the interface for services. `connect` opens the real bus; `equipoise.testbed.memory.bus` has one for
tests.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from equipoise.contracts.bus.channels import Channel, M
from equipoise.runtime.process.clock import Clock, SystemClock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from equipoise.runtime.bus.errors import BusErrors
    from equipoise.runtime.configuration import Nats
    from equipoise.runtime.process.unreadable import UnreadableThings

T = TypeVar("T", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)


class BusError(Exception):
    """An operation of the bus failed."""


class BusUnavailable(BusError):
    """The message was not acknowledged in time, or the bus is not connected: try again later."""


class NotPermitted(BusError):
    """This user may not publish or subscribe to the subject."""


class NoResponders(BusError):
    """No service responds to this request at present."""


class AlreadyQueued(BusError):
    """The stream already holds a message of this subject (work queues only)."""


class TooLarge(BusError):
    """The message is larger than the server accepts: publish it in parts."""


class OutOfBounds(BusError):
    """A number in the message is beyond its bounds: no subscriber could read it."""


class InvalidSubject(BusError):
    """The server would refuse a message with this subject, and close the connection."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a message in its stream. `sequence` is 0 if no stream stores the message."""

    sequence: int = 0
    duplicate: bool = False
    """The stream has already stored a message with this id."""


class Delivery(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A received message."""

    subject: str
    message: T
    replayed: bool = False
    """Whether it was published before this subscription began (last value of its subject)."""

    last_attempt: bool = False
    """Whether a work queue does not deliver the message again, whatever the worker returns."""


class Redeliver(msgspec.Struct, frozen=True, kw_only=True):
    """Returned by a worker: deliver the message again later."""

    after: float
    """Seconds."""


Handler = Callable[[Delivery[T]], Awaitable[None]]
OnMessage = Callable[[M, float], object]
"""Called with a message and the time at which it is received (Unix seconds). False: the message is outdated."""

OnMessages = Callable[[Sequence[M], float], Sequence[bool]]
"""Called with several messages, and the time. Per message False: it is outdated."""

Stop = Callable[[], Awaitable[None]]
Worker = Callable[[Delivery[T]], Awaitable[Redeliver | None]]
"""None: the message is processed, acknowledge it."""


class Endpoint(msgspec.Struct, Generic[T, Response], frozen=True, kw_only=True):
    """A request subject that a service handles."""

    subject: str
    request_type: type[T]
    handler: Callable[[T], Awaitable[Response]]
    share: float = 0.2
    """Share (0..1) of the service's time that requests may take; more are refused. NATS delivers one at a time."""


class Bus(Protocol):
    """The interface of `NatsBus` and `equipoise.testbed.memory.MemoryBus`; both pass the same tests.

    Subscriptions survive reconnects and restarts of the server. A message that cannot be decoded is logged with its
    subject, counted, acknowledged and skipped: handlers receive only valid messages.
    """

    @property
    def connected(self) -> bool: ...

    @property
    def problems(self) -> Sequence[str]:
        """Problems for the operator: permission errors, full streams, lost connection. Empty if there are none."""
        ...

    @property
    def unreadable(self) -> "UnreadableThings":
        """Messages that were received and cannot be read or handled, by subject."""
        ...

    async def publish(self, subject: str, message: msgspec.Struct, *, message_id: str | None = None) -> Receipt:
        """Publish a message; stored if a stream of `contracts.bus.streams` has the subject. Always has a Nats-Msg-Id.

        Raises BusUnavailable, NotPermitted, TooLarge, and AlreadyQueued (the work queue has this subject). A message
        that could not be published is not buffered: it is not published when the connection is restored.
        """
        ...

    async def publish_many(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> int:
        """Publish many messages at once; returns how many were stored. Raises as `publish` does if none was."""
        ...

    async def subscribe(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        """Receive messages published from now on (core subscription, sequential per pattern)."""
        ...

    async def subscribe_latest(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        """Receive the last value of every matching subject, then new messages, in order per subject.

        Returns when the current last values have been handled. After a reconnect, the last values are delivered again.
        A value may be skipped if the next one of its subject is published before the delivery.
        """
        ...

    async def follow(
        self,
        channel: Channel[M],
        on_message: OnMessage[M],
        *,
        on_replayed: OnMessage[M] | None = None,
        keep_future: bool = False,
    ) -> None:
        """Receive the messages of a channel: first the last value of every subject, if a stream keeps it.

        A measurement of the far future is dropped: it would be the latest of its subject until then. Those, and the
        messages for which False is returned, are counted as outdated. `on_replayed`: called in place of `on_message`
        with messages that were published before. `keep_future`: `on_message` receives measurements of the far future,
        too: for publishers, whose epoch must be above all others, and where any message shows that the bus works.
        """
        ...

    async def follow_many(self, channel: Channel[M], on_messages: OnMessages[M]) -> None:
        """The same as `follow` with several messages at once: those that are received before other tasks run.

        It never waits for more. If `on_messages` raises, it is called again with each message alone.
        """
        ...

    async def work(self, kind: type[T], worker: Worker[T], *, concurrency: int = 1) -> None:
        """Process the work queue of intents, shared with the other replicas, until cancelled.

        If a worker raises, the message is delivered again after a pause. A message that was delivered too often is
        removed, so that it does not block its subject.
        """
        ...

    async def request(
        self, subject: str, request: msgspec.Struct, response: type[Response], *, timeout: float
    ) -> Response:
        """Send a request. Raises NoResponders, BusUnavailable (no response in time), BusError (the service failed)."""
        ...

    async def serve(self, name: str, endpoints: Sequence[Endpoint[Any, Any]]) -> Stop:
        """Handle requests as the micro service `name`, which `$SRV.*` lists. The returned function ends this."""
        ...


def connect(
    settings: "Nats",
    service: str,
    *,
    clock: Clock | None = None,
    metrics: "CollectorRegistry | None" = None,
    errors: "BusErrors | None" = None,
    ends_when_refused: bool = False,
) -> AbstractAsyncContextManager[Bus]:
    """Open the bus of a cluster: waits until it is available, and drains it at the end.

    Reconnects without limit. `service` is the prefix of the inbox, so it must be the name of the user if the server
    has users. `errors`: the errors of the bus, given by a caller that reports them before the bus is open. Only if the
    server rejects the credentials, the block is cancelled and BusUnavailable is raised. `ends_when_refused`: whether
    BusUnavailable is raised as well if servers refuse the first connection, as a command wants it, instead of waiting
    until they accept it.
    """
    from equipoise.runtime.bus.nats.nats_bus import open_bus

    return open_bus(
        settings, service, clock or SystemClock(), metrics, errors=errors, ends_when_refused=ends_when_refused
    )
