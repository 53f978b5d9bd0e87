"""The time of a server that tells it only in whole seconds, known to milliseconds after some answers."""

import math
from datetime import UTC
from email.utils import parsedate_to_datetime

DRIFT = 1e-4
"""Seconds by which two clocks may drift apart in a second: more than clocks do that somebody sets."""


class ServerClock:
    """The offset of a server's clock, from the Date headers of its answers.

    An answer asked for at `sent` and here at `received` (local Unix seconds) with the date D was dated at some moment
    between, when the server's clock stood in [D, D + 1). So the offset is in (D - received, D + 1 - sent]; every answer
    narrows it further, and between answers it slowly widens again.
    """

    def __init__(self) -> None:
        self._lowest = -math.inf
        self._highest = math.inf
        self._heard_at = 0.0

    def observe(self, date: str, *, sent: float, received: float) -> None:
        """Takes one answer in. A date that cannot be read tells nothing."""
        try:
            parsed = parsedate_to_datetime(date)
        except ValueError:
            return
        second = parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()
        lowest, highest = second - received, second + 1.0 - sent
        known_lowest, known_highest = self._offsets(received)
        if max(lowest, known_lowest) <= min(highest, known_highest):
            lowest, highest = max(lowest, known_lowest), min(highest, known_highest)
        # Else one of the clocks was set, or another server answers: what was learnt is worth nothing.
        self._lowest, self._highest, self._heard_at = lowest, highest, received

    def at(self, now: float) -> float:
        """The server's Unix seconds at local time `now`, as well as they are known."""
        earliest, latest = self.bounds(now)
        return (earliest + latest) / 2

    def bounds(self, now: float) -> tuple[float, float]:
        """The earliest and the latest it can be at the server; `now` itself as long as nothing was heard."""
        if math.isinf(self._highest):
            return now, now
        lowest, highest = self._offsets(now)
        return now + lowest, now + highest

    def _offsets(self, now: float) -> tuple[float, float]:
        drifted = DRIFT * abs(now - self._heard_at)
        return self._lowest - drifted, self._highest + drifted
