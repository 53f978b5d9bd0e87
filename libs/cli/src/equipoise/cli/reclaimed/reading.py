"""Reads the last message about each node from the bus."""

from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.reclaimed.nodes import NodeBands, node_bands
from equipoise.contracts.bus.subjects import PREFIX, reclaimed_node
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

RETENTION = 86_400.0
"""Seconds for which the bus keeps the last message of a node."""

MAX_AGE = 300.0
"""Seconds after which a node counts as no longer evaluated. This is the time of five evaluations."""


async def read_reclaimed(server: Nats | NatsConnection, clock: Clock, *, node: str = "") -> list[ReclaimedNode]:
    """The messages about all nodes, or about this one; empty if no reclaimer ran in the last day. Raises BusError."""
    pattern = reclaimed_node(node) if node else f"{PREFIX}.reclaim.node.*"
    since = clock.now() - RETENTION
    retained = retained_messages(server, pattern, since=since, clock=clock)
    return [message async for _, message in retained if isinstance(message, ReclaimedNode)]


async def read_nodes(server: Nats | NatsConnection, clock: Clock, *, max_age: float = MAX_AGE) -> list[NodeBands]:
    """What all nodes offer, by their last messages. Raises BusError."""
    messages = await read_reclaimed(server, clock)
    return [node_bands(message, clock.now(), max_age) for message in messages]
