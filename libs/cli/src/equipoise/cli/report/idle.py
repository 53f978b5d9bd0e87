"""How much of the nodes was idle in the last 24 hours, and for how long, so that co-located pods could have used it.

Pure. An hour counts with its worst minute: the highest usage of high-priority pods and of the system.
"""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.cli.reclaimed.nodes import NodeBands, node_bands
from equipoise.cli.terminal import RESOURCES
from equipoise.contracts.messages.reclaimed import ReclaimedNode, ReclaimedTerms
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

HOURS = 24

_HOUR = 3_600.0

Day = Mapping[str, Sequence[float]]
"""What was idle in each of the last 24 hours, oldest first, by resource."""


class IdleFor(msgspec.Struct, frozen=True, kw_only=True):
    """What was idle for this many hours in a row, summed over the nodes."""

    hours: int
    mean: Resources
    """The mean over all such periods of the last 24 hours, in cores and bytes."""

    lowest: Resources
    """The least that was idle in any of these periods."""


class IdleCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What was idle on the nodes whose usage is known for all of the last 24 hours."""

    nodes: int
    capacity: Resources
    periods: list[IdleFor]
    """The periods, shortest first; empty if no node has a known usage."""

    not_counted: dict[str, str]
    """Why it is unknown what was idle, by node."""


def idle_capacity(messages: Sequence[ReclaimedNode], now: float, max_age: float) -> IdleCapacity:
    """The idle capacity of all nodes. `max_age`: seconds after which an evaluation is outdated."""
    days: list[Day] = []
    capacity = dict.fromkeys(RESOURCES, 0.0)
    not_counted: dict[str, str] = {}
    lengths = {1, HOURS}
    for message in messages:
        node = node_bands(message, now, max_age)
        if why := _unknown(node, message):
            not_counted[node.node] = why
            continue
        days.append(_day(message))
        lengths.add(max(1, min(HOURS, round(node.batch.hours))))
        for resource in RESOURCES:
            capacity[resource] += message.terms[resource].capacity
    periods = [_idle_for(hours, days) for hours in sorted(lengths)] if days else []
    return IdleCapacity(nodes=len(days), capacity=cpu_and_memory(capacity), periods=periods, not_counted=not_counted)


def _unknown(node: NodeBands, message: ReclaimedNode) -> str:
    """Why it is unknown what was idle on a node; empty if it is known."""
    if node.not_counted:
        return node.not_counted
    hours = [sum(hour is not None for hour in message.highest.get(resource, ())[:HOURS]) for resource in RESOURCES]
    return "" if min(hours) == HOURS else f"its usage is known for {min(hours)} of {HOURS} hours"


def _day(message: ReclaimedNode) -> Day:
    """The last 24 hours of a node. `highest` of the message is by hour of the day (UTC)."""
    latest = int(message.evaluated_at // _HOUR)
    return {
        resource: [
            _idle(message.terms[resource], message.highest[resource][hour % HOURS])
            for hour in range(latest + 1 - HOURS, latest + 1)
        ]
        for resource in RESOURCES
    }


def _idle(terms: ReclaimedTerms, used: float | None) -> float:
    """The idle amount of a node. Amounts that are reserved for the system count as used even if they are not."""
    assert used is not None
    return max(0.0, terms.capacity - terms.margin - used - max(0.0, terms.reserved - terms.system))


def _idle_for(hours: int, days: Sequence[Day]) -> IdleFor:
    """The sum over the nodes of the lowest hour of every period of this many hours."""
    mean, lowest = {}, {}
    for resource in RESOURCES:
        periods = [sum(min(day[resource][first : first + hours]) for day in days) for first in range(HOURS - hours + 1)]
        mean[resource], lowest[resource] = sum(periods) / len(periods), min(periods)
    return IdleFor(hours=hours, mean=cpu_and_memory(mean), lowest=cpu_and_memory(lowest))
