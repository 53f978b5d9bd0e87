"""At how many evaluations in a row a node was above its threshold: a burst does not count."""

from collections.abc import Mapping, Sequence

import msgspec

TOLERANCE = 0.001
"""Seconds by which an evaluation may come early: a timer is not exact, and a whole interval would be lost."""


LIFETIME = 300.0
"""Seconds that a count outlives the last abnormal evaluation: Koordinator's detectorCacheTimeout."""

LIFETIME_INTERVALS = 2.5
"""The least lifetime in intervals: one missing evaluation must not end a count, however long the interval."""


class NodeObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one evaluation found one node abnormal."""

    node: str
    abnormal: bool | None
    """None when its load is not known."""

    sampled_at: float


class AbnormalCount(msgspec.Struct, frozen=True, kw_only=True):
    """Abnormal evaluations of a node in a row."""

    abnormal: int
    evaluated_at: float
    """Time of the last evaluation that was counted, and of its sample."""

    sampled_at: float
    abnormal_at: float
    """Time of the last abnormal evaluation, counted or not."""


AbnormalCounts = Mapping[str, AbnormalCount]
"""By node. A node that was normal, or never seen, has none."""


def counted(
    counts: AbnormalCounts, observations: Sequence[NodeObservation], *, now: float, interval: float
) -> dict[str, AbnormalCount]:
    """The counts after this evaluation.

    An abnormal reading counts when it comes at least `interval` seconds after the last that counted and has a newer raw
    sample. A normal one clears. A missing one does neither, but a count ends when the last abnormal reading is older
    than LIFETIME (at least LIFETIME_INTERVALS intervals). Nodes not read are forgotten.
    """
    following: dict[str, AbnormalCount] = {}
    oldest = now - max(LIFETIME, LIFETIME_INTERVALS * interval)
    for observation in observations:
        before = counts.get(observation.node)
        if before is not None and before.abnormal_at < oldest:
            before = None
        if observation.abnormal is None:
            after = before
        elif not observation.abnormal:
            after = None
        elif before is None:
            after = AbnormalCount(abnormal=1, evaluated_at=now, sampled_at=observation.sampled_at, abnormal_at=now)
        elif now - before.evaluated_at < interval - TOLERANCE or observation.sampled_at <= before.sampled_at:
            after = msgspec.structs.replace(before, abnormal_at=now)
        else:
            after = AbnormalCount(
                abnormal=before.abnormal + 1, evaluated_at=now, sampled_at=observation.sampled_at, abnormal_at=now
            )
        if after is not None:
            following[observation.node] = after
    return following


def abnormal_nodes(counts: AbnormalCounts, needed: int) -> frozenset[str]:
    """The nodes that were abnormal at `needed` evaluations in a row."""
    return frozenset(node for node, count in counts.items() if count.abnormal >= needed)


def restarted(counts: AbnormalCounts, node: str) -> dict[str, AbnormalCount]:
    """The counts after an eviction from a node, whose own count restarts."""
    return {name: count for name, count in counts.items() if name != node}
