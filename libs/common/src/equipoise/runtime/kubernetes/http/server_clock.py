"""The time of a server that reports only whole seconds, estimated to milliseconds from several responses."""

import math
from datetime import UTC
from email.utils import parsedate_to_datetime

DRIFT = 1e-4
"""The assumed maximum drift between two clocks, in seconds per second. Synchronized clocks drift less."""


class ServerClock:
    """The offset of a server's clock, from the Date headers of its responses.

    The request was sent at `sent`, its response arrived at `received` (local Unix seconds). In between, the server
    wrote the date D, while its clock was in [D, D + 1). So the offset is in (D - received, D + 1 - sent]. Each response
    narrows this interval. Between responses, the drift widens it.
    """

    def __init__(self) -> None:
        self._lowest = -math.inf
        self._highest = math.inf
        self._observed_at = 0.0

    def observe(self, date: str, *, sent: float, received: float) -> None:
        """Add a response. A date that cannot be parsed is ignored."""
        try:
            parsed = parsedate_to_datetime(date)
            second = parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()
        except (ValueError, OverflowError):
            return
        lowest, highest = second - received, second + 1.0 - sent
        previous_lowest, previous_highest = self._offsets(received)
        if max(lowest, previous_lowest) <= min(highest, previous_highest):
            lowest, highest = max(lowest, previous_lowest), min(highest, previous_highest)
        # Otherwise one of the clocks was set, or another server responded: earlier bounds no longer apply.
        self._lowest, self._highest, self._observed_at = lowest, highest, received

    def at(self, now: float) -> float:
        """The estimated Unix seconds of the server at local time `now`."""
        earliest, latest = self.bounds(now)
        return (earliest + latest) / 2

    def bounds(self, now: float) -> tuple[float, float]:
        """The earliest and the latest possible time at the server. Both are `now` before the first response."""
        if math.isinf(self._highest):
            return now, now
        lowest, highest = self._offsets(now)
        return now + lowest, now + highest

    def _offsets(self, now: float) -> tuple[float, float]:
        drifted = DRIFT * abs(now - self._observed_at)
        return self._lowest - drifted, self._highest + drifted
