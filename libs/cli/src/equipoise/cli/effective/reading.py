"""Reads the configurations that the services on a bus run with."""

from contextlib import aclosing

from equipoise.cli.bus.messages import retained_messages
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.health import CONFIGURATION_KEPT, EffectiveConfiguration, Heartbeat
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

CONNECT_SECONDS = 5.0


async def read_effective(server: Nats | NatsConnection, clock: Clock) -> list[EffectiveConfiguration]:
    """The last message of each process of the last hour. Raises BusError.

    A service may publish only on its own subjects, so a message that states another service is ignored.
    """
    pattern, since = subjects.configuration("*", "*"), clock.now() - CONFIGURATION_KEPT
    retained = retained_messages(server, pattern, since=since, clock=clock, connect_timeout=CONNECT_SECONDS)
    async with aclosing(retained) as messages:
        return [
            message
            async for subject, message in messages
            if isinstance(message, EffectiveConfiguration) and is_of_its_service(message, subject)
        ]


def is_of_its_service(message: EffectiveConfiguration | Heartbeat, subject: str) -> bool:
    """Whether the service that the message states is the one that may publish on the subject."""
    subject_of = subjects.health if isinstance(message, Heartbeat) else subjects.configuration
    return subject == subject_of(message.service, message.id)
