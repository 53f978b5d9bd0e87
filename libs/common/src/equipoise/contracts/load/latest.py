"""The newest message of each subject: the bus may repeat messages and deliver them late (design law 3)."""

from typing import Protocol

from equipoise.contracts.bounds import MAX_AHEAD

SILENCE = 180.0
"""Seconds after which a lower epoch is accepted again: the collector of the higher epoch no longer publishes."""


class Sequenced(Protocol):
    """A message whose epoch, then sequence, orders it among those of its subject."""

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

    Otherwise a node that was taken over by a collector with a lower epoch would remain unknown.
    """
    return latest is None or supersedes(message, latest) or message.queried_at - latest.queried_at > SILENCE


class OfNode(Sequenced, Protocol):
    """A message about a node object, which its UID identifies: nodes may have the same name one after another."""

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
    """The same as `supersedes` for a node of the same UID. Of two nodes, the one created later is the newer.

    Epochs and sequences do not order messages about two nodes: the new node may belong to a collector of a lower epoch,
    and a message about the old one may arrive after the first one about the new. Where a creation time is unknown or in
    the future, or both are equal, the message that arrives last counts, unless it is a removal.
    """
    if latest is None or message.uid == latest.uid:
        return supersedes(message, latest)
    times = message.created_at, latest.created_at
    if min(times) > 0.0 and max(times) <= now + MAX_AHEAD and message.created_at != latest.created_at:
        return message.created_at > latest.created_at
    return not message.removed


def supersedes_utilization(message: MeasurementOfNode, latest: MeasurementOfNode | None, now: float) -> bool:
    """The same as `supersedes_measurement` for a node of the same UID. Of two nodes, the newer is queried later.

    A query has results of nodes that exist. A query of the far future was made while a clock was wrong.
    """
    if latest is None or message.uid == latest.uid:
        return supersedes_measurement(message, latest)
    return message.queried_at >= latest.queried_at or not is_acceptable(latest, now)


def is_acceptable(message: Measured, now: float) -> bool:
    """False for a measurement of the far future, which subscribers drop.

    It would remain the newest of its subject until then, whatever the collectors publish.
    """
    return message.queried_at <= now + MAX_AHEAD
