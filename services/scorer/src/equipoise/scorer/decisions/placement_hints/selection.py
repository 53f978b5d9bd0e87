"""Chooses the nodes of hints, of several workloads at once, from their points on every node."""

from collections.abc import Sequence
from typing import Any

import msgspec

from equipoise.contracts.messages.placement import MAX_HOSTNAMES
from equipoise.contracts.numeric import Array, Flags, Rows, Singles, np
from equipoise.scorer.decisions.placement_hints.sampling import most_preferred
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

_TINY = 1e-6
"""Points: less than any difference that matters."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """workloads × positions: columns of nodes; −1 where there is none."""

    best: Rows
    """The best node first."""

    grades: Rows
    """The grade of each of the best nodes: the higher, the better; 0 where there is none."""

    worst: Rows
    """The worst node first."""

    def part(self, rows: slice) -> "Selection":
        """The selection of some of the workloads."""
        return Selection(best=self.best[rows], grades=self.grades[rows], worst=self.worst[rows])


def no_nodes(workloads: int) -> Selection:
    """Neither preferred nor avoided nodes."""
    none = np.full((workloads, MAX_HOSTNAMES), -1, np.intp)
    return Selection(best=none, grades=np.zeros((workloads, MAX_HOSTNAMES), np.intp), worst=none)


def spread(points: Singles, candidates: Flags) -> Array:
    """The points between the best and the worst candidate of each workload; 0 without candidates."""
    high = np.where(candidates, points, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(candidates, points, np.inf).min(axis=1, initial=np.inf)
    between: Array = np.where(high >= low, high - low, 0.0)
    return between


def select(points: Singles, candidates: Flags, settings: HintSettings) -> Selection:
    """`points` and `candidates` (nodes that the pods can use and whose load is known) are workloads × nodes.

    A share of the candidates, the worst ones, is avoided; of the others, the best ones with points are preferred.
    """
    usable = candidates & (points > 0.0)
    count = candidates.sum(axis=1)
    avoided = np.minimum(settings.avoided_nodes, (settings.avoided_share * count).astype(np.intp))
    preferred = np.maximum(settings.preferred_share * count, 1).astype(np.intp)
    most = most_preferred(settings.preferred_nodes, points.shape[1])
    preferred = np.minimum(np.minimum(preferred, most), count - avoided)
    preferred = np.minimum(preferred, usable.sum(axis=1))
    best = _lowest(np.where(usable, -points, np.inf), MAX_HOSTNAMES, preferred)
    return Selection(
        best=best,
        grades=_grades(points, best, preferred, settings.grades),
        worst=_lowest(np.where(candidates, points, np.inf), MAX_HOSTNAMES, avoided),
    )


def _grades(points: Singles, best: Rows, sizes: Rows, grades: int) -> Rows:
    """`grades` for the best node, 1 for the last preferred one; the others by the square of the points they lack.

    So the best nodes have nearly the same grade, and kube-scheduler distributes the pods of a burst over them: its own
    scores see every placed pod at once, a hint only those that were placed before it was computed.
    """
    of_best = _at(points, best)
    last = np.take_along_axis(of_best, np.maximum(sizes - 1, 0)[:, np.newaxis], axis=1)
    below = (of_best[:, :1] - of_best) / np.maximum(of_best[:, :1] - last, _TINY)
    found: Rows = np.where(best >= 0, grades - np.rint((grades - 1) * below**2), 0).astype(np.intp)
    return found


def unchanged(before: Selection, now: Selection, points: Singles, candidates: Flags, settings: HintSettings) -> Flags:
    """Whether each workload keeps the nodes that were chosen before. It does if all are still candidates, none is worse
    by more than `settings.min_change` points than the node now in its place, and no grade differs by more than one."""
    same: Flags = (np.abs(now.grades - before.grades) <= 1).all(axis=1)
    for old, new, sign in ((before.best, now.best, 1.0), (before.worst, now.worst, -1.0)):
        there = old >= 0
        same &= (there == (new >= 0)).all(axis=1)
        same &= (_at(candidates, old) | ~there).all(axis=1)
        same &= (~there | (sign * (_at(points, new) - _at(points, old)) <= settings.min_change)).all(axis=1)
    return same


def _at(values: Any, columns: Rows) -> Any:
    """rows × positions: the values in these columns; of any column for −1."""
    return np.take_along_axis(values, np.maximum(columns, 0), axis=1)


def merged(before: Selection, now: Selection, kept: Flags) -> Selection:
    """The rows `kept` of `before`, and all other rows of `now`."""
    rows = kept[:, np.newaxis]
    return Selection(
        best=np.where(rows, before.best, now.best),
        grades=np.where(rows, before.grades, now.grades),
        worst=np.where(rows, before.worst, now.worst),
    )


def joined(parts: Sequence[Selection]) -> Selection:
    """The selection of all workloads."""
    return Selection(
        best=np.concatenate([part.best for part in parts]),
        grades=np.concatenate([part.grades for part in parts]),
        worst=np.concatenate([part.worst for part in parts]),
    )


def _lowest(values: Singles, width: int, sizes: Rows) -> Rows:
    """rows × width: the columns of the `sizes` lowest values, the lowest first, then −1."""
    count, columns = values.shape
    found = np.full((count, width), -1, np.intp)
    some = min(width, columns)
    lowest = np.argpartition(values, some - 1, axis=1)[:, :some]
    order = np.argsort(np.take_along_axis(values, lowest, axis=1), axis=1, kind="stable")
    found[:, :some] = np.take_along_axis(lowest, order, axis=1)
    found[np.arange(width) >= sizes[:, np.newaxis]] = -1
    return found
