"""The annotations that a pod has only while it is detached from its ReplicaSet.

Karpenter evicts a detached pod like any other, before its replacement is ready, unless an annotation forbids it
(docs/decisions/0084). Cluster Autoscaler keeps the node of a pod without controller anyway.
"""

from equipoise.binder.decisions.surge.plan import SurgePlan
from equipoise.binder.state.surge_move import SurgeMove
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.kubernetes.objects.pod import Pod

FORBIDDEN = "true"
"""The value of DO_NOT_DISRUPT. All versions of Karpenter read it."""

AnnotationChanges = dict[str, str | None]
"""New values by name; None removes the annotation."""


def changes_at_detaching(plan: SurgePlan) -> AnnotationChanges:
    """The changes that are made with the removal of the label."""
    changes: AnnotationChanges = {DETACHED_HASH: plan.template_hash}
    return changes | {DO_NOT_DISRUPT: FORBIDDEN} if plan.do_not_disrupt else changes


def changes_at_restoring(move: SurgeMove, pod: Pod) -> AnnotationChanges:
    """The changes that are made when the label is written back: what was added is removed, unless somebody has changed
    it."""
    changes: AnnotationChanges = {DETACHED_HASH: None}
    return changes | {DO_NOT_DISRUPT: None} if _has_ours(move, pod) else changes


def left_over_text(move: SurgeMove, pod: Pod) -> str:
    """What a person removes from a pod that another program has given back; empty if nothing. The admission policy
    permits the binder to remove it only with the label."""
    if not _has_ours(move, pod):
        return ""
    command = f"kubectl annotate pod --namespace {move.intent.namespace} {move.intent.pod} {DO_NOT_DISRUPT}-"
    return f"; it keeps an annotation of the move, which keeps its node: {command}"


def _has_ours(move: SurgeMove, pod: Pod) -> bool:
    return move.do_not_disrupt and pod.metadata.annotations.get(DO_NOT_DISRUPT) == FORBIDDEN
