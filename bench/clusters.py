"""A cluster as messages: what the scorer receives about every node and workload."""

import random
from collections.abc import Iterator

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources

GIB = 2.0**30
WORKLOADS = [Workload(kind="Deployment", group="apps", namespace="shop", name=f"web-{number}") for number in range(500)]
WINDOWS = tuple(window.name for window in LoadSettings().windows)


def node_name(number: int) -> str:
    return f"node-{number:05}"


def workloads(now: float, generator: random.Random) -> Iterator[WorkloadUtilization]:
    """Each with a daily profile of 24 known hours."""
    for workload in WORKLOADS:
        mean = generator.uniform(0.05, 2)
        value = WindowUsage(sampled_at=now, mean=Resources(cpu=mean, memory=GIB))
        yield WorkloadUtilization(
            workload=workload, replicas=9, sampled_at=now, queried_at=now, epoch=1, sequence=1,
            windows=dict.fromkeys(WINDOWS, value),
            profile={"cpu": [mean * generator.uniform(0.5, 1.5) for _ in range(24)], "memory": [GIB] * 24},
        )  # fmt: skip


def placement(number: int, pods: int, now: float, generator: random.Random) -> NodePlacement:
    """Most pods are old; one in a hundred was placed within the last hour."""
    name = node_name(number)
    return NodePlacement(
        node=name, uid=name, ready=True, epoch=1, sequence=1,
        allocatable=Resources(cpu=32, memory=128 * GIB),
        pods=[
            PlacedPod(
                uid=f"{number}-{pod}", namespace="shop", name=f"{number}-{pod}", workload=generator.choice(WORKLOADS),
                placed_at=now - generator.uniform(0, 3_600 if generator.random() < 0.01 else 3_000_000),
                requests=Resources(cpu=1, memory=GIB),
            )
            for pod in range(pods)
        ],
    )  # fmt: skip


def utilization(message: NodePlacement, now: float, generator: random.Random, sequence: int = 1) -> NodeUtilization:
    mean = Resources(cpu=generator.uniform(2, 28), memory=generator.uniform(10, 100) * GIB)
    value = WindowUsage(sampled_at=now, mean=mean, p95=mean, max=mean, deviation=Resources(cpu=1.0, memory=GIB))
    return NodeUtilization(
        node=message.node, uid=message.uid, base=Resources(cpu=32, memory=128 * GIB), sampled_at=now, queried_at=now,
        windows=dict.fromkeys(WINDOWS, value), epoch=1, sequence=sequence,
        pods={pod.uid: Resources(cpu=0.5, memory=GIB) for pod in message.pods}, system=Resources(cpu=0.5, memory=GIB),
    )  # fmt: skip


def cycle(nodes: int, now: float, sequence: int = 1) -> UtilizationCycle:
    return UtilizationCycle(
        shard="0", cycle=sequence, expected=nodes, fresh=nodes, queried_at=now, epoch=1, sequence=sequence
    )


def extender_body(number: int, names: list[str]) -> bytes:
    """A request of kube-scheduler with names only."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{number % 500}-5d4b", "controller": True}
    pod = {
        "metadata": {
            "name": f"web-{number}", "namespace": "shop", "uid": f"new-{number}",
            "labels": {"pod-template-hash": "5d4b"}, "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
    }  # fmt: skip
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})
