"""From a policy's 0..100 to the integers that kube-scheduler adds up: 0..10, or finer."""

import msgspec
import numpy as np

from equipoise.scorer.state.arrays import Array, Flags, Rows

HIGHEST = 10
"""MaxExtenderPriority of kube-scheduler, and the default of `scorer.extender.resolution`."""

NEUTRAL = HIGHEST
"""Told of every node when nothing is known of them. A constant changes no order: any would do."""


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
    scores: Array,
    *,
    overfull: Flags,
    avoided: Flags,
    preferred: int | None = None,
    least_spread: float,
    highest: int = HIGHEST,
) -> Answer:
    """Stretch scores (0..100; 0: keep away) over the integers from a tenth of `highest` up to `highest`.

    Overfull and avoided nodes and those with score 0 get 0. When best and worst of the others are less than
    `least_spread` apart, all of those get the highest: merely alike, as far as can be from the unknown and the
    overfull. The preferred node alone gets the highest, if it may be used; the others then share the lower half.
    """
    usable = (scores > 0.0) & ~overfull & ~avoided
    if not usable.any():
        return neutral(len(scores), "no node is known to have room")
    worst, best = scores[usable].min(), scores[usable].max()
    spread = best - worst
    lowest = highest // 10
    integers = np.zeros(len(scores), np.intp)
    why = ""
    if spread >= least_spread and spread > 0.0:
        stretched = lowest + np.rint((highest - lowest) * (scores - worst) / spread)
        integers[usable] = stretched[usable].astype(np.intp)
    else:
        integers[usable] = highest
        why = f"best and worst are {spread:.1f} points apart, less than {least_spread:g}"
    if preferred is not None and usable[preferred]:
        # Half the range apart: kube-scheduler's own scores (spreading, least allocated) pull elsewhere, and one step
        # is less than they differ between two nodes.
        integers[usable] = (integers[usable] + 1) // 2
        integers[preferred] = highest
        why = ""
    flat = bool((integers == integers[0]).all())
    return Answer(scores=integers, best=np.flatnonzero(integers == integers.max()), neutral=flat, why=why)
