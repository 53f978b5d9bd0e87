"""The load of the whole cluster. Every request needs it, and it hardly changes between two requests."""

from equipoise.contracts.numeric import np
from equipoise.scorer.decisions.arrays import ClusterLoad
from equipoise.scorer.state.reservations import NegativeReservation
from equipoise.scorer.state.rows.row_arrays import RowArrays

_LIFETIME = 1.0
"""Seconds."""


class CachedClusterLoad:
    """The load of the cluster, computed again after a second, or after more than a fiftieth of the nodes changed."""

    def __init__(self, rows: RowArrays) -> None:
        self._rows = rows
        self._cached = ClusterLoad(rows.load[:, 0])
        self._computed_at = -np.inf
        self._changes = 0

    def count_change(self) -> None:
        """A row has changed."""
        self._changes += 1

    def load(self, now: float, nodes: int, without: NegativeReservation | None = None) -> ClusterLoad:
        """The load of all rows, of which `nodes` belong to a node. `without` is the load of a pod to subtract."""
        changed = self._changes > nodes // 50 or not 0.0 <= now - self._computed_at < _LIFETIME
        if without is None and not changed:
            return self._cached
        usable = self._rows.usable(now)
        load = np.where(usable[:, :, np.newaxis], self._rows.load[:, 0], np.nan)
        waiting = np.where(usable.any(axis=1), self._rows.waiting, np.nan)
        if without is not None:
            load[without.row] += without.load[0]
            return ClusterLoad(load, waiting)
        self._cached, self._computed_at, self._changes = ClusterLoad(load, waiting), now, 0
        return self._cached
