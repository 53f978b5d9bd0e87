"""TaintToleration: which nodes a pod is kept off, and which it had better avoid."""

from collections.abc import Sequence

import numpy as np

from equipoise.lab.model.stock.resources import Flags, Ints
from equipoise.lab.model.trace import TraceTaint, TraceToleration

UNSCHEDULABLE = TraceTaint(key="node.kubernetes.io/unschedulable")
"""Who tolerates it may go to cordoned nodes."""


def tolerated(taint: TraceTaint, tolerations: Sequence[TraceToleration]) -> bool:
    return any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        for toleration in tolerations
    )


def kept_off(taints: Sequence[Sequence[TraceTaint]], tolerations: Sequence[TraceToleration]) -> Flags:
    """Per node (`taints`: of each): has it a NoSchedule or NoExecute taint that is not tolerated?"""
    return np.array(
        [
            any(taint.effect != "PreferNoSchedule" and not tolerated(taint, tolerations) for taint in of)
            for of in taints
        ],
        dtype=np.bool_,
    )


def disliked(taints: Sequence[Sequence[TraceTaint]], tolerations: Sequence[TraceToleration]) -> Ints:
    """Per node: its PreferNoSchedule taints that are not tolerated."""
    return np.array(
        [
            sum(taint.effect == "PreferNoSchedule" and not tolerated(taint, tolerations) for taint in of)
            for of in taints
        ],
        dtype=np.int64,
    )


def taint_scores(counts: Ints) -> Ints:
    """0..100 per candidate, from what `disliked` says of each: the worst of them has 0, unless none is disliked."""
    score: Ints = 100 - 100 * counts // max(int(counts.max()), 1)
    return score
