"""Whether pods may be moved away from a node, or to it, according to its object or placement."""

from collections.abc import Mapping, Sequence

from equipoise.contracts.kubernetes.nodes.consolidation_taint import tainted_text
from equipoise.contracts.kubernetes.nodes.taints import UNSCHEDULABLE, being_removed, contention_taint, may_be_removed
from equipoise.contracts.kubernetes.nodes.virtual_nodes import virtual_node
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.recent import is_recent


def unsettled_reason(
    *, taints: Sequence[Taint], created_at: float, ready: bool, ready_since: float | None, now: float, period: float
) -> str:
    """Why pods may be moved neither from the node nor to it; empty if they may.

    `created_at`: Unix seconds, or 0 if unknown. `ready_since`: the time since which the condition Ready has its status,
    or None if unknown. `period`: seconds for which a node must exist and must have been Ready without interruption.
    """
    if removed := _removed_reason(taints):
        return removed
    if is_recent(created_at, now, period):
        return f"node is younger than {period:g} s"
    if not ready:
        return "node is not Ready"
    if ready_since is None:
        return "it is not known since when the node is Ready"
    if is_recent(ready_since, now, period):
        return f"node was not Ready within the last {period:g} s"
    return ""


def leaving_reason(*, cordoned: bool, taints: Sequence[Taint]) -> str:
    """Why all pods of the node are about to be evicted by others; empty if that is not announced."""
    if removed := _removed_reason(taints):
        return removed
    return "node is cordoned" if cordoned or any(taint.key == UNSCHEDULABLE for taint in taints) else ""


def _removed_reason(taints: Sequence[Taint]) -> str:
    taint = being_removed(taints)
    return f"node is being removed by an autoscaler (taint {taint})" if taint else ""


def closed_reason(*, cordoned: bool, labels: Mapping[str, str], taints: Sequence[Taint]) -> str:
    """Why no pod may be moved to the node, although pods may be moved from it; empty if they may."""
    if cordoned:
        return "node is cordoned"
    if virtual := virtual_node(labels, taints):
        return virtual
    if emptying := tainted_text(taints):
        return f"node is {emptying}"
    if contended := contention_taint(taints):
        return f"node has pressure (taint {contended})"
    taint = may_be_removed(taints)
    return f"node is a candidate for removal by an autoscaler (taint {taint})" if taint else ""
