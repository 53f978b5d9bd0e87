"""Leaves somebody alone who said no, each time for longer."""

from collections.abc import Callable

_REMEMBERED = 1_000
"""Keys; the oldest are dropped."""

_JITTER = 0.2
"""Share of a wait that chance adds, so that not everybody comes back at once."""


class BackOff:
    """By key: a disruption budget, the API server. Times: seconds of one clock."""

    def __init__(self, first: float, longest: float, chance: Callable[[], float]) -> None:
        """Waits of `first` seconds, doubled with every refusal in a row up to `longest`. `chance` gives 0..1."""
        self._first = first
        self._longest = longest
        self._chance = chance
        self._refusals: dict[str, tuple[int, float]] = {}
        """By key: how many in a row, and until when to wait."""

    def refused(self, key: str, now: float, at_least: float = 0.0) -> float:
        """Counts a refusal; returns the seconds to wait."""
        times, until = self._refusals.pop(key, (0, now))
        # Refusals of requests that were on their way together are one.
        times = times if now < until else times + 1
        wait = max(at_least, min(self._longest, self._first * 2.0 ** (min(times, 32) - 1)))
        wait *= 1 + _JITTER * self._chance()
        self._refusals[key] = (times, max(until, now + wait))
        if len(self._refusals) > _REMEMBERED:
            del self._refusals[next(iter(self._refusals))]
        return self._refusals[key][1] - now

    def remaining(self, key: str, now: float) -> float:
        """Seconds to wait still; 0 when the key may be asked."""
        return max(0.0, self._refusals.get(key, (0, now))[1] - now)

    def agreed(self, key: str) -> None:
        """The key said yes: it begins anew."""
        self._refusals.pop(key, None)
