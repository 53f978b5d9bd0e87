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


def select(points: Singles, candidates: Flags, settings: HintSettings, *, min_spread: float) -> Selection:
    """`points` and `candidates` (nodes that the pods can use and whose load is known) are workloads × nodes.

    A share of the candidates, the worst ones, is avoided; of the others, the best ones with points are preferred.
    A workload whose candidates differ by less than `min_spread` points gets no hint.
    """
    usable = candidates & (points > 0.0)
    high, low = np.where(usable, points, -np.inf), np.where(candidates, points, np.inf)
    hinted = high.max(axis=1, initial=-np.inf) - low.min(axis=1, initial=np.inf) >= max(min_spread, 1e-9)
    count = candidates.sum(axis=1)
    avoided = np.minimum(MAX_HOSTNAMES, (settings.avoided_share * count).astype(np.intp))
    preferred = np.minimum(settings.preferred, np.minimum(usable.sum(axis=1), count - avoided))
    return Selection(
        best=_lowest(-high, settings.preferred, np.where(hinted, preferred, 0)),
        worst=_lowest(low, MAX_HOSTNAMES, np.where(hinted, avoided, 0)),
    )


def unchanged(before: Selection, now: Selection, points: Singles, candidates: Flags, settings: HintSettings) -> Flags:
    """Per workload: whether the nodes chosen before are still candidates, and the ones chosen now no better by more
    than `settings.min_change` points."""
    weights = np.repeat([term.weight for term in settings.terms], [term.nodes for term in settings.terms])
    better = _mean(points, now.best, weights) - _mean(points, before.best, weights)
    worse = _mean(points, before.worst, np.ones(MAX_HOSTNAMES)) - _mean(points, now.worst, np.ones(MAX_HOSTNAMES))
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


def _mean(points: Singles, columns: Rows, weights: Array) -> Array:
    weights = weights * (columns >= 0)
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
