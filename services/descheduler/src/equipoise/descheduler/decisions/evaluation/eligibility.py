"""Which nodes may be the source or the target of a move, and which pods cannot be evicted at present."""

from collections.abc import Sequence

from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.eviction.node_eligibility import closed_reason, unsettled_reason
from equipoise.contracts.kubernetes.objects.metadata import ready_condition
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget


def source_refusal(node: Node, *, now: float, settling: float) -> str:
    """Why no pod may be moved away from the node; "" when pods may be.

    `settling`: seconds for which a node must exist and must have been Ready without interruption.
    """
    if node.metadata.unreadable:
        return f"node cannot be read: {node.metadata.unreadable}"
    if node.metadata.deletion_timestamp is not None:
        return "node is being deleted"
    created, ready = node.metadata.creation_timestamp, ready_condition(node.status.conditions)
    changed = None if ready is None else ready.last_transition_time
    return unsettled_reason(
        taints=node.spec.taints,
        created_at=0.0 if created is None else created.timestamp(),
        ready=ready is not None and ready.status == "True",
        ready_since=None if changed is None else changed.timestamp(),
        now=now,
        period=settling,
    )


def target_refusal(node: Node, *, now: float, settling: float) -> str:
    """Why no pod may be moved to the node; "" when pods may be."""
    return source_refusal(node, now=now, settling=settling) or closed_reason(
        cordoned=node.spec.unschedulable, labels=node.metadata.labels, taints=node.spec.taints
    )


def eviction_obstacle(
    candidate: Candidate, budgets: Sequence[PodDisruptionBudget], *, volumes_known: bool, without_gap: bool = False
) -> str:
    """Why an eviction of this unprotected pod would fail at present; "" when it may succeed.

    `budgets`: the PodDisruptionBudgets that select the pod, or may select it because they cannot be read.
    `without_gap`: it is evicted when its replacement is ready; a budget then allows what it does not allow now.
    """
    if not volumes_known:
        return "the nodes that can reach its volumes are not known"
    if candidate.unready:
        return f"{candidate.unready} of {candidate.replicas} replicas of {candidate.workload} are not ready"
    for budget in budgets:
        if budget.metadata.unreadable:
            return f"PodDisruptionBudget {budget.metadata.name} cannot be read: {budget.metadata.unreadable}"
    if len(budgets) > 1:
        return "more than one PodDisruptionBudget selects it: the API server refuses such evictions"
    for budget in budgets:
        if budget.status.observed_generation < budget.metadata.generation:
            return f"PodDisruptionBudget {budget.metadata.name} was changed and is not yet observed by its controller"
        if budget.status.disruptions_allowed < 1 and not without_gap:
            return f"PodDisruptionBudget {budget.metadata.name} allows no disruption"
    return ""
