"""Limits how many decisions are published: a token bucket."""


class DecisionSampler:
    """Admits at most `rate` decisions per second on average; after an idle second, `rate` of them at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._capacity = max(1.0, rate)
        self._tokens = self._capacity
        self._filled_at = 0.0

    def take(self, now: float) -> bool:
        """Whether this decision is published. `now` is monotonic, in seconds."""
        self._tokens = min(self._capacity, self._tokens + max(0.0, now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._rate <= 0 or self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
