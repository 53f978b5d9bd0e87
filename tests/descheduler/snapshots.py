"""Snapshots of small clusters, and what strategies see of them."""

from collections.abc import Iterable, Sequence
from typing import Any

from builders import GIB, NOW, a_node_utilization, a_placement, a_workload, a_workload_utilization
from descheduler.cluster import a_node_object, a_pod_object, a_workload_object

from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Thresholds
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot, WatchedObjects
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.descheduler.state.moves.pending_moves import PendingMoves, TrackedMove

LOAD = LoadSettings()
RULES = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
LONG_AGO = NOW - 200_000
"""Before the longest window."""


def evaluation_settings(thresholds: Thresholds | None = None, **settings: Any) -> EvaluationSettings:
    return DeschedulerSettings(**settings).evaluation(LOAD, thresholds or Thresholds(), RULES)


def owners_of(*apps: str, replicas: int = 4) -> dict[Workload, WorkloadObject]:
    """A Deployment per app, with the ReplicaSet `<app>-1`."""
    owners: dict[Workload, WorkloadObject] = {}
    for app in apps:
        reference = OwnerReference(api_version="apps/v1", kind="Deployment", name=app, controller=True)
        metadata = ObjectMeta(name=f"{app}-1", namespace="shop", owner_references=[reference])
        owners[a_workload(app)] = a_workload_object(app, replicas)
        owners[a_workload(f"{app}-1", kind="ReplicaSet")] = a_workload_object(f"{app}-1", replicas, metadata=metadata)
    return owners


OWNERS = owners_of("web")


def a_pod(name: str = "web-1", node: str = "node-a", placed_at: float = NOW - 86_400, **fields: Any) -> Pod:
    return a_pod_object(name, node, placed_at + 7 * 86_400, **fields)


def placements_of(nodes: Iterable[str], pods: Iterable[Pod]) -> dict[str, NodePlacement]:
    """As the collector publishes them. The workload of a pod is the Deployment of its app."""
    placements = {name: a_placement(name) for name in nodes}
    for pod in pods:
        if pod.spec.node_name in placements:
            placements[pod.spec.node_name].pods.append(placed(pod))
    return placements


def placed(pod: Pod) -> PlacedPod:
    since = pod.status.start_time.timestamp() if pod.status.start_time else NOW
    return PlacedPod(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        workload=a_workload(pod.metadata.labels["app"]),
        placed_at=since,
        running_since=since if pod.status.phase == "Running" else None,
        terminating=pod.metadata.deletion_timestamp is not None,
        requests=Resources(cpu=0.1, memory=GIB / 8),
    )


def a_snapshot(
    *pods: Pod,
    nodes: Sequence[str] = ("node-a", "node-b"),
    moves: Iterable[TrackedMove] = (),
    owners: dict[Workload, WorkloadObject] = OWNERS,
    **fields: Any,
) -> Snapshot:
    """node-a uses 8 of 10 cores and node-b one; a replica of web uses two."""
    now = fields.get("now", NOW)
    watched = WatchedObjects(
        nodes=[a_node_object(name, now) for name in nodes],
        pods=list(pods),
        namespaces={"shop": Namespace(metadata=ObjectMeta(name="shop"))},
        workloads=owners,
    )
    pending: PendingMoves = {move.id: move for move in moves}
    defaults: dict[str, Any] = {
        "now": now,
        "watched": watched,
        "nodes": {name: a_node_utilization(name, cpu=8.0 if number == 0 else 1.0) for number, name in enumerate(nodes)},
        "workloads": {a_workload(): a_workload_utilization(cpu=2.0)},
        "cycles": [UtilizationCycle(shard="all", cycle=1, expected=len(nodes), fresh=len(nodes), queried_at=now)],
        "placements": placements_of(nodes, pods),
        "pending": pending,
    }
    return Snapshot(**(defaults | fields))


def cluster_of(*pods: Pod, **fields: Any) -> ClusterView:
    """As strategies see it."""
    return ClusterBuilder(a_snapshot(*pods, **fields), evaluation_settings()).cluster()


def nodes_of(*pods: Pod, **fields: Any) -> dict[str, ClusterNode]:
    return {node.name: node for node in cluster_of(*pods, **fields).nodes}
