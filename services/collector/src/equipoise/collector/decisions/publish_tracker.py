"""What readers were told of each node, and what they may have missed: that is said again, less and less often."""

from collections.abc import Iterable, Mapping

from equipoise.contracts.messages.placement import NodePlacement

FIRST_PAUSE = 1.0
"""Seconds after which what may be missing is said again; twice as long each time."""


class Announced:
    """Placements, by the name of the node. Times are monotonic seconds."""

    def __init__(self, longest_pause: float) -> None:
        self._longest_pause = longest_pause
        self._told: dict[str, NodePlacement] = {}
        self._doubtful: dict[str, tuple[float, float]] = {}
        """When to say it again, and the pause after that."""

    def forget(self) -> None:
        """Nothing counts as told."""
        self._told.clear()

    def is_news(self, name: str, placement: NodePlacement) -> bool:
        """Has anything else been told, or nothing?"""
        return placement != self._told.get(name)

    def was_kept(self, placements: Mapping[str, NodePlacement]) -> None:
        """The bus has these."""
        self._told.update(placements)
        self.is_settled(placements)

    def is_settled(self, names: Iterable[str]) -> None:
        """Of these nothing needs to be said again."""
        for name in names:
            self._doubtful.pop(name, None)

    def may_be_lost(self, names: Iterable[str], now: float) -> None:
        """The bus did not keep all of these; which ones it did is not known, and one of them it may never keep."""
        for name in names:
            _, pause = self._doubtful.get(name, (now, FIRST_PAUSE))
            self._doubtful[name] = now + pause, min(2 * pause, self._longest_pause)
            self._told.pop(name, None)

    def due(self, now: float) -> list[str]:
        """What is to be said again by now."""
        return [name for name, (at, _) in self._doubtful.items() if at <= now]
