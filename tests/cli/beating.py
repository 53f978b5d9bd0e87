"""Heartbeats on a real bus."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from builders import NOW

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.contracts.messages.health import Heartbeat
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock


def a_heartbeat(service: str, id: str, **fields: Any) -> Heartbeat:
    return Heartbeat(service=service, id=id, version="1", ready=True, at=NOW, **fields)


async def beat(settings: Callable[[ServiceName], Nats], service: ServiceName, *heartbeats: Heartbeat) -> None:
    """Publish these as this service, several times a second, until it is cancelled. `settings`: of each user."""
    async with open_bus(settings(service), service, SystemClock(), None) as connection:
        while True:
            for heartbeat in heartbeats:
                await connection.publish(subjects.health(service, heartbeat.id), heartbeat)
            await asyncio.sleep(0.2)


@asynccontextmanager
async def beating(
    settings: Callable[[ServiceName], Nats], *heartbeats: tuple[ServiceName, Heartbeat]
) -> AsyncIterator[None]:
    """Each of these as the service beside it: commands need not wait 11 seconds for more."""
    beats = [asyncio.create_task(beat(settings, service, heartbeat)) for service, heartbeat in heartbeats]
    try:
        yield
    finally:
        for each in beats:
            each.cancel()
        await asyncio.wait(beats)


def every_service(services: Iterable[ServiceName] = SERVICES) -> list[tuple[ServiceName, Heartbeat]]:
    """The heartbeat of one process of each: what doctor waits for."""
    return [(service, a_heartbeat(service, f"{service}-1")) for service in services]
