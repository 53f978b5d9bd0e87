"""Exponential backoff by key, and for disruption budgets that block evictions. All times are seconds of one clock."""

from collections.abc import Callable

from equipoise.contracts.kubernetes.workload import Workload

_MAX_KEYS = 1_000
"""Maximum number of keys. Above it, the oldest key is dropped."""

_JITTER = 0.2
"""Up to this share of a wait is added at random, so that not all callers return at once."""

_BUDGET_FIRST, _BUDGET_MAX = 10.0, 600.0


class Backoff:
    """How long to wait before the next request, by key: a disruption budget, the API server."""

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        """Waits of `first` seconds, doubled with each consecutive refusal up to `longest`. `random` returns 0..1."""
        self._first = first
        self._longest = longest
        self._random = random
        self._refusals: dict[str, tuple[int, float]] = {}
        """Consecutive refusals and the end of the wait, by key."""

    def refused(self, key: str, now: float, at_least: float = 0.0) -> float:
        """Counts a refusal; returns the seconds to wait."""
        times, until = self._refusals.pop(key, (0, now))
        # Requests that were sent before the last refusal may be refused during the wait. They all count as one refusal.
        times = times if now < until else times + 1
        wait = max(at_least, min(self._longest, self._first * 2.0 ** (min(times, 32) - 1)))
        wait *= 1 + _JITTER * self._random()
        self._refusals[key] = (times, max(until, now + wait))
        if len(self._refusals) > _MAX_KEYS:
            del self._refusals[next(iter(self._refusals))]
        return self._refusals[key][1] - now

    def remaining(self, key: str, now: float) -> float:
        """Seconds left to wait; 0 when a request may be sent."""
        return max(0.0, self._refusals.get(key, (0, now))[1] - now)

    def reset(self, key: str) -> None:
        """A request was accepted: the next wait is the first one again."""
        self._refusals.pop(key, None)


class BudgetBackoff:
    """Disruption budgets that allow nothing at present. A blocked budget delays its own workloads only.

    Which budget selects a workload is learned from refusals: the binder has no permission to list budgets.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._backoff = Backoff(_BUDGET_FIRST, _BUDGET_MAX, random)
        self._budgets: dict[Workload, str] = {}

    def refused(self, workload: Workload | None, namespace: str, budget: str, now: float) -> float:
        """The budget refused a pod of this workload; returns the seconds to wait.

        `budget` is "" if the API server does not name it. Then each workload is treated as if it had its own budget.
        """
        key = f"{namespace}/{budget or workload}"
        if workload is not None:
            self._budgets.pop(workload, None)
            self._budgets[workload] = key
            if len(self._budgets) > _MAX_KEYS:
                del self._budgets[next(iter(self._budgets))]
        return self._backoff.refused(key, now)

    def remaining(self, workload: Workload | None, now: float) -> tuple[str, float]:
        """The budget that refused this workload last, and the seconds left to wait; 0.0 when a pod may be evicted."""
        key = self._budgets.get(workload, "") if workload is not None else ""
        return key, self._backoff.remaining(key, now) if key else 0.0

    def accepted(self, workload: Workload | None) -> None:
        """An eviction was allowed: the budget of this workload no longer delays it."""
        if workload is not None and (key := self._budgets.pop(workload, "")):
            self._backoff.reset(key)
