"""The fixture that starts scorers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from builders import NOW
from prometheus_client import CollectorRegistry
from scorer.running import Running, Start, begin_running

from equipoise.runtime.process.health import Health
from equipoise.scorer.settings import ScorerSettings
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts scorers; with `bus` and `clock` of an earlier one they are in the same cluster."""
    async with AsyncExitStack() as stack:

        async def begin(
            settings: ScorerSettings | None = None,
            *,
            bus: MemoryBus | None = None,
            clock: ManualClock | None = None,
            hints: bool = False,
        ) -> Running:
            clock = clock or ManualClock(NOW)
            bus = bus or await stack.enter_async_context(MemoryBus(clock))
            registry = CollectorRegistry()
            health = Health(configuration_hash="", metrics=registry)
            settings = settings or ScorerSettings(listen="127.0.0.1:0")
            running = await begin_running(settings, bus, clock, health, registry, hints=hints)
            stack.push_async_callback(running.stop)
            assert running.task is not None
            await asyncio.wait([running.task, running.scorer.port], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            return running

        yield begin
