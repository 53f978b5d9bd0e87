"""All numbers of all nodes in two arrays: one with what every request reads, one with the rest."""

import math
from collections.abc import Mapping
from itertools import accumulate

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.numeric import Array, Flags, Rows, np

_INITIAL_ROWS = 64


class RowBlock:
    """One array whose rows hold several parts of a node: the rows of a request are taken in one operation."""

    def __init__(self, parts: Mapping[str, tuple[tuple[int, ...], float]]) -> None:
        """`parts`: the shape of each part, and its value in an empty row."""
        self._empty = np.concatenate([np.full(math.prod(shape), fill) for shape, fill in parts.values()])
        ends = accumulate(math.prod(shape) for shape, _ in parts.values())
        self._columns = {
            name: (slice(end - math.prod(shape), end), shape)
            for (name, (shape, _)), end in zip(parts.items(), ends, strict=True)
        }
        """The columns of each part, and its shape."""

        self._values: Array = self._empty[np.newaxis]
        """The rows of the table and one more at the end. That one stays empty: row −1 is an unknown node."""

    def __len__(self) -> int:
        return len(self._values) - 1

    def views(self) -> dict[str, Array]:
        """A view (rows × shape) of each part, which shares memory with the block until it grows."""
        return {
            name: self._values[:-1, columns].reshape(len(self), *shape)
            for name, (columns, shape) in self._columns.items()
        }

    def take(self, rows: Rows) -> dict[str, Array]:
        """A copy of each part of these rows, with nodes as the last, contiguous axis."""
        by_column = np.ascontiguousarray(self._values.take(rows, axis=0).T)
        return {name: by_column[columns].reshape(*shape, len(rows)) for name, (columns, shape) in self._columns.items()}

    def clear(self, row: int) -> None:
        self._values[row] = self._empty

    def grow(self, more: int) -> None:
        self._values = np.concatenate([self._values, np.tile(self._empty, (more, 1))])


class RowArrays:
    """The numbers of each node."""

    def __init__(self, *, windows: int, statistics: int) -> None:
        self._loads = RowBlock(
            {
                "load": ((1 + statistics, windows, len(RESOURCES)), np.nan),
                "base": ((len(RESOURCES),), np.nan),
                "begin": ((), -np.inf),
                "end": ((), np.inf),
                "requests": ((len(RESOURCES),), 0.0),
                "limits": ((len(RESOURCES),), 0.0),
                "waiting": ((), np.nan),
            }
        )
        """What every request reads."""

        self._others = RowBlock(
            {
                "since": ((windows,), np.inf),
                "until": ((windows,), -np.inf),
                "headroom": ((len(RESOURCES) + 1,), -np.inf),
            }
        )
        """What few requests read."""

        self._create_views()

    def _create_views(self) -> None:
        loads, others = self._loads.views(), self._others.views()
        self.load = loads["load"]
        """rows × (mean, then each statistic) × windows × resources: share (0..1) of the base."""

        self.base, self.requests, self.limits = loads["base"], loads["requests"], loads["limits"]
        """rows × resources: cores and bytes."""

        self.headroom = others["headroom"]
        """rows × (resources, pods): see `decisions.headroom`."""

        self.waiting = loads["waiting"]
        """rows: the share of time in which pods wait for CPU or disks."""

        self.since, self.until = others["since"], others["until"]
        """rows × windows: Unix seconds between which a value may be used."""

        self._begin, self._end = loads["begin"], loads["end"]

    def __len__(self) -> int:
        return len(self._loads)

    def take(self, rows: Rows) -> dict[str, Array]:
        """A copy of what every request reads, with nodes as the last, contiguous axis. Row −1 is an unknown node.

        From `begin` to `end`, in Unix seconds, all loads of a row may be used.
        """
        return self._loads.take(rows)

    def take_times(self, rows: Rows) -> dict[str, Array]:
        """The same for `since` and `until`: windows × nodes, Unix seconds between which each load may be used."""
        return self._others.take(rows)

    def set_loads(self, rows: Rows, load: Array, base: Array, since: Array, until: Array) -> None:
        """Store the loads of these rows (rows × the shape of `load`), and when each of their windows may be used.

        A window that may never be used has no load.
        """
        used = since <= until
        self.load[rows] = np.where(used[:, np.newaxis, :, np.newaxis], load, np.nan)
        self.base[rows], self.since[rows], self.until[rows] = base, since, until
        self._begin[rows] = since.max(axis=1, initial=-np.inf, where=used)
        self._end[rows] = until.min(axis=1, initial=np.inf, where=used)

    def usable(self, now: float) -> Flags:
        """rows × windows: whether each load may be used."""
        usable: Flags = (self.since <= now) & (now <= self.until)
        return usable

    def clear(self, row: int) -> None:
        self._loads.clear(row)
        self._others.clear(row)

    def grow(self) -> range:
        """Double the table. Returns the new rows."""
        before = len(self)
        more = max(_INITIAL_ROWS, before)
        self._loads.grow(more)
        self._others.grow(more)
        self._create_views()
        return range(before, before + more)
