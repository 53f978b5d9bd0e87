"""The cluster as it was reported to the scheduler."""

from random import Random

import msgspec
from builders import NOW
from kube_objects import a_pod

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.scheduler.state.scheduler_state import SchedulerState
from equipoise.scheduling.cluster_scheduler import ClusterScheduler


def test_pods_that_share_their_values_share_what_was_parsed_of_them() -> None:
    """A cluster has 450,000 pods, of far fewer workloads; a reflector makes equal values one."""
    state = SchedulerState(ClusterScheduler(Random(1)))
    size = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    state.apply(
        None, Node(metadata=ObjectMeta(name="a"), status=NodeStatus(allocatable=size, capacity=size)), NOW
    )  # fmt: skip
    first = a_pod("web-1", node="a")
    metadata = msgspec.structs.replace(first.metadata, name="web-2", uid="uid-web-2")
    second = msgspec.structs.replace(first, metadata=metadata)
    for pod in (first, second):
        state.apply(None, pod, NOW)

    pods = [state.cluster.pod(pod.metadata.uid, "a") for pod in (first, second)]
    assert pods[0] is not None
    assert pods[1] is not None
    assert pods[0].shape is pods[1].shape
    assert ["web-1", "web-2"] == [pod.name for pod in pods if pod is not None]
