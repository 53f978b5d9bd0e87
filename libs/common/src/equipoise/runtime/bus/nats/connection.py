"""A connection to NATS that reconnects without limit, and reports which subjects the server forbids."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import nats.errors
import structlog
from nats.js import JetStreamContext, api
from nats.js.errors import APIError

from equipoise.runtime.async_tools.name_resolution import Resolve
from equipoise.runtime.bus import BusError, BusUnavailable, NotPermitted, TooLarge
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.refusals import Refusals
from equipoise.runtime.bus.nats.tls import TlsClient, client_context
from equipoise.runtime.bus.permissions import TAP_PREFIX
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.bounded_files import SECRET_LIMIT, read_bounded_text
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

log = structlog.get_logger()

R = TypeVar("R")

SETUP = "has `equipoise setup` (in the cluster the Job equipoise-setup) been run?"
"""Part of the error when a stream is missing."""

RESPONSE_TIMEOUT = 5.0
"""Seconds that the server has to acknowledge a message or respond to a request."""

RECONNECT_PAUSE = 2.0
"""Seconds between two attempts to connect to the same server."""

_OPENING_PAUSE = 0.5
"""Seconds between two attempts of a command to connect. Short, because a person waits."""

_PING_PERIOD = 10
"""Seconds between pings; two without a response mean that the connection is lost."""

_CLOSE_TIMEOUT = 3.0
"""Seconds that handlers have to finish when the bus is closed."""

_CONSUMER_LIFETIME = 30.0
"""Seconds without a request after which the server deletes the consumer of a reader."""

_NOT_FOUND = 404

_FORBIDDEN = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)


class CommandNats(Nats, frozen=True, kw_only=True):
    """The NATS settings of a command, which connects as one of the users."""

    client: str
    """The name of the command in the list of connections of the server."""


class ClusterNats(CommandNats, frozen=True, kw_only=True):
    """The NATS server of an Equipoise that certainly works on the cluster of the kubeconfig."""


class ForwardedNats(ClusterNats, frozen=True, kw_only=True):
    """The NATS server in the cluster of the kubeconfig, reached through a port-forward."""

    pod: str
    """The pod of the server: NAMESPACE/NAME:PORT."""

    server_name: str = ""
    """The name in the certificate of the server, if it differs from the address."""

    @property
    def shown_url(self) -> str:
        """The pod instead of the local URL, whose port no longer exists when the command has ended."""
        return f"pod {self.pod} through the API server"


class NatsConnection:
    """A connection that does not buffer messages while it is down, because they would be outdated after a reconnect."""

    def __init__(
        self,
        settings: Nats,
        service: str,
        errors: BusErrors,
        reconnect_pause: float = RECONNECT_PAUSE,
        resolve: Resolve[Any] | None = None,
        *,
        ends_when_refused: bool = False,
    ) -> None:
        """`resolve`: the resolution of names; by default that of the event loop. `ends_when_refused`: see `open`."""
        self.service = service
        self.errors = errors
        required, renew = settings.tls is not None, self._renew_certificates
        self.client = TlsClient(required=required, before_attempt=renew, resolve=resolve)
        self.streams = JetStreamContext(self.client, timeout=RESPONSE_TIMEOUT)
        self._settings = settings
        self._reconnect_pause = reconnect_pause
        self._refusals = Refusals(settings) if ends_when_refused else None
        self._begun = False
        self._waits_because = ""
        self._opened = False
        self._closing = False
        self._up = asyncio.Event()
        self._ended = asyncio.Event()
        self._lost: set[Callable[[], None]] = set()
        self._interruptible: dict[str, set[asyncio.Future[Any]]] = {}
        self._forbidden: set[str] = set()

    @property
    def connected(self) -> bool:
        """Whether the bus can be used. The client is connected before it calls `reconnected_cb`."""
        return bool(self.client.is_connected) and self._up.is_set()

    async def open(self) -> None:
        """Connects, for as long as it takes. Logs why it still waits, whenever the reason changes.

        Raises BusUnavailable if the files of `nats.tls` cannot be read, and with `ends_when_refused` also when
        `Refusals` raises it.
        """
        options: dict[str, Any] = {}
        if self._settings.user is not None:
            options |= {"user": self._settings.user, "password": self._password}
        if self._settings.tls is not None:
            try:
                options["tls"] = client_context(self._settings.tls)
                if isinstance(self._settings, ForwardedNats) and self._settings.server_name:
                    options["tls_hostname"] = self._settings.server_name
            except OSError as error:
                raise BusUnavailable(f"nats.tls: {error.filename or self._settings.tls.ca_file}: {error}") from error
        self._report_unconnected()
        self._begun = True
        pause = self._reconnect_pause if self._refusals is None else _OPENING_PAUSE
        connecting = self.client.connect(
            list(self._settings.urls),
            name=f"equipoise-{self._settings.client if isinstance(self._settings, CommandNats) else self.service}",
            inbox_prefix=f"_INBOX.{self.service}",
            max_reconnect_attempts=-1,
            reconnect_time_wait=pause,  # type: ignore[arg-type]  # it accepts any number
            ping_interval=_PING_PERIOD,
            max_outstanding_pings=2,
            drain_timeout=int(_CLOSE_TIMEOUT),
            pending_size=0,  # without a connection, publishing fails at once, so that nothing outdated is sent later
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_connected,
            closed_cb=self._on_closed,
            **options,
        )
        await _cancellable(connecting)
        self._opened = True
        self._refusals = None
        self.client.options["reconnect_time_wait"] = self._reconnect_pause
        await self._on_connected()

    async def close(self) -> None:
        """Waits a few seconds for running handlers, then closes the connection, even if the caller is cancelled
        meanwhile."""
        self._closing = True
        if not self._begun:
            return
        closing = asyncio.create_task(self._close_client(), name="close the bus")
        try:
            await asyncio.shield(closing)  # the client would ignore the cancellation, and stop reading
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise

    async def _close_client(self) -> None:
        with suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(2 * _CLOSE_TIMEOUT):
                if self.connected:
                    await self.client.drain()
                await self.client.close()

    async def ended(self) -> None:
        """Wait until the client closes the connection by itself, which it does when its credentials are rejected.

        Then raises BusUnavailable, so that the process ends. After its restart, it reads the credentials again.
        """
        await self._ended.wait()
        raise BusUnavailable(f"the bus closed the connection permanently: {self.client.last_error}")

    async def wait_connected(self) -> None:
        await self._up.wait()

    def when_lost(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever the connection is lost, until the returned function is called."""
        self._lost.add(callback)
        return lambda: self._lost.discard(callback)

    async def wait_for(self, subject: str, operation: Coroutine[Any, Any, R]) -> R:
        """The result of `operation` on `subject`. Stops waiting when no response can arrive any more.

        Raises NotPermitted, BusUnavailable or TooLarge.
        """
        if not self.connected:
            operation.close()
            raise BusUnavailable(f"{subject}: not connected to the bus")
        interruption: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.interruptible(subject, interruption)
        task = asyncio.ensure_future(operation)
        try:
            await asyncio.wait((task, interruption), return_when=asyncio.FIRST_COMPLETED)
            if interruption.done():
                interruption.result()
            return task.result()
        except (nats.errors.Error, TimeoutError) as error:
            raise self.as_bus_error(subject, error) from error
        finally:
            task.cancel()
            interruption.cancel()

    async def find(self, subject: str, operation: Coroutine[Any, Any, R]) -> R | None:
        """The result of `wait_for`, or None if JetStream responds that the stream or consumer does not exist."""
        try:
            return await self.wait_for(subject, operation)
        except BusUnavailable as error:
            if isinstance(error.__cause__, APIError) and error.__cause__.code == _NOT_FOUND:
                return None
            raise

    async def create_reader(self, stream: str, pattern: str, **start: Any) -> tuple[str, int]:
        """Creates a temporary consumer. Returns its name and the number of its messages. `start`: its deliver policy.

        Permissions depend on the name and the filter of a consumer, so both are set. Raises BusError if there is no
        such stream.
        """
        name = f"{self.service}-{uuid.uuid4().hex[:12]}"
        config = api.ConsumerConfig(
            name=name,
            filter_subject=pattern,
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=_CONSUMER_LIFETIME,
            **start,
        )
        create = self.streams.add_consumer(stream, config)
        info = await self.find(f"$JS.API.CONSUMER.CREATE.{stream}.{name}.{pattern}", create)
        if info is None:
            raise BusError(f"there is no stream {stream}: `equipoise setup` creates it")
        return name, info.num_pending or 0

    def interruptible(self, subject: str, response: asyncio.Future[Any]) -> None:
        """Fails a future when the server forbids `subject` or the connection is lost, because no response will
        arrive."""
        key = subject.lower()
        waiting = self._interruptible.setdefault(key, set())
        waiting.add(response)

        def remove(_: object) -> None:
            waiting.discard(response)
            if not waiting and self._interruptible.get(key) is waiting:
                del self._interruptible[key]

        response.add_done_callback(remove)

    async def permitted(self, subject: str) -> None:
        """Wait until the server has processed what was sent so far. Raises NotPermitted if it forbids `subject`."""
        with suppress(nats.errors.Error, TimeoutError):
            # A ping is sent before data that the client has buffered, so only the response to the second ping follows
            # that data.
            await self._ping()
            await self._ping()
        if subject.lower() in self._forbidden:
            self._forbidden.discard(subject.lower())
            raise NotPermitted(f"{self.service} is not permitted {subject}")

    async def _ping(self) -> None:
        """Sends a ping and waits for the response. Raises TimeoutError, and ConnectionClosedError without a connection.

        `flush` of the client would do the same, but before Python 3.12 it ignores a cancellation that arrives together
        with the response. After an earlier cancellation, the client stops reading at the response.
        """
        if not self.connected:
            raise nats.errors.ConnectionClosedError
        response: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await self.client._send_ping(response)
        async with asyncio.timeout(RESPONSE_TIMEOUT):
            await asyncio.wait([response])

    def as_bus_error(self, subject: str, error: Exception) -> BusError:
        """An error of the client for `subject`, as an error of the bus."""
        if isinstance(error, nats.errors.MaxPayloadError):
            return TooLarge(f"{subject}: the message is larger than the bus takes ({self.client.max_payload} bytes)")
        if isinstance(error, APIError):
            return BusUnavailable(f"{subject}: {error.description or f'nothing responds on this subject: {SETUP}'}")
        if isinstance(error, TimeoutError):
            return BusUnavailable(f"{subject}: the bus did not respond within {RESPONSE_TIMEOUT:g} s")
        return BusUnavailable(f"{subject}: {error}")

    def _password(self) -> str:
        """The password. It is read at every connect, so that a rotated Secret is used."""
        file = self._settings.password_file
        return read_bounded_text(file, SECRET_LIMIT).strip() if file else ""

    async def _on_error(self, error: Exception) -> None:
        text = str(error)
        if found := _FORBIDDEN.search(text):
            self._on_forbidden(found[1].lower(), found[2].lower().removeprefix(TAP_PREFIX.lower()))
        elif isinstance(error, nats.errors.SlowConsumerError):
            self.errors.count("slow_consumer", error.subject, "messages were dropped: the handler is too slow")
            self.errors.set_problem("slow", f"messages of {error.subject} were dropped: the handler is too slow")
        else:
            reason = failure_reason(error)
            if self._opened:
                self.errors.count("connection", self._settings.shown_url, reason)
            elif reason != self._waits_because:
                self._waits_because = reason
                log.warning("waiting for the bus", url=self._settings.shown_url, error=reason)
            if not self.connected and not self._closing:
                self._report_unconnected(reason)
            if self._refusals is not None:
                # What it raises ends the client's `connect`.
                self._refusals.add(self.client.attempted, error, self.client.addresses)

    def _report_unconnected(self, reason: str = "") -> None:
        text = f"not connected to the bus at {self._settings.shown_url}"
        self.errors.set_problem("connection", f"{text}: {reason}" if reason else text, lasting=True)

    def _on_forbidden(self, right: str, subject: str) -> None:
        text = f"{self.service} is not permitted the {right} of {subject}"
        self.errors.count("permission", subject, text)
        # A subscription is rejected only once, when it is created, so its problem lasts. A publication is rejected each
        # time.
        self.errors.set_problem(f"permission {subject}", text, lasting=right == "subscription")
        self._forbidden.add(subject)
        self._interrupt(subject, NotPermitted(text))

    def _interrupt(self, subject: str, error: BusError) -> None:
        for response in list(self._interruptible.get(subject, ())):
            if not response.done():
                response.set_exception(error)

    async def _on_connected(self) -> None:
        self._forbidden.clear()
        self.errors.set_problem("connection", None)
        self.errors.certificate_end.set(self.client.certificate_end or 0.0)
        self._up.set()
        log.info("connected to the bus", url=self._settings.shown_url)

    async def _on_disconnected(self) -> None:
        self._up.clear()
        # After the reconnect, the client would send its buffered messages, which are outdated then.
        self.client._pending = []
        self.client._pending_data_size = 0
        if self._closing:
            return
        where = self._settings.shown_url
        self.errors.clear("permission")  # problems that persist are reported again after the reconnect
        self.errors.count("connection", where, self.client.last_error or "connection lost")
        self._report_unconnected()
        for subject in list(self._interruptible):
            self._interrupt(subject, BusUnavailable(f"{subject}: the connection was lost before the bus responded"))
        for callback in list(self._lost):
            callback()

    def _renew_certificates(self) -> None:
        """Reads the certificates again for an attempt to connect.

        Both sides may be renewed at any time, in any order, and a mounted Secret changes with a delay. A new context is
        created, because a context trusts every CA that it ever loaded.
        """
        if self._settings.tls is None:
            return
        try:
            self.client.options["tls"] = client_context(self._settings.tls)
        except OSError as error:
            # Only some of the files are renewed yet. The client must continue to connect.
            self.errors.count("connection", self._settings.shown_url, f"{error}; the previous certificates are used")

    async def _on_closed(self) -> None:
        if not self._closing:
            self._ended.set()


async def _cancellable(operation: Coroutine[Any, Any, R]) -> R:
    """The result of an operation of the client. Before Python 3.12, the client ignores a cancellation that arrives
    together with the response.
    """
    task = asyncio.create_task(operation)
    try:
        await asyncio.wait([task])
        return task.result()
    finally:
        task.cancel()


@asynccontextmanager
async def connected_within(seconds: float, settings: Nats, user: str, clock: Clock) -> AsyncIterator[NatsConnection]:
    """A connection for a command. `user` names the inbox, as in `connect`. Raises BusUnavailable, also if the server
    refuses it."""
    link = NatsConnection(settings, user, BusErrors(clock), ends_when_refused=True)
    try:
        try:
            async with asyncio.timeout(seconds):
                await link.open()
        except TimeoutError:
            why = f": {failure_reason(link.client.last_error)}" if link.client.last_error else ""
            raise BusUnavailable(f"the bus at {settings.shown_url} was not reached within {seconds:g} s{why}") from None
        yield link
    finally:
        await link.close()
