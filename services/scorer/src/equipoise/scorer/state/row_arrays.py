"""All numbers of all nodes in one array."""

import math
from collections.abc import Mapping
from itertools import accumulate

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.numeric import Array, Flags, Rows, np

_INITIAL_ROWS = 64


class RowArrays:
    """One array whose rows hold all numbers of a node: the rows of a request are taken in one operation."""

    def __init__(self, *, windows: int, statistics: int) -> None:
        parts: Mapping[str, tuple[tuple[int, ...], float]] = {
            "load": ((1 + statistics, windows, len(RESOURCES)), np.nan),
            "base": ((len(RESOURCES),), np.nan),
            "since": ((windows,), np.inf),
            "until": ((windows,), -np.inf),
            "requests": ((len(RESOURCES),), 0.0),
            "limits": ((len(RESOURCES),), 0.0),
            "waiting": ((1,), np.nan),
            "headroom": ((len(RESOURCES) + 1,), -np.inf),
        }
        self._empty = np.concatenate([np.full(math.prod(shape), fill) for shape, fill in parts.values()])
        ends = accumulate(math.prod(shape) for shape, _ in parts.values())
        self._columns = {
            name: (slice(end - math.prod(shape), end), shape)
            for (name, (shape, _)), end in zip(parts.items(), ends, strict=True)
        }
        """The columns of each part, and its shape."""

        self._values: Array = self._empty[np.newaxis]
        """The rows of the table and one more at the end. That one stays empty: row −1 is an unknown node."""

        self._create_views()

    def _create_views(self) -> None:
        """Creates a view (rows × shape) of each part. The views share memory with the table."""
        parts = {
            name: self._values[:-1, columns].reshape(len(self), *shape)
            for name, (columns, shape) in self._columns.items()
        }
        self.load = parts["load"]
        """rows × (mean, then each statistic) × windows × resources: share (0..1) of the base."""

        self.base, self.requests, self.limits = parts["base"], parts["requests"], parts["limits"]
        """rows × resources: cores and bytes."""

        self.headroom = parts["headroom"]
        """rows × (resources, pods): see `decisions.headroom`."""

        self.waiting = parts["waiting"]
        """rows × 1: the share of time in which pods wait for CPU or disks."""

        self.since, self.until = parts["since"], parts["until"]
        """rows × windows: Unix seconds between which a value may be used."""

    def __len__(self) -> int:
        return len(self._values) - 1

    def take(self, rows: Rows) -> dict[str, Array]:
        """A copy of each part of these rows, with nodes as the last, contiguous axis. Row −1 is an unknown node."""
        by_column = np.ascontiguousarray(self._values.take(rows, axis=0).T)
        return {name: by_column[columns].reshape(*shape, len(rows)) for name, (columns, shape) in self._columns.items()}

    def usable(self, now: float) -> Flags:
        """rows × windows: whether each load may be used."""
        usable: Flags = (self.since <= now) & (now <= self.until)
        return usable

    def clear(self, row: int) -> None:
        self._values[row] = self._empty

    def grow(self) -> range:
        """Double the table. Returns the new rows."""
        before = len(self)
        more = max(_INITIAL_ROWS, before)
        self._values = np.concatenate([self._values, np.tile(self._empty, (more, 1))])
        self._create_views()
        return range(before, before + more)
