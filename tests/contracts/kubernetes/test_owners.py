"""The workload of a pod."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.owners import workload_from_pod, workload_lookup, workload_of
from equipoise.contracts.kubernetes.workload import Workload


def an_owner(kind: str, name: str, api_version: str = "apps/v1", controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid="u", controller=controller)


def a_pod(*owners: OwnerReference, **labels: str) -> Pod:
    names = {name.replace("_", "-"): value for name, value in labels.items()}
    return Pod(metadata=ObjectMeta(name="p", namespace="shop", owner_references=list(owners), labels=names))


def a_workload(kind: str, name: str, group: str = "apps") -> Workload:
    return Workload(kind=kind, group=group, namespace="shop", name=name)


def nobody(_: Workload) -> None:
    return None


@pytest.mark.parametrize(
    ("direct", "above", "expected"),
    [
        (an_owner("ReplicaSet", "web-6c9"), an_owner("Deployment", "web"), a_workload("Deployment", "web")),
        (
            an_owner("ReplicaSet", "web-6c9"),
            an_owner("Rollout", "web", "argoproj.io/v1alpha1"),
            a_workload("Rollout", "web", "argoproj.io"),
        ),
        (an_owner("ReplicaSet", "alone"), None, a_workload("ReplicaSet", "alone")),
        (
            an_owner("Job", "night-28", "batch/v1"),
            an_owner("CronJob", "night", "batch/v1"),
            a_workload("CronJob", "night", "batch"),
        ),
        (an_owner("Job", "once", "batch/v1"), None, a_workload("Job", "once", "batch")),
        (an_owner("StatefulSet", "db"), None, a_workload("StatefulSet", "db")),
        (
            an_owner("StatefulSet", "db", "apps.kruise.io/v1beta1"),
            None,
            a_workload("StatefulSet", "db", "apps.kruise.io"),
        ),
        (
            an_owner("CloneSet", "web", "apps.kruise.io/v1alpha1"),
            None,
            a_workload("CloneSet", "web", "apps.kruise.io"),
        ),
        (an_owner("DaemonSet", "agent"), None, a_workload("DaemonSet", "agent")),
        (an_owner("ReplicationController", "old", "v1"), None, a_workload("ReplicationController", "old", "")),
    ],
)
def test_the_workload_is_the_top_controller(
    direct: OwnerReference, above: OwnerReference | None, expected: Workload
) -> None:
    """A ReplicaSet or Job belongs to its controller; every other controller is the workload itself."""
    assert expected == workload_of(a_pod(direct), lambda _: above)


def test_only_replica_sets_and_jobs_have_a_controller_above() -> None:
    """An operator that controls a StatefulSet is not the workload of its pods."""

    def owner_of(workload: Workload) -> OwnerReference:
        raise AssertionError(workload)

    assert a_workload("StatefulSet", "db") == workload_of(a_pod(an_owner("StatefulSet", "db")), owner_of)


def test_errors_of_owner_of_are_passed_on() -> None:
    def owner_of(workload: Workload) -> OwnerReference:
        raise LookupError(workload)

    with pytest.raises(LookupError):
        workload_of(a_pod(an_owner("ReplicaSet", "web-1")), owner_of)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(),
        a_pod(an_owner("Node", "node-a", "v1")),
        a_pod(an_owner("ReplicaSet", "web-6c9", controller=False)),
        a_pod(an_owner("ReplicaSet", "")),
        a_pod(an_owner("", "web")),
    ],
    ids=["bare", "static", "not its controller", "no name", "no kind"],
)
def test_bare_and_static_pods_have_no_workload(pod: Pod) -> None:
    """Without a controller, or with the Node as one, there is no workload."""
    assert workload_of(pod, nobody) is None
    assert workload_from_pod(pod) is None


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (
            a_pod(an_owner("ReplicaSet", "web-6c9f"), pod_template_hash="6c9f"),
            a_workload("Deployment", "web"),
        ),
        (
            a_pod(an_owner("ReplicaSet", "web-6c9f"), rollouts_pod_template_hash="6c9f"),
            a_workload("Rollout", "web", "argoproj.io"),
        ),
        (a_pod(an_owner("ReplicaSet", "web-6c9f")), a_workload("ReplicaSet", "web-6c9f")),
        (a_pod(an_owner("ReplicaSet", "web"), pod_template_hash=""), a_workload("ReplicaSet", "web")),
        (a_pod(an_owner("ReplicaSet", "web"), pod_template_hash="other"), a_workload("ReplicaSet", "web")),
        (a_pod(an_owner("Job", "night-28", "batch/v1")), a_workload("Job", "night-28", "batch")),
        (a_pod(an_owner("StatefulSet", "db")), a_workload("StatefulSet", "db")),
    ],
)
def test_the_deployment_is_derived_from_the_pod(pod: Pod, expected: Workload) -> None:
    """The template hash is removed from the ReplicaSet's name; every other controller is the workload."""
    assert expected == workload_from_pod(pod)


@given(
    api_version=st.text(max_size=20),
    kind=st.sampled_from(["ReplicaSet", "Job", "Node", "", "X"]),
    name=st.text(max_size=10),
    label=st.text(max_size=5),
)
def test_no_owner_reference_raises(api_version: str, kind: str, name: str, label: str) -> None:
    """For any controller reference the result is a named workload or None."""
    pod = a_pod(an_owner(kind, name, api_version), pod_template_hash=label)
    for workload in (workload_of(pod, nobody), workload_from_pod(pod)):
        assert workload is None or (workload.kind and workload.name)


@pytest.mark.parametrize(
    "owner",
    [
        an_owner("Foo", "x" * 5_000, "example.com/v1"),
        an_owner("Foo", "x" * 254, "example.com/v1"),
        an_owner("K" * 64, "web", "example.com/v1"),
        an_owner("Foo", "web", "g" * 254 + "/v1"),
        an_owner("Foo", "../../kube-system/deployments/coredns", "example.com/v1"),
        an_owner("Foo", "a b", "example.com/v1"),
        an_owner("Foo", "a\r\nPUB x 0", "example.com/v1"),
        an_owner("Foo", "*", "example.com/v1"),
        an_owner("Foo>", "web", "example.com/v1"),
        an_owner("Foo", "web", "a*b/v1"),
        an_owner("Foo", "", "example.com/v1"),
        an_owner("Foo", "Web", "example.com/v1"),
    ],
    ids=lambda owner: f"{owner.kind[:8]}/{owner.name[:8]!r}",
)
def test_an_owner_that_cannot_exist_is_no_workload(owner: OwnerReference) -> None:
    """The API server accepts any text in an owner reference. The pod counts as one without a controller."""
    assert workload_from_pod(a_pod(owner)) is None
    assert workload_of(a_pod(owner), nobody) is None


def test_the_longest_names_are_those_of_workloads() -> None:
    name = "x" * 253
    assert workload_from_pod(a_pod(an_owner("K" * 63, name, f"{name}/v1"))) == a_workload("K" * 63, name, name)


def test_owners_that_pods_share_are_read_once() -> None:
    """In one namespace: the same owners may be other workloads elsewhere."""
    pod = a_pod(an_owner("StatefulSet", "db"))
    sibling = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name="q"))
    elsewhere = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace="lab"))
    read: list[Pod] = []

    def workload(each: Pod) -> Workload | None:
        read.append(each)
        return workload_of(each, nobody)

    lookup = workload_lookup(workload)
    expected = a_workload("StatefulSet", "db")

    assert [lookup(each) for each in (pod, sibling, elsewhere, pod)] == [
        expected,
        expected,
        msgspec.structs.replace(expected, namespace="lab"),
        expected,
    ]
    assert read == [pod, elsewhere]
