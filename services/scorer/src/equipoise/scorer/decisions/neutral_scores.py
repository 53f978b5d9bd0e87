"""The scores without sufficient data: the same for every node, so that kube-scheduler decides alone.

The scorer fails open. Together with neutral scores, the filter refuses no node.
"""

from typing import Literal

import msgspec

from equipoise.contracts.numeric import Rows, np

MAX_SCORE = 10
"""MaxExtenderPriority of kube-scheduler, and the default of `scorer.extender.maxScore`."""

NEUTRAL = MAX_SCORE
"""The score of every node in a neutral response. A constant does not change the order of nodes."""

NeutralReason = Literal["", "setting", "late", "coverage", "no_nodes", "alike"]
"""Label of a metric: `scorer.neutral` is set; the request was received too late; the load of too few nodes is known;
the request names no node; the nodes have equal points, or none is known to have headroom. Empty: not neutral."""


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
