"""Which nodes may be the source or the target of a move, and which pods cannot be evicted at present."""

from collections.abc import Mapping, Sequence

from equipoise.contracts.configuration.settings import Thresholds
from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.eviction.node_eligibility import closed_reason, unsettled_reason
from equipoise.contracts.kubernetes.objects.metadata import ready_condition
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.load.correction import load_of
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.node_usage import MeasuredNode


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


def resource_refusal(
    thresholds: Thresholds, window: str, usage: Mapping[str, Resources], measured: MeasuredNode
) -> str:
    """Why no pod may be moved to the node because of a further resource that has a threshold; "" when pods may be.

    A node of unknown load is full as a target. `usage`: that of the node by window.
    """
    for name, threshold in thresholds.resources.items():
        if name not in measured.resources:
            continue  # the node does not have it
        load = load_of(usage.get(window, Resources()), measured.base).amount(name)
        if load is None:
            return f"its {name} load is unknown: {measured.resources[name] or 'no value'}"
        if 100 * load > threshold.high:
            return f"its {name} load is {load:.0%}, above {threshold.high:g}%"
    return ""


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
