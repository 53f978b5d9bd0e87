"""Was something away that evictions stand on: the API server, the ledger, the bus? Times: seconds of one clock."""


class Outages:
    """What one binder saw of it. What is `pending` has to be written into the ledger, where all binders read it."""

    def __init__(self, longest: float, started_at: float) -> None:
        """`longest`: seconds that something may be away without being an outage."""
        self._longest = longest
        self._failing_since: float | None = None
        self._heard_at = started_at
        self.pending = ""
        """What was away, and for how long; "" when nothing was."""

    def failed(self, since: float) -> None:
        """A request that began then had no answer, or there was no ledger to read."""
        if self._failing_since is None:
            self._failing_since = since

    def answered(self, now: float) -> None:
        """The ledger was read."""
        if self._failing_since is not None:
            self._note("the API server or the ledger", now - self._failing_since)
        self._failing_since = None

    def heard(self, now: float) -> None:
        """A message came from the bus."""
        self._note("the bus", now - self._heard_at)
        self._heard_at = now

    def written(self, what: str) -> None:
        """This one is in the ledger."""
        if self.pending == what:
            self.pending = ""

    def _note(self, what: str, seconds: float) -> None:
        if seconds > self._longest:
            self.pending = f"{what} was away for {seconds:.0f} s"
