"""Koordinator's raw allocatable: load is a share of what a node had before it was amplified."""

import json

from peers.cases import Case, peer_cases

from equipoise.contracts.kubernetes.nodes.raw_allocatable import RAW_ALLOCATABLE, base_of
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.quantity import parse_quantity


def quantities(amounts: dict[str, int]) -> dict[str, str]:
    return {"cpu": f"{amounts['cpu_m']}m", "memory": str(amounts["memory_b"])}


@peer_cases("raw_allocatable")
def test_raw_allocatable(case: Case) -> None:
    """The annotation counts; the node's status where the annotation is not valid."""
    inputs = case.inputs
    raw = inputs["raw_allocatable_annotation"]
    annotation = json.dumps(quantities(raw)) if inputs["annotation_valid"] else "invalid"
    node = Node(
        metadata=ObjectMeta(name="a", annotations={RAW_ALLOCATABLE: annotation}),
        status=NodeStatus(allocatable=quantities(inputs["status_allocatable"])),
    )

    base = base_of(node, "allocatable")

    case.check(
        allocatable_used={
            "cpu_m": 1_000 * parse_quantity(base["cpu"]),
            "memory_b": parse_quantity(base["memory"]),
        }
    )
