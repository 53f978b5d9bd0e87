"""Crane's hot value of each node: how many pods were placed on it in the last minutes."""

import msgspec

from equipoise.contracts.kubernetes.crane import HOT_SPANS, hot_value
from equipoise.contracts.load.latest import supersedes_placement

_LONGEST_SPAN = max(span for span, _ in HOT_SPANS)


class PodPlacedAt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a pod that the hot value needs."""

    placed_at: float


class PlacedTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a placement message that the hot value needs."""

    node: str
    uid: str
    created_at: float = 0.0
    removed: bool = False
    pods: list[PodPlacedAt] = []
    epoch: int
    sequence: int


class HotValues:
    """The latest placement of each node, with its recent pods."""

    def __init__(self) -> None:
        self._latest: dict[str, PlacedTimes] = {}

    def on_placement(self, placement: PlacedTimes, now: float) -> bool:
        """Keeps the placement of a node. False if it is older than the one that is kept."""
        if not supersedes_placement(placement, self._latest.get(placement.node), now):
            return False
        if placement.removed:
            self._latest.pop(placement.node, None)
            return True
        recent = [pod for pod in placement.pods if pod.placed_at > now - _LONGEST_SPAN]
        self._latest[placement.node] = msgspec.structs.replace(placement, pods=recent)
        return True

    def of(self, node: str, now: float) -> int | None:
        """The hot value of a node; None if the node is unknown."""
        latest = self._latest.get(node)
        return None if latest is None else hot_value((pod.placed_at for pod in latest.pods), now)
