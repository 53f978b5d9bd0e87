"""The hot nodes of a plan from which nothing is proposed yet."""

from equipoise.contracts.messages.plan import PlanResponse


def waiting_nodes(plan: PlanResponse) -> dict[str, int]:
    """The number of evaluations after which the first of its strategies may propose a move, by node."""
    found: dict[str, int] = {}
    for node in plan.nodes:
        if node.missing_evaluations:
            found[node.node] = min(node.missing_evaluations, found.get(node.node, node.missing_evaluations))
    return found
