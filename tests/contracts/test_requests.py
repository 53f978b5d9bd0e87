"""Requests and limits of a pod, as kubernetes component-helpers/resource computes them."""

import pytest

from equipoise.contracts.kubernetes.objects import Container, Pod, PodSpec, ResourceRequirements
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests


def a_container(cpu: str = "", *, sidecar: bool = False) -> Container:
    """With the same request and limit of cpu."""
    amounts = {"cpu": cpu} if cpu else {}
    return Container(
        restart_policy="Always" if sidecar else None, resources=ResourceRequirements(requests=amounts, limits=amounts)
    )


@pytest.mark.parametrize(
    ("containers", "init_containers", "amount"),
    [
        (["1", "500m"], [], 1.5),
        (["1", "500m"], [a_container("1")], 1.5),
        (["1", "500m"], [a_container("2"), a_container("3")], 3.0),
        (["1"], [a_container("500m", sidecar=True)], 1.5),
        (["1"], [a_container("500m", sidecar=True), a_container("2")], 2.5),  # the sidecar runs already
        (["1"], [a_container("2"), a_container("500m", sidecar=True)], 2.0),  # it does not run yet
    ],
)
def test_init_containers_and_sidecars(containers: list[str], init_containers: list[Container], amount: float) -> None:
    """Containers and sidecars run together; an init container runs with the sidecars before it. Overhead is added."""
    spec = PodSpec(
        containers=[a_container(cpu) for cpu in containers], init_containers=init_containers, overhead={"cpu": "100m"}
    )

    assert pod_requests(Pod(spec=spec))["cpu"] == pytest.approx(amount + 0.1)
    assert pod_limit(Pod(spec=spec), "cpu") == pytest.approx(amount + 0.1)


@pytest.mark.parametrize(
    ("containers", "init_containers"),
    [
        (["1", ""], []),
        (["1", "0"], []),
        (["1"], [a_container(sidecar=True)]),
        (["", ""], [a_container("2")]),
        ([], []),
    ],
)
def test_a_container_without_a_limit_leaves_the_pod_without_one(
    containers: list[str], init_containers: list[Container]
) -> None:
    """A limit of 0 is no limit, and overhead alone makes none."""
    spec = PodSpec(
        containers=[a_container(cpu) for cpu in containers], init_containers=init_containers, overhead={"cpu": "100m"}
    )

    assert pod_limit(Pod(spec=spec), "cpu") is None


def test_an_init_container_without_a_limit_adds_nothing() -> None:
    """It has ended when the pod runs."""
    assert pod_limit(Pod(spec=PodSpec(containers=[a_container("1")], init_containers=[a_container()])), "cpu") == 1.0


def test_a_pod_level_limit_replaces_those_of_the_containers() -> None:
    """Overhead is added to it, too; the other resource keeps the sum."""
    spec = PodSpec(
        containers=[a_container("1"), a_container()],
        resources=ResourceRequirements(limits={"cpu": "3"}),
        overhead={"cpu": "100m"},
    )

    assert pod_limit(Pod(spec=spec), "cpu") == pytest.approx(3.1)
    assert pod_limit(Pod(spec=spec), "memory") is None
