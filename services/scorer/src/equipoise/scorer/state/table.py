"""What is kept of every node, as one row of numbers: the rows of a question are then taken in one go."""

import copy
import math
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from equipoise.contracts.load.correction import RESOURCES
from equipoise.scorer.state.arrays import Array, Rows

_FIRST_ROWS = 64


class Table:
    """Parts of a row, each with a shape of its own; rows of removed nodes are used again."""

    def __init__(self, *, windows: int, statistics: int) -> None:
        parts: Mapping[str, tuple[tuple[int, ...], float]] = {
            "load": ((1 + statistics, windows, len(RESOURCES)), np.nan),
            "base": ((len(RESOURCES),), np.nan),
            "since": ((windows,), np.inf),
            "until": ((windows,), -np.inf),
            "requested": ((len(RESOURCES),), 0.0),
            "limited": ((len(RESOURCES),), 0.0),
            "room": ((len(RESOURCES) + 1,), -np.inf),
        }
        self._empty = np.concatenate([np.full(math.prod(shape), fill) for shape, fill in parts.values()])
        ends = accumulate(math.prod(shape) for shape, _ in parts.values())
        self._columns = {
            name: (slice(end - math.prod(shape), end), shape)
            for (name, (shape, _)), end in zip(parts.items(), ends, strict=True)
        }
        """Where each part lies in a row, and its shape."""

        self._values: Array = np.zeros((0, len(self._empty)))
        self._view()

    def _view(self) -> None:
        """rows × the shape of each part; what is written there is written here."""
        parts = {
            name: self._values[:, columns].reshape(len(self), *shape)
            for name, (columns, shape) in self._columns.items()
        }
        self.load = parts["load"]
        """rows × (mean, then each statistic) × windows × resources: share (0..1) of the base."""

        self.base, self.requested, self.limited = parts["base"], parts["requested"], parts["limited"]
        """rows × resources: cores and bytes."""

        self.room = parts["room"]
        """rows × (resources, pods): see `room_of`."""

        self.since, self.until = parts["since"], parts["until"]
        """rows × windows: when a value may be used, in Unix seconds."""

    def __len__(self) -> int:
        return len(self._values)

    def take(self, rows: Rows) -> dict[str, Array]:
        """Each part of these rows, nodes last and next to one another: everything that follows runs along them.

        A row of −1 is that of a node that was never heard of.
        """
        if len(self._values):
            taken = self._values.take(rows, axis=0)
            if (unheard := rows < 0).any():
                taken[unheard] = self._empty
        else:
            taken = np.tile(self._empty, (len(rows), 1))
        by_column = np.ascontiguousarray(taken.T)
        return {name: by_column[columns].reshape(*shape, len(rows)) for name, (columns, shape) in self._columns.items()}

    def clear(self, row: int) -> None:
        self._values[row] = self._empty

    def grow(self) -> range:
        """The new rows."""
        before = len(self._values)
        more = max(_FIRST_ROWS, before)
        self._values = np.concatenate([self._values, np.tile(self._empty, (more, 1))])
        self._view()
        return range(before, before + more)

    def own_copy(self) -> "Table":
        other = copy.copy(self)
        other._values = self._values.copy()
        other._view()
        return other
