"""Crane's hot value of each node: how many pods were placed on it in the last minutes."""

import msgspec

from equipoise.contracts.kubernetes.crane import HOT_SPANS, hot_value

_LONGEST_SPAN = max(span for span, _ in HOT_SPANS)


class PodPlacedAt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    placed_at: float


class PlacedTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a placement message that is needed here."""

    node: str
    removed: bool = False
    pods: list[PodPlacedAt] = []
    epoch: int
    sequence: int


class HotValues:
    """By node the times at which its latest pods were placed."""

    def __init__(self) -> None:
        self._placed: dict[str, tuple[tuple[int, int], tuple[float, ...]]] = {}

    def on_placement(self, placement: PlacedTimes, now: float) -> None:
        """Ignores a placement older than the known one."""
        order = (placement.epoch, placement.sequence)
        before, _ = self._placed.get(placement.node, ((0, 0), ()))
        if order < before:
            return
        if placement.removed:
            self._placed.pop(placement.node, None)
            return
        recent = tuple(pod.placed_at for pod in placement.pods if pod.placed_at > now - _LONGEST_SPAN)
        self._placed[placement.node] = (order, recent)

    def of(self, node: str, now: float) -> int | None:
        """None: the node is unknown."""
        known = self._placed.get(node)
        return None if known is None else hot_value(known[1], now)
