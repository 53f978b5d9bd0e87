"""Chooses the nodes of hints: of several workloads at once, from their points on every node."""

import msgspec

from equipoise.contracts.messages.placement import MAX_HOSTNAMES
from equipoise.contracts.numeric import Array, Flags, Rows, np
from equipoise.scorer.decisions.placement_hints.settings import HintSettings


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """workloads × positions: columns of nodes; −1 where there is none."""

    best: Rows
    """The best node first."""

    worst: Rows
    """The worst node first."""


def select(points: Array, candidates: Flags, settings: HintSettings, *, min_spread: float) -> Selection:
    """`points` and `candidates` (nodes that the pods can use and whose load is known) are workloads × nodes.

    The worst share of the candidates is avoided, and of the others the best ones with points are preferred. A workload
    whose candidates differ by less than `min_spread` points gets no hint.
    """
    nodes = points.shape[1]
    usable = candidates & (points > 0.0)
    high = np.where(usable, points, -np.inf)
    low = np.where(candidates, points, np.inf)
    spread = high.max(axis=1, initial=-np.inf) - low.min(axis=1, initial=np.inf)
    hinted = spread >= min_spread
    number = candidates.sum(axis=1)
    avoided = np.minimum(MAX_HOSTNAMES, (settings.avoided_share * number).astype(np.intp))
    preferred = np.minimum(settings.nodes, np.minimum(usable.sum(axis=1), number - avoided))
    best = _first(-high, min(settings.nodes, nodes), np.where(hinted, preferred, 0))
    worst = _first(low, min(MAX_HOSTNAMES, nodes), np.where(hinted, avoided, 0))
    return Selection(best=best, worst=worst)


def _first(values: Array, width: int, sizes: Rows) -> Rows:
    """Per row: the columns of the `sizes` lowest values, the lowest first, then −1."""
    columns = np.argpartition(values, min(width, values.shape[1] - 1), axis=1)[:, :width]
    order = np.argsort(np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    sorted_columns = np.take_along_axis(columns, order, axis=1)
    found: Rows = np.where(np.arange(width) < sizes[:, np.newaxis], sorted_columns, -1)
    return found
