"""Measures how long plugins take, so that slow plugins can be reported."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

LIMIT = 1.0
"""Seconds that a plugin may take at one extension point in one attempt, because nothing else runs meanwhile."""


class PluginTimes:
    """The times of plugins. The framework calls `measure`."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seconds: Counter[tuple[str, str]] = Counter()

    def measure(self, plugin: str, point: str, call: Callable[[], Any]) -> Any:
        begun = self._monotonic()
        try:
            return call()
        finally:
            self._seconds[plugin, point] += self._monotonic() - begun  # type: ignore[assignment]  # typed as int

    def take(self) -> tuple[Mapping[str, float], Mapping[tuple[str, str], float]]:
        """The seconds since the last call of this method, by extension point, and those above LIMIT, by plugin and
        point."""
        taken, self._seconds = self._seconds, Counter()
        points: dict[str, float] = {}
        for (_, point), seconds in taken.items():
            points[point] = points.get(point, 0.0) + seconds
        return points, {key: seconds for key, seconds in taken.items() if seconds > LIMIT}
