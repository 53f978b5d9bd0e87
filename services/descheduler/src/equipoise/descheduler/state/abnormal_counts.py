"""How often in a row a node was found over its mark: a burst is no trend."""

from collections.abc import Mapping, Sequence

import msgspec

TOLERANCE = 0.001
"""Seconds by which an evaluation may come early: a timer is not exact, and a whole interval would be lost."""


class NodeObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluation says of one node."""

    node: str
    abnormal: bool | None
    """Over its mark; None when its load is not known."""

    sampled_at: float


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Abnormal evaluations of a node in a row, and on what the last one stood."""

    abnormal: int
    evaluated_at: float
    sampled_at: float


AbnormalCounts = Mapping[str, Count]
"""By node. A node that was normal, or never seen, has none."""


def counted(
    counts: AbnormalCounts, observations_of: Sequence[NodeObservation], *, now: float, interval: float
) -> dict[str, Count]:
    """The counts after this evaluation.

    An abnormal reading counts when it comes at least `interval` seconds after the last that counted and stands on a
    raw sample newer than that one's. A normal one clears. A missing one does neither. Nodes not read are forgotten.
    """
    following: dict[str, Count] = {}
    for reading in observations_of:
        before = counts.get(reading.node)
        if reading.abnormal is None:
            after = before
        elif not reading.abnormal:
            after = None
        elif before is None:
            after = Count(abnormal=1, evaluated_at=now, sampled_at=reading.sampled_at)
        elif now - before.evaluated_at < interval - TOLERANCE or reading.sampled_at <= before.sampled_at:
            after = before
        else:
            after = Count(abnormal=before.abnormal + 1, evaluated_at=now, sampled_at=reading.sampled_at)
        if after is not None:
            following[reading.node] = after
    return following


def abnormal_nodes(counts: AbnormalCounts, needed: int) -> frozenset[str]:
    """The nodes that were over their mark at `needed` evaluations in a row."""
    return frozenset(node for node, count in counts.items() if count.abnormal >= needed)


def restarted(counts: AbnormalCounts, node: str) -> dict[str, Count]:
    """The counts after an eviction from a node: what was counted before says nothing about it now."""
    return {name: count for name, count in counts.items() if name != node}
