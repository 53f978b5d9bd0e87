"""How many decisions are told of: a bucket that refills at a steady rate."""


class Sampler:
    """Lets through at most `rate` events per second, and as many at once after a quiet second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._room = max(1.0, rate)
        self._left = self._room
        self._at = 0.0

    def take(self, now: float) -> bool:
        """May this one pass? `now` is monotonic, in seconds."""
        self._left = min(self._room, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._rate <= 0 or self._left < 1.0:
            return False
        self._left -= 1.0
        return True
