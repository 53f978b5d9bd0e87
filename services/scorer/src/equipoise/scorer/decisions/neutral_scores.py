"""Neutral scores, which are the same for every node, so that kube-scheduler decides alone.

The scorer fails open: without sufficient data, scores are neutral and the filter refuses no node.
"""

from typing import Literal

import msgspec

from equipoise.contracts.numeric import Rows, np

MAX_SCORE = 10
"""MaxExtenderPriority of kube-scheduler, and the default of `scorer.extender.maxScore`."""

NEUTRAL = MAX_SCORE
"""The score of every node in a neutral response. A constant does not change the order of nodes."""

NeutralReason = Literal["", "setting", "late", "coverage", "no_nodes", "alike"]
"""Why scores are neutral, as the label of a metric; empty if they are not.

setting: `scorer.neutral` is set. late: the request was received too late. coverage: the load of too few nodes is known.
no_nodes: the request names no node. alike: the nodes have equal points, or none is known to have headroom.
"""


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
