"""Converts the scores of a policy (0..100) to the integers of kube-scheduler: 0..10, or 0..100."""

import msgspec
import numpy as np

from equipoise.scorer.state.arrays import Array, Flags, Rows

MAX_SCORE = 10
"""MaxExtenderPriority of kube-scheduler, and the default of `scorer.extender.maxScore`."""

NEUTRAL = MAX_SCORE
"""The score of every node in a neutral response. A constant does not change the order of nodes."""


class ExtenderScores(msgspec.Struct, frozen=True, kw_only=True):
    """One integer per node, in the order of the request."""

    scores: Rows
    best: Rows
    """Indexes of the nodes with the highest score; empty if no node is usable or the scores are neutral by default."""

    neutral: bool = False
    """All nodes have the same score."""

    why: str = ""
    """Why the scores are equal; empty when they are not."""


def neutral(count: int, why: str) -> ExtenderScores:
    """The same integer for every node: kube-scheduler decides as if there were no extender."""
    return ExtenderScores(scores=np.full(count, NEUTRAL, np.intp), best=np.zeros(0, np.intp), neutral=True, why=why)


def to_integers(
    points: Array,
    *,
    overfull: Flags,
    avoided: Flags,
    preferred: int | None = None,
    min_spread: float,
    max_score: int = MAX_SCORE,
) -> ExtenderScores:
    """Scale points (0..100; 0: unusable) to the integers from a tenth of `max_score` up to `max_score`.

    Overfull and avoided nodes and those with 0 points get 0. If best and worst of the others differ by less than
    `min_spread`, all of those get `max_score`. The preferred node, if usable, alone gets `max_score`; the others then
    share the lower half.
    """
    usable = (points > 0.0) & ~overfull & ~avoided
    if not usable.any():
        return neutral(len(points), "no node is known to have headroom")
    worst, best = points[usable].min(), points[usable].max()
    spread = best - worst
    lowest = max_score // 10
    integers = np.zeros(len(points), np.intp)
    why = ""
    if spread >= min_spread and spread > 0.0:
        scaled = lowest + np.rint((max_score - lowest) * (points - worst) / spread)
        integers[usable] = scaled[usable].astype(np.intp)
    else:
        integers[usable] = max_score
        why = f"best and worst are {spread:.1f} points apart, less than {min_spread:g}"
    if preferred is not None and usable[preferred]:
        # Half of the range: the difference must exceed that of kube-scheduler's own scores (spreading, least
        # allocated), which is more than one step between two nodes.
        integers[usable] = (integers[usable] + 1) // 2
        integers[preferred] = max_score
        why = ""
    equal = bool((integers == integers[0]).all())
    return ExtenderScores(scores=integers, best=np.flatnonzero(integers == integers.max()), neutral=equal, why=why)
