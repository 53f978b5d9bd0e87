"""How autoscalers tell that they will remove a node, or would like to."""

from collections.abc import Iterable

from equipoise.contracts.kubernetes.objects import NodeTaint
from equipoise.contracts.messages.placement import Taint

REMOVAL_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
"""The node is about to go, and the autoscaler moves its pods itself: it is neither source nor target."""

CANDIDATE_TAINTS = frozenset({"DeletionCandidateOfClusterAutoscaler"})
"""The node may be removed soon: filling it would be fighting."""


def being_removed(taints: Iterable[Taint | NodeTaint]) -> str:
    """ "" when nobody is removing the node, else the taint's key."""
    return next((taint.key for taint in taints if taint.key in REMOVAL_TAINTS), "")


def may_be_removed(taints: Iterable[Taint | NodeTaint]) -> str:
    """ "" when nobody would like to remove the node, else the taint's key."""
    return next((taint.key for taint in taints if taint.key in CANDIDATE_TAINTS), "")
