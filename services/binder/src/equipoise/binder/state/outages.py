"""Outages of what evictions depend on: the API server, the ledger, the bus. Times: seconds of the monotonic clock."""

from equipoise.binder.state.ledger import MAX_CLOCK_TOLERANCE


class Outages:
    """Outages that one binder saw. A `pending` one has to be written to the ledger, where all binders read it."""

    def __init__(self, threshold: float, started_at: float) -> None:
        """`threshold`: seconds of unavailability that are not an outage yet."""
        self._threshold = threshold
        self._failing_since: float | None = None
        self._message_at = started_at
        self._latest_offset: float | None = None
        self._clock_read_at = started_at
        self.pending = ""
        """What was unavailable, and for how long; "" when nothing was."""

        self.clock_set_forward = False
        """The outage that is pending is one of the API server's clock: the ages of all evictions are unknown."""

    def request_failed(self, since: float) -> None:
        """A request that began at `since` had no response, or there was no ledger to read."""
        if self._failing_since is None:
            self._failing_since = since

    def ledger_read(self, now: float) -> None:
        if self._failing_since is not None:
            self._record("the API server or the ledger", now - self._failing_since)
        self._failing_since = None

    def message_received(self, now: float) -> None:
        self._record("the bus", now - self._message_at)
        self._message_at = now

    def clock_read(self, earliest: float, latest: float, now: float, *, drift: float) -> None:
        """Records that the API server's time at `now` is between these bounds. `drift`: the maximum drift between two
        clocks, in seconds per second.

        If that time was set forward by more than the clocks of several API servers may differ from each other, the age
        of evictions is unknown.
        """
        offset = latest - now
        if self._latest_offset is not None:
            highest_offset = self._latest_offset + drift * (now - self._clock_read_at)
            if (jump := earliest - now - highest_offset) > MAX_CLOCK_TOLERANCE:
                self.pending = f"the API server's clock was set forward by {jump:.0f} s"
                self.clock_set_forward = True
            else:
                offset = min(offset, highest_offset)
        self._latest_offset, self._clock_read_at = offset, now

    def written(self, outage: str) -> None:
        """The ledger has this one."""
        if self.pending == outage:
            self.pending, self.clock_set_forward = "", False

    def _record(self, what: str, seconds: float) -> None:
        if seconds > self._threshold:
            self.pending = f"{what} was unavailable for {seconds:.0f} s"
