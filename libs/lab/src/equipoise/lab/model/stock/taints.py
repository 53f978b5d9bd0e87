"""TaintToleration: which nodes a pod is kept off, and which it had better avoid."""

from collections.abc import Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.contracts.kubernetes.tolerations import tolerates
from equipoise.lab.model.stock.resources import Flags, Ints
from equipoise.lab.model.trace import TraceTaint

UNSCHEDULABLE = TraceTaint(key="node.kubernetes.io/unschedulable")
"""Who tolerates it may go to cordoned nodes."""


def kept_off(taints: Sequence[Sequence[TraceTaint]], tolerations: Sequence[Toleration]) -> Flags:
    """Per node (`taints`: of each): has it a NoSchedule or NoExecute taint that is not tolerated?"""
    return np.array(
        [
            any(taint.effect != "PreferNoSchedule" and not tolerates(tolerations, taint) for taint in of)
            for of in taints
        ],
        dtype=np.bool_,
    )


def disliked(taints: Sequence[Sequence[TraceTaint]], tolerations: Sequence[Toleration]) -> Ints:
    """Per node: its PreferNoSchedule taints that are not tolerated."""
    return np.array(
        [
            sum(taint.effect == "PreferNoSchedule" and not tolerates(tolerations, taint) for taint in of)
            for of in taints
        ],
        dtype=np.int64,
    )


def taint_scores(counts: Ints) -> Ints:
    """0..100 per candidate, from what `disliked` says of each: the worst of them has 0, unless none is disliked."""
    score: Ints = 100 - 100 * counts // max(int(counts.max()), 1)
    return score
