"""Values with sensible defaults; a test overrides what it is about."""

from typing import Any

from equipoise.contracts.colocation.bands import Band
from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Affinity, NodeAffinity, PreferredNodes
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.consolidation import NodeBeingEmptied, NodesBeingEmptied
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.reclaimed import ReclaimedBand, ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources

GIB = 2.0**30
NOW = 1_800_000_000.0
"""Unix seconds."""


def a_workload(name: str = "web", namespace: str = "shop", kind: str = "Deployment", group: str = "apps") -> Workload:
    return Workload(kind=kind, group=group, namespace=namespace, name=name)


def a_window(cpu: float | None = 1.0, memory: float | None = 4 * GIB, sampled_at: float = NOW) -> WindowUsage:
    return WindowUsage(sampled_at=sampled_at, mean=Resources(cpu=cpu, memory=memory))


def a_node_utilization(
    node: str = "node-a", cpu: float | None = 1.0, memory: float | None = 4 * GIB, **fields: Any
) -> NodeUtilization:
    """A node of 10 cores and 64 GiB whose windows all show the same usage."""
    sampled_at = fields.get("sampled_at", NOW)
    defaults: dict[str, Any] = {
        "node": node,
        "uid": f"uid-{node}",
        "base": Resources(cpu=10.0, memory=64 * GIB),
        "sampled_at": sampled_at,
        "queried_at": NOW,
        "windows": {name: a_window(cpu, memory, sampled_at) for name in ("5m", "15m", "1h", "1d")},
        "epoch": 1,
        "sequence": 1,
    }
    return NodeUtilization(**(defaults | fields))


def a_workload_utilization(
    workload: Workload | None = None, cpu: float | None = 1.0, memory: float | None = GIB, **fields: Any
) -> WorkloadUtilization:
    defaults: dict[str, Any] = {
        "workload": workload or a_workload(),
        "replicas": 3,
        "sampled_at": NOW,
        "queried_at": NOW,
        "windows": {name: a_window(cpu, memory) for name in ("5m", "15m", "1h", "1d")},
        "epoch": 1,
        "sequence": 1,
    }
    return WorkloadUtilization(**(defaults | fields))


def a_placed_pod(name: str = "web-1", **fields: Any) -> PlacedPod:
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "shop",
        "name": name,
        "workload": a_workload(),
        "placed_at": NOW - 90_000,
        "running_since": NOW - 89_990,
        "requests": Resources(cpu=0.5, memory=GIB),
    }
    return PlacedPod(**(defaults | fields))


def preferring(*terms: tuple[int, str, str, list[str]]) -> Affinity:
    """Weight, label, operator and values of each preferred term of node affinity."""
    preferred = [
        PreferredNodes(
            weight=weight,
            preference=NodeSelectorTerm(
                match_expressions=[SelectorRequirement(key=key, operator=operator, values=values)]
            ),
        )
        for weight, key, operator, values in terms
    ]
    return Affinity(node_affinity=NodeAffinity(preferred=preferred))


def a_gone_pod(name: str = "web-1", gone_at: float = NOW - 60, **fields: Any) -> GonePod:
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "shop",
        "name": name,
        "workload": a_workload(),
        "running_since": NOW - 3 * 86_400,
        "requests": Resources(cpu=0.5, memory=GIB),
    }
    return GonePod(**(defaults | fields), gone_at=gone_at)


def a_placement(node: str = "node-a", pods: list[PlacedPod] | None = None, **fields: Any) -> NodePlacement:
    defaults: dict[str, Any] = {
        "node": node,
        "uid": f"uid-{node}",
        "ready": True,
        "ready_since": NOW - 90_000,
        "created_at": NOW - 90_000,
        "allocatable": Resources(cpu=10.0, memory=64 * GIB),
        "capacity": Resources(cpu=10.0, memory=64 * GIB),
        "pods": pods or [],
        "epoch": 1,
        "sequence": 1,
    }
    return NodePlacement(**(defaults | fields))


def nodes_being_emptied(*names: str, at: float = NOW, validity: float = 600.0, **fields: Any) -> NodesBeingEmptied:
    """The message about nodes that are being emptied since `at`."""
    defaults: dict[str, Any] = {"since": at, "why": "few pods"}
    nodes = [NodeBeingEmptied(node=name, **({"uid": f"uid-{name}"} | defaults | fields)) for name in names]
    return NodesBeingEmptied(evaluated_at=at, valid_until=at + validity, nodes=nodes)


def an_intent(pod: str = "web-1", node: str = "node-a", **fields: Any) -> EvictionIntent:
    defaults: dict[str, Any] = {
        "id": f"intent-{pod}",
        "pod_uid": f"uid-{pod}",
        "namespace": "shop",
        "pod": pod,
        "node": node,
        "workload": a_workload(),
        "strategy": "low_node_load",
        "reason": "node is hot: cpu 68.5% is above 50%",
        "sampled_at": NOW - 5,
        "decided_at": NOW,
        "expires_at": NOW + 180,
        "expected_reduction": Resources(cpu=1.0, memory=GIB),
        "target": "node-b",
        "epoch": LeaseEpoch(lease_uid="lease", transitions=1, holder="descheduler-1"),
    }
    return EvictionIntent(**(defaults | fields))


def a_reclaimed_node(
    node: str = "node-a", *, batch: Resources | None = None, mid: Resources | None = None, **fields: Any
) -> ReclaimedNode:
    """With these amounts reclaimed for each band; None: unknown."""
    bands: dict[Band, ReclaimedBand] = {
        "mid": ReclaimedBand(reclaimed=mid or Resources(), hours=24),
        "batch": ReclaimedBand(reclaimed=batch or Resources(), hours=6),
    }
    defaults: dict[str, Any] = {
        "node": node,
        "uid": f"uid-{node}",
        "evaluated_at": NOW,
        "sampled_at": NOW,
        "bands": bands,
        "epoch": 1,
        "sequence": 1,
    }
    return ReclaimedNode(**(defaults | fields))


def a_batch_pod(name: str = "job-1", **fields: Any) -> PlacedPod:
    """It requests one core and 1 GiB of the band batch."""
    defaults: dict[str, Any] = {
        "priority": 5_500,
        "priority_class": "batch",
        "requests": Resources(),
        "reclaimed_requests": Resources(cpu=1.0, memory=GIB),
    }
    return a_placed_pod(name, **(defaults | fields))
