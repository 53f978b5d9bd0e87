"""Which message of a subject is the newest. The bus may repeat messages and deliver them late (design law 3)."""

from typing import Protocol

from equipoise.contracts.bounds import MAX_AHEAD

SILENCE = 180.0
"""Seconds after which a lower epoch is accepted again. The collector with the higher epoch must have stopped by
then."""


class Sequenced(Protocol):
    """A message with an epoch and a sequence, which together order the messages of a subject."""

    @property
    def epoch(self) -> int: ...

    @property
    def sequence(self) -> int: ...


class Measured(Sequenced, Protocol):
    """A sequenced message with the time of its query, in Unix seconds."""

    @property
    def queried_at(self) -> float: ...


def supersedes(message: Sequenced, latest: Sequenced | None) -> bool:
    """Whether `message` is at least as new as `latest`. True for a repeated message, which changes nothing."""
    return latest is None or (message.epoch, message.sequence) >= (latest.epoch, latest.sequence)


def supersedes_measurement(message: Measured, latest: Measured | None) -> bool:
    """The same as `supersedes`; also true for a lower epoch if its query is more than `SILENCE` later.

    Otherwise, a node would remain unknown after a collector with a lower epoch took it over.
    """
    return latest is None or supersedes(message, latest) or message.queried_at - latest.queried_at > SILENCE


class OfNode(Sequenced, Protocol):
    """A message about a node object, identified by its UID because a new node may have the name of a deleted one."""

    @property
    def uid(self) -> str: ...


class MeasurementOfNode(OfNode, Measured, Protocol):
    """A measurement of a node."""


class PlacedNode(OfNode, Protocol):
    """The placement of a node, or its removal."""

    @property
    def created_at(self) -> float: ...

    @property
    def removed(self) -> bool: ...


def supersedes_placement(message: PlacedNode, latest: PlacedNode | None, now: float) -> bool:
    """The result of `supersedes` for a node with the same UID. Of two nodes, the one created later is newer.

    Epochs and sequences do not order messages about two nodes: the collector of the new node may have a lower epoch,
    and a message about the old node may arrive after one about the new node. If a creation time is unknown or in the
    future, or both are equal, the message that arrives last is newer, unless it is a removal.
    """
    if latest is None or message.uid == latest.uid:
        return supersedes(message, latest)
    times = message.created_at, latest.created_at
    if min(times) > 0.0 and max(times) <= now + MAX_AHEAD and message.created_at != latest.created_at:
        return message.created_at > latest.created_at
    return not message.removed


def supersedes_utilization(message: MeasurementOfNode, latest: MeasurementOfNode | None, now: float) -> bool:
    """The result of `supersedes_measurement` for a node with the same UID. Of two nodes, the newer one is queried
    later.

    A query returns only nodes that exist. A query time in the far future comes from a clock that was wrong.
    """
    if latest is None or message.uid == latest.uid:
        return supersedes_measurement(message, latest)
    return message.queried_at >= latest.queried_at or not is_acceptable(latest, now)


def is_acceptable(message: Measured, now: float) -> bool:
    """Whether subscribers use a measurement: False if its time is in the far future.

    Otherwise it would remain the newest message of its subject until that time.
    """
    return message.queried_at <= now + MAX_AHEAD
