"""The number of evaluations in a row at which a node was above its threshold: a burst does not count."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.messages.descheduling import NodeClassification

TOLERANCE = 0.001
"""Seconds by which an evaluation may come early and still count: timers are not exact, and otherwise a whole interval
would be lost."""

LIFETIME = 300.0
"""Seconds that a count outlives the last abnormal evaluation: Koordinator's detectorCacheTimeout."""

LIFETIME_INTERVALS = 2.5
"""The least lifetime in intervals: one missing evaluation must not end a count, however long the interval."""


class AbnormalCount(msgspec.Struct, frozen=True, kw_only=True):
    """Abnormal evaluations of a node in a row."""

    abnormal: int
    evaluated_at: float
    """Time of the last evaluation that was counted."""

    sampled_at: float
    """Time of the sample that this evaluation used."""

    abnormal_at: float
    """Time of the last abnormal evaluation, counted or not."""


AbnormalCounts = Mapping[str, AbnormalCount]
"""The counts by node. A node that was normal, or never seen, has none."""


def counted(
    counts: AbnormalCounts, nodes: Sequence[NodeClassification], *, now: float, interval: float
) -> dict[str, AbnormalCount]:
    """The counts after this evaluation.

    The count of an abnormal node rises if at least `interval` seconds have passed since it rose last, and if the node
    has a newer raw sample. A normal node has no count. A node of unknown load keeps its count, which ends LIFETIME
    after the node was last abnormal (at least LIFETIME_INTERVALS intervals). Nodes that are not among `nodes` have no
    count.
    """
    counts_after: dict[str, AbnormalCount] = {}
    oldest = now - max(LIFETIME, LIFETIME_INTERVALS * interval)
    for node in nodes:
        before = counts.get(node.node)
        if before is not None and before.abnormal_at < oldest:
            before = None
        if node.state == "unknown":
            after = before
        elif not node.abnormal:
            after = None
        elif before is None:
            after = AbnormalCount(abnormal=1, evaluated_at=now, sampled_at=node.sampled_at, abnormal_at=now)
        elif now - before.evaluated_at < interval - TOLERANCE or node.sampled_at <= before.sampled_at:
            after = msgspec.structs.replace(before, abnormal_at=now)
        else:
            times = before.abnormal + 1
            after = AbnormalCount(abnormal=times, evaluated_at=now, sampled_at=node.sampled_at, abnormal_at=now)
        if after is not None:
            counts_after[node.node] = after
    return counts_after


def abnormal_nodes(counts: AbnormalCounts, needed: int) -> frozenset[str]:
    """The nodes that were abnormal at `needed` evaluations in a row."""
    return frozenset(node for node, count in counts.items() if count.abnormal >= needed)
