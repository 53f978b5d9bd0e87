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


def is_acceptable(message: Measured, now: float) -> bool:
    """False for a measurement of the far future, which subscribers drop.

    It would remain the newest of its subject until then, whatever the collectors publish.
    """
    return message.queried_at <= now + MAX_AHEAD
