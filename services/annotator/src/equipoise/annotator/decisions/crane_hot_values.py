"""How hot each node is by crane's count: how many pods it was given in the last minutes."""

import msgspec

from equipoise.contracts.kubernetes.crane import HOT_SPANS, hot_value

_LONGEST = max(span for span, _ in HOT_SPANS)


class PlacedAt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    placed_at: float


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Of a placement on the bus all that is needed here."""

    node: str
    removed: bool = False
    pods: list[PlacedAt] = []
    epoch: int
    sequence: int


class HotValues:
    """By node the times at which it was given its latest pods."""

    def __init__(self) -> None:
        self._placed: dict[str, tuple[tuple[int, int], tuple[float, ...]]] = {}

    def on_placement(self, placement: Placement, now: float) -> None:
        """Take in a node's placement, unless a newer one is known."""
        order = (placement.epoch, placement.sequence)
        before, _ = self._placed.get(placement.node, ((0, 0), ()))
        if order < before:
            return
        if placement.removed:
            self._placed.pop(placement.node, None)
            return
        recent = tuple(pod.placed_at for pod in placement.pods if pod.placed_at > now - _LONGEST)
        self._placed[placement.node] = (order, recent)

    def of(self, node: str, now: float) -> int | None:
        """None: nothing was heard of the node."""
        known = self._placed.get(node)
        return None if known is None else hot_value(known[1], now)
