"""The scrape jobs to which queries are limited, so that series of others cost nothing, however many they are."""

from collections.abc import Iterable


class KnownJobs:
    """The jobs that measure nodes. A query of all jobs finds them, and is repeated after a period."""

    def __init__(self, *, period: float, period_while_missing: float) -> None:
        """The periods are in seconds. `period_while_missing` applies while a node has no series."""
        self._period = period
        self._period_while_missing = period_while_missing
        self._found: tuple[str, ...] = ()
        self._found_at = 0.0
        self.current: tuple[str, ...] = ()
        """The jobs of the next query; empty: all jobs."""

    def on_round(self, jobs: Iterable[str], at: float, *, missing: bool, failed: bool) -> None:
        """Records a round. `jobs`: the jobs that measured nodes in it. `missing`: a node has no series."""
        if failed:
            self.current = self._found  # the series of all jobs may be too many
        elif not self.current:
            self._found = tuple(sorted(set(jobs)))
            self._found_at, self.current = at, self._found
        elif not 0.0 <= at - self._found_at < (self._period_while_missing if missing else self._period):
            self.current = ()
