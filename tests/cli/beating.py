"""Heartbeats on a real bus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from builders import NOW
from cli.buses import Bus

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.messages.health import Heartbeat
from equipoise.runtime.bus.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock


def a_heartbeat(service: str, id: str, **fields: Any) -> Heartbeat:
    return Heartbeat(service=service, id=id, version="1", ready=True, at=NOW, **fields)


async def beat(bus: Bus, service: ServiceName, *heartbeats: Heartbeat) -> None:
    """Publish these as this service, several times a second, until it is cancelled."""
    async with open_bus(bus.settings(service), service, SystemClock(), None) as connection:
        while True:
            for heartbeat in heartbeats:
                await connection.publish(subjects.health(service, heartbeat.id), heartbeat)
            await asyncio.sleep(0.2)


@asynccontextmanager
async def beating(bus: Bus, *heartbeats: tuple[ServiceName, Heartbeat]) -> AsyncIterator[None]:
    """Each of these as the service beside it: commands need not wait 11 seconds for more."""
    beats = [asyncio.create_task(beat(bus, service, heartbeat)) for service, heartbeat in heartbeats]
    try:
        yield
    finally:
        for each in beats:
            each.cancel()
        await asyncio.wait(beats)
