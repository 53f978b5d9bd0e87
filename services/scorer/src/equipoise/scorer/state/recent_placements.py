"""How many pods each node was given lately."""

import copy

import numpy as np

from equipoise.scorer.state.arrays import Array, Rows

_FIRST = 256


class Arrivals:
    """Times and rows of the pods that were placed within the longest of the spans that are counted."""

    def __init__(self, within: tuple[float, ...], also: tuple[float, ...] = ()) -> None:
        """`within`: seconds; `also`: other spans that are asked for. With none of both nothing is kept."""
        self._within = within
        self._longest = max((*within, *also), default=0.0)
        self._times: Array = np.full(_FIRST, -np.inf)
        self._rows: Rows = np.full(_FIRST, -1, np.intp)
        self._end = 0

    def add(self, row: int, placed_at: float, now: float) -> None:
        if now - placed_at >= self._longest:
            return
        if self._end == len(self._times):
            self._make_room(now)
        self._times[self._end], self._rows[self._end] = placed_at, row
        self._end += 1

    def drop(self, row: int) -> None:
        """The row is another node's from now on."""
        self._rows[self._rows == row] = -1

    def without(self, row: int, placed_at: float) -> "Arrivals":
        """A copy that does not count one pod that was placed on this row at this time."""
        other = copy.copy(self)
        other._times, other._rows = self._times.copy(), self._rows.copy()
        found = np.flatnonzero((self._rows[: self._end] == row) & (self._times[: self._end] == placed_at))
        other._rows[found[:1]] = -1
        return other

    def counts(self, rows: int, now: float, within: tuple[float, ...] | None = None) -> Array:
        """rows × spans: pods placed within each span; None: within those that are always counted."""
        spans = self._within if within is None else within
        found = np.zeros((rows, len(spans)))
        if not spans or not self._end:
            return found
        times, owners = self._times[: self._end], self._rows[: self._end]
        for index, span in enumerate(spans):
            counted = owners[(times > now - span) & (owners >= 0)]
            found[:, index] = np.bincount(counted, minlength=rows)
        return found

    def _make_room(self, now: float) -> None:
        kept = (self._times > now - self._longest) & (self._rows >= 0)
        times, rows = self._times[kept], self._rows[kept]
        self._end = len(times)
        size = max(_FIRST, 2 * self._end)
        self._times, self._rows = np.full(size, -np.inf), np.full(size, -1, np.intp)
        self._times[: self._end], self._rows[: self._end] = times, rows
