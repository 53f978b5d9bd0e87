"""Amounts that no machine has are unknown: the object says so, and has no amounts."""

import msgspec
import pytest
from kube_objects import a_pod

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerStatus, Pod
from equipoise.contracts.kubernetes.quantity import known_quantity
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.unreadable.known_amounts import (
    node_with_known_amounts,
    unknown_requests,
    with_known_amounts,
    with_named_amounts,
)

HUGE = ["1e308", "1e309", "10E", "9223372036854775807", "9" * 5_000, "-1", "1000001", "one"]


def requesting(cpu: str, **fields: object) -> Container:
    return Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))


PODS = {
    "containers": lambda cpu: a_pod(spec={"containers": [requesting(cpu)]}),
    "init containers": lambda cpu: a_pod(spec={"init_containers": [requesting(cpu)]}),
    "overhead": lambda cpu: a_pod(spec={"overhead": {"cpu": cpu}}),
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


LIMIT = {
    "containers": lambda limits: {"spec": {"containers": [Container(resources=limits)]}},
    "init containers": lambda limits: {"spec": {"init_containers": [Container(resources=limits)]}},
    "pod level": lambda limits: {"spec": {"resources": limits}},
    "resized": lambda limits: {"status": {"container_statuses": [ContainerStatus(name="main", resources=limits)]}},
}


@pytest.mark.parametrize("cpu", HUGE, ids=lambda text: text[:20])
@pytest.mark.parametrize("place", LIMIT)
def test_a_limit_that_cannot_be_true_is_no_limit(place: str, cpu: str) -> None:
    """The pod is named and protected. What it requests is known, and so its node is a target."""
    limits = ResourceRequirements(requests={"cpu": "2"}, limits={"cpu": cpu})
    found = a_pod(**LIMIT[place](limits))
    pod = with_known_amounts(found)
    assert pod.metadata.unreadable
    assert unknown_requests(pod) == ""
    assert pod_requests(pod)["cpu"] == 2.0
    assert pod_limit(pod, "cpu") is None
    assert with_known_amounts(pod) is pod
    assert with_named_amounts(found) == msgspec.structs.replace(found, metadata=pod.metadata)


def test_limits_of_all_containers_that_cannot_be_true_are_no_limit() -> None:
    """Each of them could be."""
    limits = ResourceRequirements(limits={"memory": "8Pi", "cpu": "3"})
    pod = a_pod(spec={"containers": [Container(resources=limits)] * 2})
    assert with_known_amounts(pod) is pod
    assert pod_limit(pod, "memory") is None
    assert pod_limit(pod, "cpu") == 6.0


@pytest.mark.parametrize("resource", ["example.com/stone", "ephemeral-storage", "hugepages-2Mi"])
def test_a_resource_that_nobody_plans_with_concerns_its_pod_only(resource: str) -> None:
    requests = ResourceRequirements(requests={"cpu": "2", resource: "1e309"})
    pod = with_known_amounts(a_pod(spec={"containers": [Container(resources=requests)]}))
    assert pod.metadata.unreadable
    assert unknown_requests(pod) == ""
    assert pod_requests(pod) == {"cpu": 2.0}


@pytest.mark.parametrize("resource", ["cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/mid-memory"])
def test_a_request_that_cannot_be_true_is_named_before_a_limit(resource: str) -> None:
    """What the pod requests is unknown. The scheduling library still reads it as kube-scheduler does."""
    resources = ResourceRequirements(requests={resource: "1e308"}, limits={"cpu": "1e307"})
    found = a_pod(spec={"containers": [Container(resources=resources)]})
    pod = with_known_amounts(found)
    assert unknown_requests(pod).startswith(
        f"what its pod shop/web-1 requests is not known: {resource} is '1e308': no machine has more than "
    )
    assert with_named_amounts(found) == msgspec.structs.replace(found, metadata=pod.metadata)


def test_what_a_pod_requests_that_cannot_be_decoded_is_unknown() -> None:
    """Also if it has a limit that cannot be true."""
    limits = [Container(resources=ResourceRequirements(limits={"cpu": "1e308"}))]
    pod = with_known_amounts(a_pod(metadata={"unreadable": "spec: not read"}, spec={"containers": limits}))
    assert unknown_requests(pod) == "what its pod shop/web-1 requests is not known: spec: not read"


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


NO_LIMIT = [str(2**63 - page) for page in (4_096, 65_536)] + ["9007199254740988Ki"]
"""What a group of cgroup v1 without a limit of memory has, with pages of 4 and 64 KiB; and as a kubelet writes it."""


@pytest.mark.parametrize("memory", NO_LIMIT)
def test_a_node_with_cgroup_v1_reports_that_a_pod_has_no_limit(memory: str) -> None:
    """It reports the largest number of the kernel. That marks no pod: it would be protected for ever."""
    reported = ResourceRequirements(requests={"memory": "32Mi"}, limits={"cpu": "100m", "memory": memory})
    container = Container(name="main", resources=ResourceRequirements(requests={"memory": "32Mi"}))
    for status in (
        {"resources": reported},
        {"container_statuses": [ContainerStatus(name="main", resources=reported)]},
        {"init_container_statuses": [ContainerStatus(name="first", resources=reported)]},
    ):
        pod = a_pod(spec={"containers": [container]}, status=status)
        assert with_known_amounts(pod) is pod
        assert with_named_amounts(pod) is pod
        assert pod_limit(pod, "memory") is None
        assert pod_requests(pod)["memory"] == 32 * 2**20


@pytest.mark.parametrize("limit", ["-1", "one"])
def test_a_reported_limit_that_is_no_number_or_negative_marks_the_pod(limit: str) -> None:
    pod = a_pod(status={"resources": ResourceRequirements(limits={"memory": limit})})

    assert with_known_amounts(pod).metadata.unreadable
