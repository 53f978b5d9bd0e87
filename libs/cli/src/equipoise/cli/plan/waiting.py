"""The hot nodes of a plan from which nothing is proposed yet."""

from equipoise.contracts.messages.plan import PlanResponse


def waiting_nodes(plan: PlanResponse) -> dict[str, int]:
    """By node: after how many evaluations the first of its strategies may propose a move."""
    found: dict[str, int] = {}
    for node in plan.nodes:
        if node.missing_evaluations:
            found[node.node] = min(node.missing_evaluations, found.get(node.node, node.missing_evaluations))
    return found
