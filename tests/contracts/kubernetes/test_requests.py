"""Requests and limits of a pod, as kubernetes component-helpers/resource computes them."""

import msgspec
import pytest

from equipoise.contracts.kubernetes.objects.metadata import Condition, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerStatus, Pod, PodSpec, PodStatus
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests, without_equal_status
from equipoise.contracts.kubernetes.resizes import with_pending_resize


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


def a_resized_pod(
    wanted: str, actual: str, allocated: str = "", *, pending: str = "", sidecar: bool = False, reported: bool = True
) -> Pod:
    """`wanted`: in the specification; `actual` and `allocated`: in the status. `pending`: why it is not resized yet."""
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": wanted}, limits={"cpu": wanted}))
    if sidecar:
        container = msgspec.structs.replace(container, restart_policy="Always")
    resources = ResourceRequirements(requests={"cpu": actual}, limits={"cpu": actual}) if reported else None
    status = ContainerStatus(
        name="main", resources=resources, allocated_resources={"cpu": allocated} if allocated else None
    )
    conditions = [Condition(type="PodResizePending", status="True", reason=pending)] if pending else []
    if sidecar:
        return Pod(
            spec=PodSpec(containers=[Container(name="other")], init_containers=[container]),
            status=PodStatus(conditions=conditions, init_container_statuses=(status,)),
        )
    return Pod(
        spec=PodSpec(containers=[container], overhead={"cpu": "100m"}),
        status=PodStatus(conditions=conditions, container_statuses=(status,)),
    )


@pytest.mark.parametrize(
    ("pod", "held", "limit"),
    [
        (a_resized_pod("1", "8", "8"), 8.1, 8.1),  # smaller soon
        (a_resized_pod("8", "1", "1"), 8.1, 8.1),  # larger soon
        (a_resized_pod("1", "1", "8"), 8.1, 1.1),  # promised, not in effect
        (a_resized_pod("8", "1", "1", pending="Deferred"), 8.1, 8.1),
        (a_resized_pod("8", "1", "1", pending="Infeasible"), 1.1, 1.1),  # its node can never provide it
        (a_resized_pod("8", "1", "2", pending="Infeasible"), 2.1, 1.1),
        (a_resized_pod("2", "2000m", "2"), 2.1, 2.1),
        (a_resized_pod("2", "8", "8", reported=False), 2.1, 2.1),  # by a kubelet without in-place resize
    ],
)
def test_a_resized_pod_holds_the_highest_of_what_it_requests_and_has(pod: Pod, held: float, limit: float) -> None:
    """The same as kube-scheduler and the kubelet count, in both directions."""
    assert pod_requests(pod)["cpu"] == pytest.approx(held)
    assert pod_limit(pod, "cpu") == pytest.approx(limit)


def test_a_resized_sidecar_counts_and_other_init_containers_do_not() -> None:
    """An ordinary init container has ended when the pod is resized."""
    sidecar = a_resized_pod("1", "8", sidecar=True)
    ended = msgspec.structs.replace(sidecar.spec.init_containers[0], restart_policy="")

    assert pod_requests(sidecar)["cpu"] == 8.0
    spec = msgspec.structs.replace(sidecar.spec, init_containers=[ended])
    assert pod_requests(msgspec.structs.replace(sidecar, spec=spec))["cpu"] == 1.0


def test_pod_level_resources_that_are_resized_count() -> None:
    """Only those that the specification has at pod level."""
    wanted = ResourceRequirements(requests={"cpu": "2"}, limits={"cpu": "2"})
    actual = ResourceRequirements(requests={"cpu": "6", "memory": "1Gi"}, limits={"cpu": "6"})
    pod = Pod(
        spec=PodSpec(containers=[a_container("1")], resources=wanted),
        status=PodStatus(resources=actual, allocated_resources={"cpu": "7"}),
    )

    assert pod_requests(pod) == {"cpu": 7.0}
    assert pod_limit(pod, "cpu") == 6.0


def test_the_status_of_containers_is_kept_only_while_it_decides() -> None:
    """Kubelets report the resources of all containers, also of those that were never resized."""
    resized, equal = a_resized_pod("1", "8"), a_resized_pod("2", "2000m", "2")

    assert without_equal_status(resized) is resized
    assert without_equal_status(equal) == msgspec.structs.replace(equal, status=PodStatus())
    assert pod_requests(without_equal_status(equal)) == pod_requests(equal)


@pytest.mark.parametrize("reason", ["Deferred", "Infeasible", "Later"])
def test_the_status_of_containers_is_kept_while_a_resize_is_pending(reason: str) -> None:
    """It has what the pod holds now, although what it wants counts."""
    pod = a_resized_pod("8", "1", "1", pending=reason)

    kept = without_equal_status(pod)

    assert kept is pod
    assert pod_requests(with_pending_resize(kept, "Infeasible"))["cpu"] == pytest.approx(1.1)
    assert pod_requests(with_pending_resize(kept, "Deferred"))["cpu"] == pytest.approx(8.1)


def test_the_status_is_kept_if_it_cannot_be_read() -> None:
    """The reader of the pod decides what an unreadable amount means."""
    pod = a_resized_pod("1", "many")

    assert without_equal_status(pod) is pod
