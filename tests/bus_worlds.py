"""The two buses with one interface, so that the same tests run on both: in memory, and a real nats-server."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.subscription import Subscription

from equipoise.contracts.bus.streams import with_max_ages
from equipoise.runtime.bus import Bus, Delivery
from equipoise.runtime.bus.codec import SUBJECT
from equipoise.runtime.bus.dev_server import embedded_server
from equipoise.runtime.bus.nats.nats_bus import NatsBus, open_bus
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.processes.loopback import PortBlock

T = TypeVar("T", bound=msgspec.Struct)

INTENT_LIFETIME = 60.0

PATIENCE = 60.0
"""Seconds after which a test fails, also on a slow machine."""


class Received(Generic[T]):
    """A handler that records deliveries; a test can wait for them."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery[T]] = []
        self._changed = asyncio.Event()

    async def __call__(self, delivery: Delivery[T]) -> None:
        self.deliveries.append(delivery)
        self._changed.set()

    @property
    def messages(self) -> list[T]:
        return [delivery.message for delivery in self.deliveries]

    async def until(self, enough: int | Callable[[list[Delivery[T]]], bool]) -> None:
        """Wait for this many deliveries, or until they satisfy a condition."""
        async with asyncio.timeout(PATIENCE):
            while not (len(self.deliveries) >= enough if isinstance(enough, int) else enough(self.deliveries)):
                self._changed.clear()
                await self._changed.wait()


async def eventually(true: Callable[[], bool]) -> None:
    """Wait for something that has no event."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it did not become true"
        await asyncio.sleep(0.01)


class Observer(Protocol):
    """A client that receives all messages."""

    async def headers(self, count: int) -> list[dict[str, str]]:
        """The headers of the first `count` messages."""
        ...


class World(Protocol):
    """A bus, and what tests do to it."""

    bus: Any

    async def inject(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> None: ...
    def observing(self) -> AbstractAsyncContextManager["Observer"]: ...
    async def disconnect(self) -> None: ...
    async def reconnect(self) -> None: ...
    def another(self, service: str) -> AbstractAsyncContextManager[Bus]: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.bus = MemoryBus(SystemClock(), streams=with_max_ages(intent=INTENT_LIFETIME, utilization=1_800))

    async def inject(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        self.bus.inject(subject, payload, headers=headers)

    @asynccontextmanager
    async def observing(self) -> AsyncIterator[Observer]:
        self._observed_from = len(self.bus.headers())
        yield self

    async def headers(self, count: int) -> list[dict[str, str]]:
        begin = self._observed_from
        await eventually(lambda: len(self.bus.headers()) >= begin + count)
        return [dict(headers) for headers in self.bus.headers()[begin : begin + count]]

    async def disconnect(self) -> None:
        self.bus.disconnect()

    async def reconnect(self) -> None:
        await self.bus.reconnect()

    @asynccontextmanager
    async def another(self, service: str) -> AsyncIterator[Bus]:
        yield self.bus


async def flushed(client: Client) -> None:
    """Wait until the server has processed everything that the client has sent so far."""
    await client.flush()  # the client's ping overtakes what it has not written yet,
    await client.flush()  # so only the second one comes after that


async def tapping(client: Client) -> Subscription:
    """A subscription to everything, which the server has processed."""
    tap = await client.subscribe("equipoise.>")
    await flushed(client)
    return tap


class _Tap:
    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    async def headers(self, count: int) -> list[dict[str, str]]:
        return [dict((await self._subscription.next_msg(timeout=PATIENCE)).headers or {}) for _ in range(count)]


class NatsWorld:
    """A nats-server of its own, which can be stopped and started again in the same place."""

    bus: NatsBus

    def __init__(self, directory: Path, configuration: str = "") -> None:
        self.directory = directory
        self.configuration = configuration
        self.port = free_port()
        self._server = AsyncExitStack()

    @property
    def settings(self) -> Nats:
        return Nats(url=f"nats://127.0.0.1:{self.port}")

    async def start(self) -> None:
        server = embedded_server(self.directory, port=self.port, configuration=self.configuration)
        await self._server.enter_async_context(server)

    async def stop(self) -> None:
        await self._server.aclose()

    async def inject(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        async with await nats.connect(self.settings.url) as client:
            await client.publish(subject, payload, headers={SUBJECT: subject} if headers is None else headers)
            await flushed(client)

    @asynccontextmanager
    async def observing(self) -> AsyncIterator[Observer]:
        async with await nats.connect(self.settings.url) as client:
            yield _Tap(await tapping(client))

    async def disconnect(self) -> None:
        await self.stop()
        await eventually(lambda: not self.bus.connected)

    async def reconnect(self) -> None:
        await self.start()
        await eventually(lambda: self.bus.connected)

    def another(self, service: str, **options: Any) -> AbstractAsyncContextManager[NatsBus]:
        """Another connection; it connects again, and finds lost messages, sooner than in earnest."""
        return open_bus(self.settings, service, SystemClock(), None, reconnect_pause=0.1, check_period=0.1, **options)


@asynccontextmanager
async def memory_world(directory: Path) -> AsyncIterator[MemoryWorld]:
    world = MemoryWorld()
    async with world.bus:
        yield world


@asynccontextmanager
async def nats_world(directory: Path) -> AsyncIterator[NatsWorld]:
    world = NatsWorld(directory)
    await world.start()
    try:
        await setup_streams(world.settings, intent_max_age=INTENT_LIFETIME)
        async with world.another("scorer") as world.bus:
            yield world
    finally:
        await world.stop()


def server_process(directory: Path) -> int:
    """The process id of the nats-server that runs in this directory."""
    [file] = directory.glob("nats-server_*.ports")
    return int(file.stem.removeprefix("nats-server_"))


_port_blocks: list[PortBlock] = []


def free_port() -> int:
    """A loopback port that no other test and no cluster on this machine gets while this process runs.

    Below those of outgoing connections: a client of a stopped server must not get its port.
    """
    while True:
        if _port_blocks:
            with suppress(RuntimeError):  # all ports of the block are taken
                return _port_blocks[-1].take()
        _port_blocks.append(PortBlock())
