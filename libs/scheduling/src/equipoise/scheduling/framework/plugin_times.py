"""How long plugins take, so that a slow one is named."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

LIMIT = 1.0
"""Seconds that a plugin may take at one extension point in one attempt: nothing else runs meanwhile."""


class PluginTimes:
    """`measure` is for the framework."""

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
        """The seconds since the last call by extension point, and those above the limit by plugin and point."""
        found, self._seconds = self._seconds, Counter()
        points: dict[str, float] = {}
        for (_, point), seconds in found.items():
            points[point] = points.get(point, 0.0) + seconds
        return points, {key: seconds for key, seconds in found.items() if seconds > LIMIT}
