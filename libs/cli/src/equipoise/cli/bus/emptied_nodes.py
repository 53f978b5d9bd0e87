"""Reads which nodes consolidation is emptying."""

from contextlib import aclosing

from equipoise.cli.bus.messages import retained_messages
from equipoise.contracts.bus.subjects import NODES_EMPTYING
from equipoise.contracts.load.emptying import Emptying
from equipoise.contracts.messages.consolidation import MAX_VALIDITY, NodeBeingEmptied, NodesBeingEmptied
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock


async def read_emptied(server: Nats | NatsConnection, clock: Clock) -> list[NodeBeingEmptied]:
    """The nodes that are being emptied now, by the message that is valid. Raises BusError."""
    emptying, since = Emptying(), clock.now() - MAX_VALIDITY
    async with aclosing(retained_messages(server, NODES_EMPTYING, since=since, clock=clock)) as messages:
        async for _, message in messages:
            if isinstance(message, NodesBeingEmptied):
                emptying.on_message(message, clock.now())
    return list(emptying.nodes(clock.now()).values())
