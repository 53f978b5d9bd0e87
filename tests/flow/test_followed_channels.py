"""A service may receive exactly what it follows: the permissions of its user of NATS come from the channels."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from flow.loop import Loop, LossyBus
from msgspec.structs import replace

from equipoise.contracts.bus.channels import CHANNELS, EVICTION_INTENTS
from equipoise.contracts.bus.subjects import ServiceName, matches
from equipoise.contracts.configuration.settings import Placement
from equipoise.runtime.configuration import Shared
from equipoise.runtime.process.lifecycle import Start
from equipoise.testbed.memory.clock import ManualClock

SERVICE: ContextVar[ServiceName] = ContextVar("SERVICE")
"""The service whose task runs."""


class ObservedBus(LossyBus):
    """Keeps who subscribes to which channel, by its pattern."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.followed: set[tuple[ServiceName, str]] = set()

    async def subscribe(self, pattern: str, kind: type[Any], handler: Callable[..., Any]) -> None:
        self._keep(pattern)
        await super().subscribe(pattern, kind, handler)

    async def subscribe_latest(self, pattern: str, kind: type[Any], handler: Callable[..., Any]) -> None:
        self._keep(pattern)
        await super().subscribe_latest(pattern, kind, handler)

    async def work(self, kind: type[Any], worker: Callable[..., Any], *, concurrency: int = 1) -> None:
        self._keep(EVICTION_INTENTS.pattern)
        await super().work(kind, worker, concurrency=concurrency)

    def _keep(self, pattern: str) -> None:
        """The pattern may be a part of that of the channel, as the heartbeats of one service are."""
        channels = {channel.pattern for channel in CHANNELS if matches(channel.pattern, pattern)}
        self.followed |= {(SERVICE.get(), channel) for channel in channels}


class ObservedLoop(Loop):
    """All services, with everything enabled that follows a channel."""

    def __init__(self) -> None:
        super().__init__()
        self.bus: ObservedBus = ObservedBus(self.clock)
        self.shared = Shared(placement=Placement(hints=True))
        self.collector = replace(self.collector, shards=2)

    async def _start(self, service: ServiceName, start: Start[Any], settings: Any) -> None:
        SERVICE.set(service)
        if service == "annotator":
            settings = replace(settings, crane=True)
        await super()._start(service, start, settings)

    async def _collect(self) -> None:
        SERVICE.set("collector")
        await super()._collect()


async def test_the_table_of_channels_lists_exactly_what_each_service_follows() -> None:
    """Every other row would be a right that its user does not need."""
    loop = ObservedLoop()
    async with loop.running(colocation=True):
        await loop.pass_time(60)
        followed = set(loop.bus.followed)
    assert followed == {
        (service, channel.pattern) for channel in CHANNELS for service in (*channel.subscribers, *channel.observers)
    }
