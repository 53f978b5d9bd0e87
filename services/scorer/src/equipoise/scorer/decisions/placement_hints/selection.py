"""Chooses the nodes of hints, of several workloads at once, from their points on every node."""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.messages.placement import MAX_HOSTNAMES
from equipoise.contracts.numeric import Array, Flags, Rows, Singles, np
from equipoise.scorer.decisions.placement_hints.settings import HintSettings


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """workloads × positions: columns of nodes; −1 where there is none."""

    best: Rows
    """The best node first."""

    worst: Rows
    """The worst node first."""

    def part(self, rows: slice) -> "Selection":
        """That of some of the workloads."""
        return Selection(best=self.best[rows], worst=self.worst[rows])


def spread(points: Singles, candidates: Flags) -> Array:
    """Per workload: the points between its best and its worst candidate; 0 without candidates."""
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
    avoided = np.minimum(MAX_HOSTNAMES, (settings.avoided_share * count).astype(np.intp))
    preferred = np.maximum(settings.preferred_share * count, 1).astype(np.intp)
    preferred = np.minimum(np.minimum(preferred, settings.preferred), np.minimum(usable.sum(axis=1), count - avoided))
    return Selection(
        best=_lowest(np.where(usable, -points, np.inf), settings.preferred, preferred),
        worst=_lowest(np.where(candidates, points, np.inf), MAX_HOSTNAMES, avoided),
    )


def unchanged(before: Selection, now: Selection, points: Singles, candidates: Flags, settings: HintSettings) -> Flags:
    """Per workload: whether the nodes chosen before are still candidates, and the ones chosen now no better by more
    than `settings.min_change` points."""
    better = _mean(points, now.best) - _mean(points, before.best)
    worse = _mean(points, before.worst) - _mean(points, now.worst)
    same = (better <= settings.min_change) & (worse <= settings.min_change)
    for old, new in ((before.best, now.best), (before.worst, now.worst)):
        same &= ((old >= 0) == (new >= 0)).all(axis=1)
        same &= (np.take_along_axis(candidates, np.maximum(old, 0), axis=1) | (old < 0)).all(axis=1)
    return same


def merged(before: Selection, now: Selection, kept: Flags) -> Selection:
    """The rows `kept` of the one, and the other rows of the other."""
    rows = kept[:, np.newaxis]
    return Selection(best=np.where(rows, before.best, now.best), worst=np.where(rows, before.worst, now.worst))


def joined(parts: Sequence[Selection]) -> Selection:
    """The selection of all workloads."""
    return Selection(
        best=np.concatenate([part.best for part in parts]), worst=np.concatenate([part.worst for part in parts])
    )


def _mean(points: Singles, columns: Rows) -> Array:
    """The weighted mean of the points of the chosen nodes: the first ones count most."""
    weights = np.arange(columns.shape[1], 0, -1) * (columns >= 0)
    total = (np.take_along_axis(points, np.maximum(columns, 0), axis=1) * weights).sum(axis=1)
    mean: Array = total / np.maximum(weights.sum(axis=1), 1)
    return mean


def _lowest(values: Singles, width: int, sizes: Rows) -> Rows:
    """rows × width: the columns of the `sizes` lowest values, the lowest first, then −1."""
    count, columns = values.shape
    found = np.full((count, width), -1, np.intp)
    if not columns:
        return found
    some = min(width, columns)
    lowest = np.argpartition(values, some - 1, axis=1)[:, :some]
    order = np.argsort(np.take_along_axis(values, lowest, axis=1), axis=1, kind="stable")
    found[:, :some] = np.take_along_axis(lowest, order, axis=1)
    found[np.arange(width) >= sizes[:, np.newaxis]] = -1
    return found
