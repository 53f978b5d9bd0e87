"""From a policy's 0..100 to the integers 0..10 that kube-scheduler adds up."""

import msgspec
import numpy as np

from equipoise.scorer.loads import Array, Flags, Rows

HIGHEST = 10
"""MaxExtenderPriority of kube-scheduler."""

LOWEST = 1
"""The worst node that may be used; 0 is kept for nodes to keep away from."""

NEUTRAL = HIGHEST
"""Told of every node when nodes are not told apart.

A constant changes no order, so any would do; the highest keeps nodes that are merely alike as far as can be from
unknown and overfull ones.
"""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One integer per node, in the order of the question."""

    scores: Rows
    best: Rows
    """Indexes of the nodes of the top level; empty when the answer is neutral."""

    neutral: bool = False
    why: str = ""
    """Why nodes are not told apart; empty when they are."""


def neutral(count: int, why: str) -> Answer:
    """The same integer for every node: kube-scheduler decides as if nobody had been asked."""
    return Answer(scores=np.full(count, NEUTRAL, np.intp), best=np.zeros(0, np.intp), neutral=True, why=why)


def answer(
    scores: Array, *, overfull: Flags, avoided: Flags, preferred: int | None = None, least_spread: float
) -> Answer:
    """Stretch scores (0..100; 0: keep away) over 1..10, unless best and worst are less than `least_spread` apart.

    Overfull and avoided nodes and those with score 0 get 0. The preferred node alone gets 10, if it may be
    used; the others are then stretched over 1..5.
    """
    usable = (scores > 0.0) & ~overfull & ~avoided
    if not usable.any():
        return neutral(len(scores), "no node is known to have room")
    worst, best = scores[usable].min(), scores[usable].max()
    spread = best - worst
    integers = np.zeros(len(scores), np.intp)
    why = ""
    if spread >= least_spread and spread > 0.0:
        stretched = LOWEST + np.rint((HIGHEST - LOWEST) * (scores - worst) / spread)
        integers[usable] = stretched[usable].astype(np.intp)
    else:
        integers[usable] = NEUTRAL
        why = f"best and worst are {spread:.1f} points apart, less than {least_spread:g}"
    if preferred is not None and usable[preferred]:
        # Half the range apart: kube-scheduler's own scores (spreading, least allocated) pull elsewhere, and one step
        # is less than they differ between two nodes.
        integers[usable] = (integers[usable] + 1) // 2
        integers[preferred] = HIGHEST
        why = ""
    flat = bool((integers == integers[0]).all())
    return Answer(scores=integers, best=np.flatnonzero(integers == integers.max()), neutral=flat, why=why)
