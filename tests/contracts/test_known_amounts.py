"""Amounts that no machine has are unknown: the object says so, and has no amounts."""

import pytest
from kube_objects import a_pod

from equipoise.contracts.kubernetes.objects import (
    Container,
    ContainerStatus,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    ResourceRequirements,
)
from equipoise.contracts.kubernetes.quantity import known_quantity
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.unreadable.known_amounts import node_with_known_amounts, with_known_amounts

HUGE = ["1e308", "1e309", "10E", "9223372036854775807", "9" * 5_000, "-1", "1000001", "one"]


def requesting(cpu: str, **fields: object) -> Container:
    return Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))


PODS = {
    "containers": lambda cpu: a_pod(spec={"containers": [requesting(cpu)]}),
    "init containers": lambda cpu: a_pod(spec={"init_containers": [requesting(cpu)]}),
    "overhead": lambda cpu: a_pod(spec={"overhead": {"cpu": cpu}}),
    "limits": lambda cpu: a_pod(spec={"containers": [Container(resources=ResourceRequirements(limits={"cpu": cpu}))]}),
    "pod level": lambda cpu: a_pod(spec={"resources": ResourceRequirements(requests={"cpu": cpu})}),
    "resized": lambda cpu: a_pod(
        status={"container_statuses": [ContainerStatus(name="main", allocated_resources={"cpu": cpu})]}
    ),
}


@pytest.mark.parametrize("cpu", HUGE, ids=lambda text: text[:20])
@pytest.mark.parametrize("place", PODS)
def test_a_pod_with_an_amount_that_cannot_be_true_is_marked(place: str, cpu: str) -> None:
    pod = with_known_amounts(PODS[place](cpu))
    assert pod.metadata.unreadable
    assert len(pod.metadata.unreadable) < 200
    assert pod_requests(pod) == {}
    assert pod_limit(pod, "cpu") is None
    assert with_known_amounts(pod) is pod


def test_the_sum_of_many_containers_is_checked() -> None:
    """Each of them could be true."""
    pod = a_pod(spec={"containers": [requesting("600k"), requesting("600k")]})
    assert with_known_amounts(pod).metadata.unreadable == "cpu of all containers is 1.2e+06"


def test_what_a_large_machine_has_is_known() -> None:
    pod = a_pod(spec={"containers": [requesting("900k")], "overhead": {"memory": "4Pi", "pods": "1M"}})
    assert with_known_amounts(pod) is pod
    assert known_quantity("kubernetes.io/batch-cpu", "900M") == 9e8


@pytest.mark.parametrize("field", ["allocatable", "capacity"])
@pytest.mark.parametrize("resource", ["cpu", "memory", "pods", "ephemeral-storage", "kubernetes.io/batch-cpu"])
def test_a_node_with_an_amount_that_cannot_be_true_is_marked(field: str, resource: str) -> None:
    status = NodeStatus(**{"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}, field: {resource: "1e308"}})
    node = node_with_known_amounts(Node(metadata=ObjectMeta(name="n"), status=status))
    assert node.metadata.unreadable.startswith(f"{resource} is '1e308': no machine has more than ")
    assert (node.status.allocatable, node.status.capacity) == ({}, {})


def test_a_node_without_amounts_stays_as_it_is() -> None:
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": "0"}))
    assert node_with_known_amounts(node) is node
    pod = Pod(metadata=ObjectMeta(name="p", unreadable="status: not read"))
    assert with_known_amounts(pod) is pod
