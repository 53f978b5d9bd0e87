"""Why a node may be no source or no target of a move, whatever its load."""

from equipoise.contracts.kubernetes.autoscaler_taints import being_removed, may_be_removed
from equipoise.contracts.kubernetes.objects import Node


def source_refusal(node: Node, *, now: float, settling: float) -> str:
    """Why nothing may be moved away from the node; "" when nothing speaks against it.

    `settling`: seconds for which a node must exist, and must have been Ready without a break.
    """
    if node.metadata.deletion_timestamp is not None:
        return "node is being deleted"
    if taint := being_removed(node.spec.taints):
        return f"node is being removed by an autoscaler (taint {taint})"
    created = node.metadata.creation_timestamp
    if created is not None and now - created.timestamp() < settling:
        return f"node is younger than {settling:g} s"
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    if ready is None or ready.status != "True":
        return "node is not Ready"
    if ready.last_transition_time is not None and now - ready.last_transition_time.timestamp() < settling:
        return f"node was not Ready within the last {settling:g} s"
    return ""


def target_refusal(node: Node, *, now: float, settling: float) -> str:
    """Why nothing may be moved to the node; "" when nothing speaks against it."""
    why = source_refusal(node, now=now, settling=settling)
    if why:
        return why
    if node.spec.unschedulable:
        return "node is cordoned"
    taint = may_be_removed(node.spec.taints)
    return f"an autoscaler would like to remove the node (taint {taint})" if taint else ""
