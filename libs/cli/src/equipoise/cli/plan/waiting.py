"""The hot nodes of a plan from which nothing is proposed yet."""

from equipoise.contracts.messages.plan import PlanResponse


def waiting_nodes(plan: PlanResponse) -> dict[str, int]:
    """The number of evaluations that are missing until the first strategy may propose a move, by node."""
    missing: dict[str, int] = {}
    for node in plan.nodes:
        if node.missing_evaluations:
            missing[node.node] = min(node.missing_evaluations, missing.get(node.node, node.missing_evaluations))
    return missing
