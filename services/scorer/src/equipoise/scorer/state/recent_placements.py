"""How many pods were placed on each node in the last minutes."""

from equipoise.contracts.numeric import Array, Rows, np
from equipoise.contracts.recent import is_recent

_INITIAL_SIZE = 256


class RecentPlacements:
    """Times and rows of the pods placed within the longest span that is counted."""

    def __init__(self, spans: tuple[float, ...]) -> None:
        """`spans`: all spans that `counts` is called with, in seconds. Without any, nothing is recorded."""
        self._longest = max(spans, default=0.0)
        self._times: Array = np.full(_INITIAL_SIZE, -np.inf)
        self._rows: Rows = np.full(_INITIAL_SIZE, -1, np.intp)
        self._end = 0

    def add(self, row: int, placed_at: float, now: float) -> None:
        if not is_recent(placed_at, now, self._longest):
            return
        if self._end == len(self._times):
            self._compact(now)
        self._times[self._end], self._rows[self._end] = placed_at, row
        self._end += 1

    def clear(self, row: int) -> None:
        """Forget the placements of a row: another node will use it."""
        self._rows[self._rows == row] = -1

    def counts(self, rows: int, spans: tuple[float, ...], now: float) -> Array:
        """rows × spans: pods placed on each row within each span of seconds."""
        counts = np.zeros((rows, len(spans)))
        times, placed_rows = self._times[: self._end], self._rows[: self._end]
        for index, span in enumerate(spans):
            counted = placed_rows[(np.abs(now - times) < span) & (placed_rows >= 0)]
            counts[:, index] = np.bincount(counted, minlength=rows)
        return counts

    def _compact(self, now: float) -> None:
        kept = (np.abs(now - self._times) < self._longest) & (self._rows >= 0)
        times, rows = self._times[kept], self._rows[kept]
        self._end = len(times)
        size = max(_INITIAL_SIZE, 2 * self._end)
        self._times, self._rows = np.full(size, -np.inf), np.full(size, -1, np.intp)
        self._times[: self._end], self._rows[: self._end] = times, rows
