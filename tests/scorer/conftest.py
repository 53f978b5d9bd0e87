"""A scorer on a bus of memory, with a real port."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from builders import NOW
from prometheus_client import CollectorRegistry

from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.runtime.process.health import Health
from equipoise.scorer.service import Scorer
from equipoise.scorer.settings import ExtenderSettings, ScorerSettings
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock


class Running:
    """A scorer that answers, and what stands around it."""

    def __init__(self, scorer: Scorer, bus: MemoryBus, clock: ManualClock, health: Health) -> None:
        self.scorer = scorer
        self.bus = bus
        self.clock = clock
        self.health = health
        self.metrics = CollectorRegistry()
        self.task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return self.scorer.port.result()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


Start = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts scorers; `bus` and `clock` of an earlier one make it the same cluster."""
    async with AsyncExitStack() as stack:

        async def begin(
            settings: ScorerSettings | None = None, *, bus: MemoryBus | None = None, clock: ManualClock | None = None
        ) -> Running:
            clock = clock or ManualClock(NOW)
            bus = bus or await stack.enter_async_context(MemoryBus(clock))
            registry = CollectorRegistry()
            health = Health(configuration_hash="", metrics=registry)
            scorer = Scorer(
                settings=settings or ScorerSettings(listen="127.0.0.1:0"),
                load=LoadSettings(),
                thresholds=Thresholds(),
                bus=bus,
                clock=clock,
                health=health,
                metrics=registry,
            )
            running = Running(scorer, bus, clock, health)
            running.metrics = registry
            await scorer.attach()
            running.task = asyncio.create_task(scorer.run())
            stack.push_async_callback(running.stop)
            await asyncio.wait([running.task, scorer.port], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            return running

        yield begin


def settings_for(**extender: object) -> ScorerSettings:
    """A scorer on a free port; the deadline is long, so that a busy machine does not decide a test."""
    return ScorerSettings(listen="127.0.0.1:0", extender=ExtenderSettings(**({"deadline": 5.0} | extender)))  # type: ignore[arg-type]
