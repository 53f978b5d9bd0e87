"""Tracks which placements the bus has, and when to publish the others again, with exponential backoff."""

from collections.abc import Iterable, Mapping

from equipoise.contracts.messages.placement import NodePlacement

INITIAL_BACKOFF = 1.0
"""Seconds until the first retry; doubles with each one."""


class PublishTracker:
    """Published placements by node name. Times are monotonic seconds."""

    def __init__(self, max_backoff: float) -> None:
        self._max_backoff = max_backoff
        self._published: dict[str, NodePlacement] = {}
        self._retries: dict[str, tuple[float, float]] = {}
        """The time of the next publication and the backoff after that, by node."""

    def reset(self) -> None:
        """Treat every placement as not published."""
        self._published.clear()

    def differs(self, name: str, placement: NodePlacement) -> bool:
        """True if this placement differs from the last one that was published."""
        return placement != self._published.get(name)

    def on_published(self, placements: Mapping[str, NodePlacement]) -> None:
        self._published.update(placements)
        self.cancel_retries(placements)

    def cancel_retries(self, names: Iterable[str]) -> None:
        for name in names:
            self._retries.pop(name, None)

    def on_failed(self, names: Iterable[str], now: float) -> None:
        """The bus did not keep all of a batch. It is not known which ones, so all are retried, each on its own."""
        for name in names:
            _, backoff = self._retries.get(name, (now, INITIAL_BACKOFF))
            self._retries[name] = now + backoff, min(2 * backoff, self._max_backoff)
            self._published.pop(name, None)

    def due(self, now: float) -> list[str]:
        """Nodes to publish again by now."""
        return [name for name, (at, _) in self._retries.items() if at <= now]
