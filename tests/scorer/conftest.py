"""The fixture that starts scorers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from builders import NOW
from prometheus_client import CollectorRegistry
from scorer.running import Running, Start

from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.runtime.process.health import Health
from equipoise.scorer.service import Scorer
from equipoise.scorer.settings import ScorerSettings
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts scorers; with `bus` and `clock` of an earlier one they are in the same cluster."""
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
            running = Running(scorer, bus, clock, health, registry)
            await scorer.attach()
            running.task = asyncio.create_task(scorer.run())
            stack.push_async_callback(running.stop)
            await asyncio.wait([running.task, scorer.port], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            return running

        yield begin
