"""Which pods a ReplicaSet deletes when it has too many.

Source: kubernetes, pkg/controller/controller_utils.go, `ActivePodsWithRanks`; pkg/controller/replicaset/replica_set.go,
`getPodsToDelete` (1.36, with the feature LogarithmicScaleDown, which is on by default).
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cmp_to_key, partial

import msgspec


class RankedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a ReplicaSet. Times are Unix seconds."""

    uid: str
    node: int
    """-1: no node."""

    ready_since: float | None
    """None: it is pending or not ready."""

    created_at: float
    deletion_cost: int = 0
    restarts: int = 0


def pods_to_delete(pods: Sequence[RankedPod], count: int, now: float) -> list[str]:
    """The UIDs of the pods that are deleted first; none if `count` is not positive."""
    pods_on_node = Counter(pod.node for pod in pods)
    ordered = sorted(pods, key=cmp_to_key(partial(_compare, pods_on_node=pods_on_node, now=now)))
    return [pod.uid for pod in ordered[: max(0, count)]]


def _compare(one: RankedPod, other: RankedPod, pods_on_node: Counter[int], now: float) -> int:
    """Negative if `one` is deleted before `other`.

    Pods without a node first, then those that are not ready, those with the lowest cost, those on nodes with the most
    pods, those that were ready last, those that restarted most, and those that were created last. Of two times of the
    same order of magnitude, the UID decides.
    """
    for first, second in (
        (one.node >= 0, other.node >= 0),
        (one.ready_since is not None, other.ready_since is not None),
        (one.deletion_cost, other.deletion_cost),
        (-pods_on_node[one.node], -pods_on_node[other.node]),
    ):
        if first != second:
            return -1 if first < second else 1
    if one.ready_since is not None and other.ready_since is not None and one.ready_since != other.ready_since:
        return _later_first(one.ready_since, other.ready_since, one, other, now)
    if one.restarts != other.restarts:
        return other.restarts - one.restarts
    if one.created_at != other.created_at:
        return _later_first(one.created_at, other.created_at, one, other, now)
    return 0


def _later_first(time: float, other_time: float, one: RankedPod, other: RankedPod, now: float) -> int:
    difference = _magnitude(now - time) - _magnitude(now - other_time)
    return difference or (-1 if one.uid < other.uid else 1)


def _magnitude(seconds: float) -> int:
    """The binary logarithm of an age in nanoseconds, rounded down; -1 for one that is not positive."""
    return int(math.log2(seconds * 1e9)) if seconds * 1e9 >= 1.0 else -1
