"""Clusters as strategies see them: small ones, and uneven random ones."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from builders import GIB, NOW, a_workload

from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.nodes.placed_objects import quantities
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, NodeStatus, Taint
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec
from equipoise.contracts.load.correction import RESOURCES, amounts, plus
from equipoise.contracts.load.daily_profile import SLOTS, DailyProfile, HourlyUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Flags
from equipoise.descheduler.decisions.cluster import ClusterView, IntentLimits, PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.state.daily_usage import NodeDay, UsageForecast
from equipoise.descheduler.state.node_fit import NodeFit, placed_pods
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.replacement import ReplacementFilters

THRESHOLDS = Thresholds(high=ResourceThresholds(cpu=65, memory=80), low=ResourceThresholds(cpu=45, memory=60))
UNLIMITED = IntentLimits(per_evaluation=10_000, per_node=10_000, per_workload=10_000)
WINDOWS = ("5m", "15m", "1h", "1d")
EVERY_HOUR = np.ones(SLOTS, dtype=np.bool_)
"""A day of which every hour is measured."""


FILTERS = ReplacementFilters()


def pod_info(
    name: str,
    requests: Mapping[str, float] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    uid: str = "",
    **spec: Any,
) -> PodInfo:
    """`requests`: in cores and bytes."""
    resources = ResourceRequirements(requests=quantities(dict(requests or {})))
    metadata = ObjectMeta(name=name, namespace="shop", uid=uid or f"uid-{name}", labels=dict(labels or {}))
    return PodInfo(Pod(metadata=metadata, spec=PodSpec(containers=[Container(resources=resources)], **spec)))


def changed_pod(pod: MovablePod, *, labels: Mapping[str, str] | None = None, **spec: Any) -> MovablePod:
    """With other labels, or another specification."""
    api_pod = pod.info.pod
    metadata = msgspec.structs.replace(
        api_pod.metadata, labels=api_pod.metadata.labels if labels is None else dict(labels)
    )
    api_pod = msgspec.structs.replace(api_pod, metadata=metadata, spec=msgspec.structs.replace(api_pod.spec, **spec))
    return msgspec.structs.replace(pod, info=PodInfo(api_pod))


def node_object(
    name: str,
    allocatable: Mapping[str, float] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    cordoned: bool = False,
) -> Node:
    """`allocatable`: in cores and bytes, in place of 10 cores, 64 GiB and 110 pods."""
    amounts = {"cpu": 10.0, "memory": 64 * GIB, "pods": 110.0} if allocatable is None else dict(allocatable)
    return Node(
        metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
        spec=NodeSpec(taints=list(taints), unschedulable=cordoned),
        status=NodeStatus(allocatable=quantities(amounts)),
    )


def changed_node(
    node: ClusterNode,
    *,
    allocatable: Mapping[str, float] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
) -> ClusterNode:
    """With these amounts and labels besides its own, and these taints."""
    changed = node_object(
        node.name, {**node.allocatable, **(allocatable or {})}, labels={**node.labels, **(labels or {})}, taints=taints
    )
    return msgspec.structs.replace(node, object=changed)


def a_pod(name: str = "web-1", cpu: float | None = 1.0, memory: float | None = GIB, **fields: Any) -> MovablePod:
    """A pod that may move and requests little. `node` is set by the node it is passed to."""
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "shop",
        "name": name,
        "node": "",
        "workload": a_workload(name=f"of-{name}"),
        "usage": Resources(cpu=cpu, memory=memory),
        "qos": "Burstable",
        "created_at": NOW - 90_000,
        "info": fields.get("info") or pod_info(name, {"cpu": 0.1, "memory": GIB / 8}),
    }
    return MovablePod(**(defaults | fields))


def a_batch_pod(name: str, cpu: float | None = 1.0, memory: float | None = GIB, **fields: Any) -> MovablePod:
    """A pod of the band batch that requests one core and 1 GiB of it."""
    requests = {"kubernetes.io/batch-cpu": 1_000.0, "kubernetes.io/batch-memory": GIB}
    info = pod_info(name, requests)
    return a_pod(name, cpu, memory, **({"qos": "BestEffort", "priority": 5_500, "info": info} | fields))


def offering(node: ClusterNode, cores: float) -> ClusterNode:
    """The node with this many cores of the band batch, and 64 GiB."""
    offered = {"kubernetes.io/batch-cpu": 1_000 * cores, "kubernetes.io/batch-memory": 64 * GIB}
    return changed_node(node, allocatable=offered)


def a_node(name: str = "node-a", pods: Sequence[MovablePod] = (), **fields: Any) -> ClusterNode:
    """A node of 10 cores and 64 GiB with the usage of its pods over every window."""
    pods = [msgspec.structs.replace(pod, node=name) for pod in pods]
    usage = Resources(
        cpu=sum(pod.usage.cpu or 0.0 for pod in pods), memory=sum(pod.usage.memory or 0.0 for pod in pods)
    )
    defaults: dict[str, Any] = {
        "name": name,
        "base": Resources(cpu=10.0, memory=64 * GIB),
        "usage": dict.fromkeys(WINDOWS, usage),
        "sampled_at": dict.fromkeys(WINDOWS, NOW - 5),
        "pods": pods,
        "object": node_object(name),
        "occupying": [pod.info for pod in pods],
    }
    return ClusterNode(**(defaults | fields))


def a_loaded_node(name: str, cpu: float, memory: float = 0.2, pieces: int = 10, **fields: Any) -> ClusterNode:
    """A node with this load (0..1), made of equal pods."""
    pods = [a_pod(f"{name}-{i}", cpu=10 * cpu / pieces, memory=64 * GIB * memory / pieces) for i in range(pieces)]
    usage = Resources(cpu=10 * cpu, memory=64 * GIB * memory)
    return a_node(name, pods, **({"usage": dict.fromkeys(WINDOWS, usage)} | fields))


def a_measured_day(usage: HourlyUsage, measured: Flags = EVERY_HOUR, explained: HourlyUsage | None = None) -> NodeDay:
    """The day of a node; without `explained`, its pods use what their day has."""
    return NodeDay(usage, usage if explained is None else explained, np.ones(len(RESOURCES)), measured)


def _all_day(usage: Resources) -> HourlyUsage:
    return np.repeat(np.array([amounts(usage)]).T, SLOTS, axis=1)


def a_cluster(*nodes: ClusterNode, **fields: Any) -> ClusterView:
    """A cluster in which, without `days`, forecasts are constant and measured. Terminating pods are not in them."""
    flat = {
        node.name: a_measured_day(
            _all_day(node.remaining("5m")),
            explained=_all_day(plus(node.remaining("5m"), node.expected.get("5m", Resources()), -1.0)),
        )
        for node in nodes
    }
    constant = {
        pod.workload: DailyProfile(usage=None, measured=EVERY_HOUR)
        for node in nodes
        for pod in node.pods
        if pod.workload is not None
    }
    defaults: dict[str, Any] = {
        "now": NOW,
        "nodes": nodes,
        "thresholds": THRESHOLDS,
        "windows": WINDOWS,
        "limits": UNLIMITED,
        "fit": node_fit,
        "days": UsageForecast(constant.get, no_utilization, flat),
    }
    return ClusterView(**(defaults | fields))


def node_fit(nodes: Sequence[ClusterNode], *, target_points: int = 250) -> NodeFit:
    """Of a cluster without volumes and labels of namespaces."""
    return NodeFit(placed_pods(nodes), [node.name for node in nodes], FILTERS, target_points=target_points)


def no_utilization(names: Sequence[str]) -> list[None]:
    """For no node."""
    return [None] * len(names)


def names(cluster: ClusterView) -> set[str]:
    return {node.name for node in cluster.nodes}


def moved(cluster: ClusterView, moves: Sequence[PodMove]) -> ClusterView:
    """The cluster once the moves are done and measured: a new pod of the same kind runs on each target."""
    nodes = {node.name: node for node in cluster.nodes}
    for move in moves:
        source, target = nodes[move.pod.node], nodes[move.target]
        uid = f"{move.pod.uid}+"
        info = PodInfo(move.pod.info.pod, move.pod.info.shape, uid=uid)
        pod = msgspec.structs.replace(move.pod, uid=uid, node=target.name, info=info, created_at=cluster.now)
        nodes[source.name] = _with_pods(source, [p for p in source.pods if p.uid != move.pod.uid], move.pod, -1.0)
        nodes[target.name] = _with_pods(target, [*target.pods, pod], pod, 1.0)
    return msgspec.structs.replace(cluster, nodes=list(nodes.values()))


def _with_pods(node: ClusterNode, pods: Sequence[MovablePod], on_change: MovablePod, sign: float) -> ClusterNode:
    usage = {window: plus(value, on_change.usage, sign) for window, value in node.usage.items()}
    return msgspec.structs.replace(node, pods=pods, usage=usage, occupying=[pod.info for pod in pods])


def cpu_loads(cluster: ClusterView) -> list[float]:
    """In points of percent."""
    return [100 * (node.load("5m").cpu or 0.0) for node in cluster.nodes]


def spread(cluster: ClusterView) -> float:
    loads = cpu_loads(cluster)
    return max(loads) - min(loads)


def a_skewed_cluster(seed: int, nodes: int = 20, pods_per_node: int = 15) -> ClusterView:
    """Nodes of two sizes filled by requests; their pods use far less, about, or more than they request."""
    chance = random.Random(seed)
    cluster: list[ClusterNode] = []
    for number in range(nodes):
        size = 2.0 if number % 3 == 0 else 1.0
        base = Resources(cpu=10.0 * size, memory=64 * GIB * size)
        heat = chance.betavariate(0.8, 1.2)
        pods = []
        for place in range(int(pods_per_node * size)):
            workload = a_workload(name=f"app-{chance.randrange(max(1, nodes * 2))}")
            cpu = chance.lognormvariate(0.0, 0.8) * heat * 0.75
            name = f"p{number}-{place}"
            info = pod_info(name, {"cpu": 0.5, "memory": GIB})
            pods.append(a_pod(name, cpu=cpu, memory=GIB * chance.uniform(0.2, 2.0), workload=workload, info=info))
        node = a_node(f"node-{number:02}", pods, base=base)
        allocatable = {"cpu": 10.0 * size, "memory": 64 * GIB * size, "pods": 110.0}
        used = min(0.98, (node.usage["5m"].cpu or 0.0) / (10.0 * size))
        scale = used * 10.0 * size / (node.usage["5m"].cpu or 1.0)
        pods = [_scaled(pod, scale) for pod in pods]
        cluster.append(changed_node(a_node(f"node-{number:02}", pods, base=base), allocatable=allocatable))
    return a_cluster(*cluster)


def _scaled(pod: MovablePod, factor: float) -> MovablePod:
    return msgspec.structs.replace(pod, usage=Resources(cpu=(pod.usage.cpu or 0.0) * factor, memory=pod.usage.memory))
