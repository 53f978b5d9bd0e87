"""The taints by which autoscalers announce that they will, or may, remove a node."""

from collections.abc import Iterable

from equipoise.contracts.kubernetes.objects import NodeTaint
from equipoise.contracts.messages.placement import Taint

REMOVAL_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
"""The node will be removed, and the autoscaler drains it: it is neither source nor target."""

CANDIDATE_TAINTS = frozenset({"DeletionCandidateOfClusterAutoscaler"})
"""The node may be removed soon: it is no target."""


def being_removed(taints: Iterable[Taint | NodeTaint]) -> str:
    """ "" unless the node is being removed, else the taint's key."""
    return next((taint.key for taint in taints if taint.key in REMOVAL_TAINTS), "")


def may_be_removed(taints: Iterable[Taint | NodeTaint]) -> str:
    """ "" unless the node may be removed, else the taint's key."""
    return next((taint.key for taint in taints if taint.key in CANDIDATE_TAINTS), "")
