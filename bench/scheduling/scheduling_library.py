"""The scheduling library on 5,000 nodes and 150,000 pods: one pod with the default plugins, and the snapshot."""

import time
from functools import cache
from random import Random
from statistics import median
from typing import Any

import msgspec

from bench.memory import resident_mb
from bench.output import progress, report
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.model.pod_info import PodInfo, PodReader

NODES, PODS, WORKLOADS = 5_000, 150_000, 5_000
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ATTEMPTS = 200
READER = PodReader()


def a_node(number: int) -> Node:
    name = f"node-{number}"
    size = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    labels = {HOST: name, ZONE: f"zone-{number % 3}"}
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=size, capacity=size))


def a_pod(number: int, workload: int, node: str = "", **spec: Any) -> PodInfo:
    first = template(workload)
    metadata = msgspec.structs.replace(first.metadata, name=f"pod-{number}", uid=str(number))
    return READER.read(Pod(metadata=metadata, spec=msgspec.structs.replace(first.spec, node_name=node, **spec)))


@cache
def template(workload: int) -> Pod:
    """The values that the pods of a workload share, as those of a reflector do."""
    requests = {"cpu": f"{100 + 50 * (workload % 9)}m", "memory": f"{256 + 64 * (workload % 7)}Mi"}
    container = Container(name="main", image="app:1", resources=ResourceRequirements(requests=requests))
    labels = {"app": f"app-{workload}", "pod-template-hash": "5d4f"}
    metadata = ObjectMeta(namespace=f"team-{workload % 50}", labels=labels)
    return Pod(metadata=metadata, spec=PodSpec(containers=[container]))


@cache
def spread_and_affinity(workload: int) -> dict[str, Any]:
    """Spread over zones and hosts, away from its own, and near another workload."""
    own = LabelSelector(match_labels={"app": f"app-{workload}"})
    other = LabelSelector(match_labels={"app": f"app-{(workload + 50) % WORKLOADS}"})
    return {
        "topology_spread_constraints": [
            TopologySpreadConstraint(max_skew=1, topology_key=ZONE, label_selector=own),
            TopologySpreadConstraint(
                max_skew=2, topology_key=HOST, label_selector=own, when_unsatisfiable="ScheduleAnyway"
            ),
        ],
        "affinity": Affinity(
            pod_affinity=PodAffinity(
                preferred=[
                    WeightedPodAffinityTerm(
                        weight=50, pod_affinity_term=PodAffinityTerm(label_selector=other, topology_key=ZONE)
                    )
                ]
            ),
            pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(label_selector=own, topology_key=HOST)]),
        ),
    }


def make_cluster(nodes: int, pods: int) -> tuple[ClusterScheduler, Random]:
    generator = Random(1)
    cluster = ClusterScheduler(generator)
    for number in range(nodes):
        cluster.put(a_node(number))
    for number in range(pods):
        workload = number % WORKLOADS
        # A tenth of the workloads has terms: every new pod is compared with theirs.
        spec = spread_and_affinity(workload) if workload % 10 == 0 else {}
        cluster.snapshot.add_pod(a_pod(number, workload, **spec), generator.randrange(nodes))
    return cluster, generator


def new_pod(number: int, constrained: bool, generator: Random) -> PodInfo:
    workload = generator.randrange(WORKLOADS)
    return a_pod(number, workload, **(spread_and_affinity(workload) if constrained else {}))


def main() -> None:
    begin = resident_mb()
    progress("nodes and pods")
    started = time.perf_counter()
    cluster, generator = make_cluster(NODES, PODS)
    snapshot = cluster.snapshot
    each = (time.perf_counter() - started) / PODS
    report("scheduling_add_pod", 1e6 * each, "us to read a pod and add it, with its share of the nodes", target=None)
    report("scheduling_memory", resident_mb() - begin, "MB for the snapshot", target=None)
    for name, constrained, target in (("plain", False, 3.0), ("affinity", True, 20.0)):
        times = []
        for number in range(ATTEMPTS):
            pod = new_pod(PODS + number, constrained, generator)
            started = time.perf_counter()
            cluster.decide(pod)
            times.append(time.perf_counter() - started)
        report(f"scheduling_{name}", 1e3 * median(times), "ms for one pod", target=("<=", target),
            p99_milliseconds=round(1e3 * sorted(times)[int(0.99 * len(times))], 1))  # fmt: skip
    changes = []
    for number in range(ATTEMPTS):
        pod, row = a_pod(2 * PODS + number, number), generator.randrange(NODES)
        started = time.perf_counter()
        snapshot.add_pod(pod, row)
        changes.append(time.perf_counter() - started)
    report("scheduling_snapshot", 1e3 * median(changes), "ms for one change", target=("<=", 0.2))


if __name__ == "__main__":
    main()
