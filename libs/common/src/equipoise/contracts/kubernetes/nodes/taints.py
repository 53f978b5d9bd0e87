"""Taints: whether a pod tolerates a taint, and the taints by which autoscalers announce that they remove a node.

The operators `Gt` and `Lt` exist since Kubernetes 1.35 (feature gate TaintTolerationComparisonOperators, alpha).
Without the gate the API server rejects pods that use them.
"""

import re
from collections.abc import Iterable, Sequence

from equipoise.contracts.kubernetes.labels import integer
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration

REMOVAL_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
"""The node will be removed, and the autoscaler drains it: it is neither source nor target."""

CANDIDATE_TAINTS = frozenset({"DeletionCandidateOfClusterAutoscaler"})
"""The node may be removed soon: it is no target."""

CONTENTION_SUFFIX = "-contention-pressure"
"""The end of the keys of the taints by which a kubelet announces pressure (KEP-5394, alpha): the node is no target."""

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
"""The taint of a cordoned node."""

CONTROL_PLANE = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
"""The effects of taints that keep away pods without a matching toleration."""

DEFAULT_TOLERATIONS = frozenset(
    Toleration(key=f"node.kubernetes.io/{condition}", operator="Exists", effect="NoExecute")
    for condition in ("not-ready", "unreachable")
)
"""Tolerations that Kubernetes adds to every pod."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
"""A value that can be compared. Any other text, such as 007 or +1, never matches."""


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """True when one of the tolerations matches the taint. Source: `ToleratesTaint` of k8s.io/api/core/v1, 1.36."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Gt" | "Lt" if _INTEGER.fullmatch(toleration.value) and _INTEGER.fullmatch(taint.value):
            bound, value = integer(toleration.value), integer(taint.value)
            if bound is None or value is None:
                return False
            return value > bound if toleration.operator == "Gt" else value < bound
    return False


def being_removed(taints: Iterable[Taint]) -> str:
    """The key of the taint by which a node is being removed; empty if there is none."""
    return next((taint.key for taint in taints if taint.key in REMOVAL_TAINTS), "")


def contention_taint(taints: Iterable[Taint]) -> str:
    """The key of the taint by which the kubelet of a node announces pressure; empty if there is none."""
    return next((taint.key for taint in taints if taint.key.endswith(CONTENTION_SUFFIX)), "")


def may_be_removed(taints: Iterable[Taint]) -> str:
    """The key of the taint by which a node may soon be removed; empty if there is none."""
    return next((taint.key for taint in taints if taint.key in CANDIDATE_TAINTS), "")
