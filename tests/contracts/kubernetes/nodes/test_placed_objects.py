"""A placement as an object of the API server."""

from builders import GIB, a_batch_pod, a_placed_pod, a_placement

from equipoise.contracts.kubernetes.nodes.placed_objects import REPORTED, node_object, requested_amounts
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.requests import amounts_of
from equipoise.contracts.messages.placement import NodeColocation
from equipoise.contracts.messages.values.resources import Resources


def test_a_node_has_what_its_placement_has() -> None:
    taint = Taint(key="x", effect="NoSchedule")
    colocation = NodeColocation(amounts={"batch": Resources(cpu=2.5, memory=GIB)})
    node = node_object(a_placement(labels={"zone": "a"}, taints=[taint], cordoned=True, colocation=colocation))

    assert (node.metadata.name, node.metadata.labels) == ("node-a", {"zone": "a"})
    assert (node.spec.taints, node.spec.unschedulable) == ([taint], True)
    assert amounts_of(node.status.allocatable) == {
        "cpu": 10.0, "memory": 64 * GIB, "pods": 110.0, "kubernetes.io/batch-cpu": 2_500.0,
        "kubernetes.io/batch-memory": GIB,
    }  # fmt: skip
    assert node.status.allocatable.keys() <= REPORTED


def test_an_unknown_amount_is_absent() -> None:
    """It is not 0 and not unlimited: no pod that requests it fits."""
    assert "memory" not in node_object(a_placement(allocatable=Resources(cpu=1.0))).status.allocatable


def test_pods_request_cpu_and_memory_or_amounts_of_their_band() -> None:
    placement = a_placement(pods=[a_placed_pod("a"), a_placed_pod("b"), a_batch_pod()])

    assert requested_amounts(placement) == {
        "cpu": 1.0, "memory": 2 * GIB, "kubernetes.io/batch-cpu": 1_000.0, "kubernetes.io/batch-memory": GIB
    }  # fmt: skip
