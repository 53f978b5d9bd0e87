"""The bus: what services say and hear. Bytes begin and end in this package; only it touches nats-py.

Here is what services know of it; `connect` opens the real one, `equipoise.testbed.memory.bus` has one for tests.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from equipoise.runtime.process.clock import Clock, SystemClock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from equipoise.runtime.configuration import Nats

T = TypeVar("T", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)


class BusError(Exception):
    """The bus did not do what was asked."""


class BusUnavailable(BusError):
    """Nobody took the message in time, or nobody is connected: try again later."""


class NotPermitted(BusError):
    """The server does not let this user say or hear that."""


class NoResponders(BusError):
    """Nobody answers this question at present."""


class AlreadyQueued(BusError):
    """The stream already holds a message of this subject (work queues only)."""


class TooLarge(BusError):
    """The message is larger than the server takes: say it in parts."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is kept. `sequence` is 0 for a message that no stream keeps."""

    sequence: int = 0
    duplicate: bool = False
    """The stream has seen this message id before."""


class Delivery(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A message as it came."""

    subject: str
    message: T
    replayed: bool = False
    """It was said before this subscription began (last value of its subject)."""

    last_attempt: bool = False
    """Of work: it is not delivered again, whatever the worker answers."""


class Redeliver(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's answer: not now, deliver it again."""

    after: float
    """Seconds."""


Handler = Callable[[Delivery[T]], Awaitable[None]]
Stop = Callable[[], Awaitable[None]]
Worker = Callable[[Delivery[T]], Awaitable[Redeliver | None]]
"""None: settled, acknowledge it."""


class Endpoint(msgspec.Struct, Generic[T, Response], frozen=True, kw_only=True):
    """One question that a service answers."""

    subject: str
    request_type: type[T]
    handler: Callable[[T], Awaitable[Response]]


class Bus(Protocol):
    """What `NatsBus` and `equipoise.testbed.memory.MemoryBus` both do, held to the same tests.

    Subscriptions survive reconnects and restarts of the server. A message that cannot be read is logged with its
    subject, counted, acknowledged and passed over: handlers see only whole messages.
    """

    @property
    def connected(self) -> bool: ...

    @property
    def problems(self) -> Sequence[str]:
        """What an operator should know: permission errors, full streams, lost connection. Empty when well."""
        ...

    async def publish(self, subject: str, message: msgspec.Struct, *, message_id: str | None = None) -> Receipt:
        """Say something; kept if a stream of `contracts.subjects` has the subject. Always carries a Nats-Msg-Id.

        Raises BusUnavailable, NotPermitted, TooLarge, and Refused (work queue already holds this subject). What was
        not said now is never said later by itself: nothing waits in a buffer for the connection to come back.
        """
        ...

    async def publish_many(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> int:
        """Say many things at once; returns how many were kept. Raises as `publish` does when none was."""
        ...

    async def subscribe(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        """Hear what is said from now on (core subscription, sequential per pattern)."""
        ...

    async def subscribe_latest(self, pattern: str, kind: type[T], handler: Handler[T]) -> None:
        """Hear the last value of every matching subject, then what is said from now on, in order per subject.

        Returns when the last values of this moment have been handled. After a reconnect the last values come again.
        A value that is overtaken by the next one of its subject before it was delivered may be left out.
        """
        ...

    async def work(self, kind: type[T], worker: Worker[T], *, concurrency: int = 1) -> None:
        """Share the work queue of intents with the other replicas until cancelled.

        A worker that raises is asked again after a pause. A message that was delivered too often is passed over
        and removed, so that it does not block its subject.
        """
        ...

    async def request(
        self, subject: str, question: msgspec.Struct, answer: type[Response], *, timeout: float
    ) -> Response:
        """Ask. Raises NoResponders (nobody there), BusUnavailable (too late), BusError (the service failed)."""
        ...

    async def serve(self, name: str, endpoints: Sequence[Endpoint[Any, Any]]) -> Stop:
        """Answer questions as the micro service `name`; `$SRV.*` tells of it. What it returns ends that."""
        ...


def connect(
    settings: "Nats", service: str, *, clock: Clock | None = None, metrics: "CollectorRegistry | None" = None
) -> AbstractAsyncContextManager[Bus]:
    """Open the bus of a cluster: waits until it is there, closes it drained.

    Reconnects for ever by itself. `service` names the inbox, so it must be the user's name where the server has
    users. Only when the server does not let us in any more, the block is cancelled and BusUnavailable raised.
    """
    from equipoise.runtime.bus.nats_bus import open_bus

    return open_bus(settings, service, clock or SystemClock(), metrics)
