"""Usage per second, computed from counters that only grow."""


class Rates:
    """Remembers the last value of each counter."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        self._seen: set[str] = set()

    def rate(self, key: str, counter: float | None, now: float) -> float | None:
        """The rate per second since the last call.

        None at the first call, if the counter cannot be read (None), or if it was reset because its cgroup is new.
        """
        if counter is None:
            self._last.pop(key, None)
            return None
        before = self._last.get(key)
        self._last[key] = (counter, now)
        self._seen.add(key)
        if before is None or now <= before[1] or counter < before[0]:
            return None
        return (counter - before[0]) / (now - before[1])

    def forget_others(self) -> None:
        """Forget the counters that were not read since the last call, because their cgroups were removed."""
        for key in self._last.keys() - self._seen:
            del self._last[key]
        self._seen.clear()
