"""Outages of what evictions depend on: the API server, the ledger, the bus. Times: seconds of one clock."""


class Outages:
    """Outages that one binder saw. A `pending` one has to be written to the ledger, where all binders read it."""

    def __init__(self, threshold: float, started_at: float) -> None:
        """`threshold`: seconds of unavailability that are not an outage yet."""
        self._threshold = threshold
        self._failing_since: float | None = None
        self._message_at = started_at
        self.pending = ""
        """What was unavailable, and for how long; "" when nothing was."""

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

    def written(self, outage: str) -> None:
        """The ledger has this one."""
        if self.pending == outage:
            self.pending = ""

    def _record(self, what: str, seconds: float) -> None:
        if seconds > self._threshold:
            self.pending = f"{what} was unavailable for {seconds:.0f} s"
