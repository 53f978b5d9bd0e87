"""Pods that are being resized in place: every reader counts what they hold, as kube-scheduler does."""

from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization
from descheduler.snapshots import a_pod, a_snapshot, evaluation_settings
from hypothesis import given
from hypothesis import strategies as st

from equipoise.agent.decisions.band_pods import band_pod
from equipoise.cli.cluster_now.nodes import nodes_now
from equipoise.collector.decisions.pod_times import placed_pod, trimmed
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.shell import cluster_watch
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.lab.record.inventory import inventory
from equipoise.scheduling.model.pod_info import PodInfo, PodReader
from equipoise.scorer.decisions.demand import pod_demand

MILLICORES = st.integers(1, 64_000)


def resized(wanted: int, actual: int, allocated: int, condition: dict[str, str] | None = None, **meta: Any) -> Pod:
    """A pod as the API server writes it; amounts are millicores."""
    resources = {name: {"cpu": f"{amount}m", "memory": "1Gi"} for name, amount in
                 {"wanted": wanted, "actual": actual, "allocated": allocated}.items()}  # fmt: skip
    document = {
        "metadata": {"name": "big", "namespace": "shop", "uid": "uid-big", "labels": {"app": "big"}} | meta,
        "spec": {
            "nodeName": "node-b",
            "containers": [{"name": "main", "resources": {"requests": resources["wanted"]}}],
        },
        "status": {
            "phase": "Running",
            "conditions": [condition] if condition else [],
            "containerStatuses": [
                {
                    "name": "main",
                    "resources": {"requests": resources["actual"]},
                    "allocatedResources": resources["allocated"],
                }
            ],
        },
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


CONDITIONS = st.sampled_from(
    [
        None,
        {"type": "PodResizeInProgress", "status": "True"},
        {"type": "PodResizePending", "status": "True", "reason": "Deferred"},
        {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
    ]
)


@given(wanted=MILLICORES, actual=MILLICORES, allocated=MILLICORES, condition=CONDITIONS)
def test_every_reader_counts_what_a_pod_holds(
    wanted: int, actual: int, allocated: int, condition: dict[str, str] | None
) -> None:
    pod = resized(wanted, actual, allocated, condition)
    infeasible = condition is not None and condition.get("reason") == "Infeasible"
    held = max(actual, allocated, 0 if infeasible else wanted)
    node = Node(metadata=ObjectMeta(name="node-b"), status=NodeStatus(allocatable={"cpu": "64", "memory": "64Gi"}))

    found = {
        "placement": placed_pod(trimmed(pod), None, NOW, 600.0).requests.cpu,
        "scheduling": PodInfo(pod).requests["cpu"] / 1_000,
        "descheduler": PodReader().read(cluster_watch.trimmed(pod)).requests["cpu"] / 1_000,
        "score": pod_demand(pod).requests.cpu,
        "trace": inventory([node], [pod], {"shop/big": ("shop", "Deployment", "big")}).workloads[0].request_cpu_milli
        / 1_000,
    }

    assert found == dict.fromkeys(found, pytest.approx(held / 1_000))


def test_limits_of_a_smaller_resize_count_until_it_is_done() -> None:
    """The placement has what the containers may still use."""
    pod = resized(1_000, 8_000, 8_000)
    (status,) = pod.status.container_statuses
    limits = ResourceRequirements(requests={"cpu": "8"}, limits={"cpu": "8"})
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "1"}))
    pod = msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(pod.spec, containers=[container]),
        status=msgspec.structs.replace(
            pod.status, container_statuses=(msgspec.structs.replace(status, resources=limits),)
        ),
    )

    assert placed_pod(trimmed(pod), None, NOW, 600.0).limits.cpu == 8.0


def test_batch_pods_that_are_resized_keep_their_amounts() -> None:
    """Kubelets allocate extended resources, too, and report them like the others."""
    amounts = {"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "1Gi"}
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    pod = resized(1_000, 1_000, 1_000)
    (status,) = pod.status.container_statuses
    pod = msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(pod.spec, containers=[Container(name="main", resources=resources)]),
        status=msgspec.structs.replace(
            pod.status,
            container_statuses=(msgspec.structs.replace(status, resources=resources, allocated_resources=amounts),),
        ),
    )

    found = band_pod(pod)
    assert found is not None
    assert (found.cpu_request, found.cpu_limit) == (4.0, 4.0)


@pytest.mark.parametrize(("actual", "targets"), [(8_000, []), (1_000, ["node-b"])])
def test_no_move_to_a_node_whose_room_a_resized_pod_still_holds(actual: int, targets: list[str]) -> None:
    """Of node-b's 10 cores the pod requests 1, and has 8 until its resize is done: 4 cores do not fit beside it."""
    web = [
        a_pod(name, containers=[Container(resources=ResourceRequirements(requests={"cpu": "4", "memory": "1Gi"}))])
        for name in ("web-1", "web-2")
    ]
    snapshot = a_snapshot(*web, cluster_watch.trimmed(resized(1_000, actual, actual)))
    usage = {pod.metadata.uid: Resources(cpu=2.0, memory=GIB) for pod in web}
    hot = a_node_utilization("node-a", cpu=8.0, pods=usage)
    snapshot = msgspec.structs.replace(snapshot, nodes={**snapshot.nodes, "node-a": hot})

    cluster = ClusterBuilder(snapshot, evaluation_settings()).cluster()
    plan = LowNodeLoad().plan(cluster, {"node-a"})
    shown = {node.node: node.requested.cpu for node in nodes_now(cluster.nodes, {}, {}, {}, "5m")}

    assert [move.target for move in plan.moves] == targets
    assert shown["node-b"] == pytest.approx(actual / 10_000), "`equipoise nodes`"
