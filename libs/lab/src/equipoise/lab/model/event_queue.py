"""A queue of events in virtual time. It never waits."""

import heapq
import math
from collections.abc import Callable
from itertools import count

Action = Callable[[float], object]
"""A function that receives the time of the event. Its result is ignored."""


class EventQueue:
    """Runs actions in the order of their times, then in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Action]] = []
        self._numbers = count()
        self.now = -math.inf

    def at(self, when: float, action: Action) -> None:
        """Add an action. An action in the past runs now, after all others that are due."""
        heapq.heappush(self._entries, (max(when, self.now), next(self._numbers), action))

    def every(self, period: float, action: Action, *, first: float, until: float) -> None:
        """Add an action that repeats while its time is before `until`."""

        def repeat(now: float) -> None:
            action(now)
            if now + period < until:
                self.at(now + period, repeat)

        if first < until:
            self.at(first, repeat)

    def run(self, until: float) -> None:
        """Run all actions up to this time."""
        while self._entries and self._entries[0][0] <= until:
            self.now, _, action = heapq.heappop(self._entries)
            action(self.now)
        self.now = max(self.now, until)
