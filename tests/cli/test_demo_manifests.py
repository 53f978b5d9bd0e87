"""The demo's trace as Kubernetes objects."""

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import node_documents
from equipoise.contracts.kubernetes.quantity import parse_quantity


def test_usage_above_a_fake_nodes_cores_is_no_impossible_reading() -> None:
    """Nothing slows fake pods down: the machine is told to be larger than what pods may ask for."""
    for node in node_documents(example_trace()):
        allocatable, capacity = node["status"]["allocatable"], node["status"]["capacity"]
        assert parse_quantity(capacity["cpu"]) == 2 * parse_quantity(allocatable["cpu"])
        assert capacity["memory"] == allocatable["memory"]
