"""Virtual time: what happens when. Nothing here waits."""

import heapq
import math
from collections.abc import Callable
from itertools import count

Action = Callable[[float], object]
"""Is told the time at which it happens; what it returns is nobody's."""


class EventQueue:
    """Actions in the order of their times; those of the same time in the order in which they were entered."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Action]] = []
        self._numbers = count()
        self.now = -math.inf

    def at(self, when: float, action: Action) -> None:
        """Enter an action. What should have happened already happens at once, after all that is due now."""
        heapq.heappush(self._entries, (max(when, self.now), next(self._numbers), action))

    def every(self, period: float, action: Action, *, first: float, until: float) -> None:
        """Enter an action that is repeated, while its time is before `until`."""

        def again(now: float) -> None:
            action(now)
            if now + period < until:
                self.at(now + period, again)

        if first < until:
            self.at(first, again)

    def run(self, until: float) -> None:
        """Let everything happen that is due by then."""
        while self._entries and self._entries[0][0] <= until:
            self.now, _, action = heapq.heappop(self._entries)
            action(self.now)
        self.now = max(self.now, until)
