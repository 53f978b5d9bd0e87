"""Which nodes may be the source or the target of a move, and which pods cannot be evicted at present."""

from collections.abc import Sequence

from equipoise.contracts.eviction.protection import Candidate
from equipoise.contracts.kubernetes.objects import Node, PodDisruptionBudget, ready_condition
from equipoise.contracts.kubernetes.taints import being_removed, may_be_removed
from equipoise.contracts.kubernetes.virtual_nodes import virtual_node
from equipoise.contracts.recent import is_recent


def source_refusal(node: Node, *, now: float, settling: float) -> str:
    """Why no pod may be moved away from the node; "" when pods may be.

    `settling`: seconds for which a node must exist and must have been Ready without interruption.
    """
    if node.metadata.unreadable:
        return f"node cannot be read: {node.metadata.unreadable}"
    if node.metadata.deletion_timestamp is not None:
        return "node is being deleted"
    if taint := being_removed(node.spec.taints):
        return f"node is being removed by an autoscaler (taint {taint})"
    created = node.metadata.creation_timestamp
    if created is not None and is_recent(created.timestamp(), now, settling):
        return f"node is younger than {settling:g} s"
    ready = ready_condition(node.status.conditions)
    if ready is None or ready.status != "True":
        return "node is not Ready"
    changed = ready.last_transition_time
    if changed is not None and is_recent(changed.timestamp(), now, settling):
        return f"node was not Ready within the last {settling:g} s"
    return ""


def target_refusal(node: Node, *, now: float, settling: float) -> str:
    """Why no pod may be moved to the node; "" when pods may be."""
    why = source_refusal(node, now=now, settling=settling)
    if why:
        return why
    if node.spec.unschedulable:
        return "node is cordoned"
    if virtual := virtual_node(node.metadata.labels, node.spec.taints):
        return virtual
    taint = may_be_removed(node.spec.taints)
    return f"node is a candidate for removal by an autoscaler (taint {taint})" if taint else ""


def eviction_obstacle(candidate: Candidate, budgets: Sequence[PodDisruptionBudget], *, volumes_known: bool) -> str:
    """Why an eviction of this unprotected pod would fail at present; "" when it may succeed.

    `budgets`: the PodDisruptionBudgets that select the pod, or may select it because they cannot be read.
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
        if budget.status.disruptions_allowed < 1:
            return f"PodDisruptionBudget {budget.metadata.name} allows no disruption"
    return ""
