"""Reads what the service processes on a bus run with."""

from contextlib import aclosing

from equipoise.cli.bus import retained_messages
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.health import CONFIGURATION_KEPT, EffectiveConfiguration
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

CONNECT_SECONDS = 5.0


async def read_effective(server: Nats, clock: Clock, *, service: str = "*") -> list[EffectiveConfiguration]:
    """The last message of each process of the last hour. Raises BusError."""
    pattern, since = subjects.configuration(service, "*"), clock.now() - CONFIGURATION_KEPT
    retained = retained_messages(server, pattern, since=since, clock=clock, connect_timeout=CONNECT_SECONDS)
    async with aclosing(retained) as messages:
        return [message async for _, message in messages if isinstance(message, EffectiveConfiguration)]
