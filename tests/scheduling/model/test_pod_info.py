"""Pods with what follows from their parts."""

import gc
from typing import Any

import msgspec
import pytest
from scheduling.pods import a_pod

from equipoise.contracts.kubernetes.objects import Affinity, Container, Pod, ResourceRequirements
from equipoise.scheduling.model.pod_info import PodReader

WEB = a_pod("web", {"cpu": "1"}, labels={"app": "web"}).pod


def changed(pod: Pod, name: str = "other", **spec: Any) -> Pod:
    """A pod with the same parts, except for these."""
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, **spec))


def test_pods_of_the_same_parts_share_their_shape() -> None:
    """They differ in name, node and priority."""
    reader = PodReader()
    one, two = reader.read(WEB), reader.read(changed(WEB, node_name="a", priority=7))

    assert one.shape is two.shape
    assert (one.name, two.name, two.uid, two.priority) == ("web", "other", "uid-other", 7)


@pytest.mark.parametrize(
    "part",
    [
        {"containers": [Container(name="main", resources=ResourceRequirements(requests={"cpu": "2"}))]},
        {"init_containers": [Container(name="init", resources=ResourceRequirements(requests={"cpu": "2"}))]},
        {"overhead": {"cpu": "1"}},
        {"resources": ResourceRequirements(requests={"cpu": "3"})},
        {"node_selector": {"disk": "ssd"}},
        {"affinity": Affinity()},
    ],
    ids=lambda part: next(iter(part)),
)
def test_pods_of_other_parts_have_a_shape_of_their_own(part: dict[str, Any]) -> None:
    """What follows from the part is that of the pod, whatever was read before."""
    reader = PodReader()
    before = reader.read(WEB)
    other = reader.read(changed(WEB, **part))

    assert other.shape is not before.shape
    assert other.requests == PodReader().read(other.pod).requests


def test_labels_namespace_and_termination_are_part_of_the_shape() -> None:
    reader = PodReader()
    pods = [
        WEB,
        a_pod("web", labels={"app": "db"}).pod,
        msgspec.structs.replace(WEB, metadata=msgspec.structs.replace(WEB.metadata, namespace="elsewhere")),
        msgspec.structs.replace(
            WEB,
            metadata=msgspec.structs.replace(
                WEB.metadata, deletion_timestamp=a_pod(terminating=True).pod.metadata.deletion_timestamp
            ),
        ),
    ]

    assert len({reader.read(pod).group_key for pod in pods}) == 4


def test_shapes_without_pods_are_not_kept() -> None:
    """Workloads come and go."""
    reader = PodReader()
    for number in range(100):
        reader.read(a_pod(f"pod-{number}", {"cpu": "1"}).pod)
    gc.collect()

    assert len(reader) == 0
