"""Which workloads make nodes uneven. Pure.

The excess of a node is its load above the mean of all nodes. The part of a workload in this excess is the load of its
pods on the node, minus the mean load of its pods per node. The parts of all workloads, and of usage outside of measured
pods, add up to the excess. A DaemonSet with the same usage everywhere has no part. A workload that uses less on these
nodes than elsewhere has a negative part, which offsets others. Shares refer to the sum of all positive parts, so that
the shares of all workloads are at most 100 % together.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.cli.cluster_now.nodes import NodeNow
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import known, load_of
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources

UNDERSTATED = 1.5
"""A request counts as the cause if usage is at least this multiple of it."""

Resource = Literal["cpu", "memory"]
Reason = Literal["no request", "request too low", "placement"]


class UnevenWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that makes nodes uneven."""

    workload: Workload
    resource: Resource
    share: float
    """The share (0..1) of the workload in the excess of all nodes above the mean."""

    pods: int
    """Running pods whose usage is known, on nodes that count."""

    pods_above: int
    """The number of these pods that are on nodes above the mean."""

    nodes_above: int
    """The number of nodes above the mean that have these pods."""

    usage: float
    """Measured usage per pod, in cores or bytes."""

    request: float | None
    """Request per pod, in cores or bytes; None: it requests nothing of this resource."""

    reason: Reason


def most_uneven(spread: Resources) -> Resource:
    """The resource with the larger spread."""
    return "memory" if (spread.memory or 0.0) > (spread.cpu or 0.0) else "cpu"


def causes(
    nodes: Sequence[NodeNow],
    resource: Resource,
    placements: Mapping[str, NodePlacement],
    utilization: Mapping[str, NodeUtilization],
    limit: int,
) -> list[UnevenWorkload]:
    """The workloads with the largest parts, largest first. `nodes`: those that count for the spread.

    What terminating pods use counts as usage outside of pods: nothing can be changed about them.
    """
    loads = {node.node: load for node in nodes if (load := getattr(node.load, resource)) is not None}
    if not loads:
        return []
    mean = sum(loads.values()) / len(loads)
    above = {name for name, load in loads.items() if load > mean}
    total = sum(loads[name] - mean for name in above)
    if total <= 0:
        return []
    groups: defaultdict[Workload, _Pods] = defaultdict(_Pods)
    for name in loads:
        measured = utilization[name].pods if name in utilization else {}
        staying = [pod for pod in placements[name].pods if not pod.terminating] if name in placements else []
        for pod in staying:
            usage = measured.get(pod.uid, Resources())
            load = getattr(load_of(usage, utilization[name].base), resource) if measured else None
            if load is not None:
                groups[_workload_of(pod)].add(name, load, getattr(usage, resource), getattr(pod.requests, resource))
    parts = {
        workload: sum(pods.load.get(name, 0.0) - sum(pods.load.values()) / len(loads) for name in above)
        for workload, pods in groups.items()
    }
    outside_of_pods = total - sum(parts.values())
    positive = sum(part for part in (*parts.values(), outside_of_pods) if part > 0)
    largest = sorted(parts, key=lambda workload: (-parts[workload], workload))[:limit]
    return [
        groups[workload].cause(workload, resource, parts[workload] / positive, above)
        for workload in largest
        if parts[workload] > 0
    ]


class _Pods:
    """The measured pods of a workload, with their load of one resource."""

    def __init__(self) -> None:
        self.load: defaultdict[str, float] = defaultdict(float)
        """Load of the pods (0..1) by node."""

        self._count: defaultdict[str, int] = defaultdict(int)
        self._usage = self._requests = 0.0

    def add(self, node: str, load: float, usage: float, request: float | None) -> None:
        self.load[node] += load
        self._count[node] += 1
        self._usage += usage
        self._requests += known(request) or 0.0

    def cause(self, workload: Workload, resource: Resource, share: float, above: set[str]) -> UnevenWorkload:
        pods = sum(self._count.values())
        usage, request = self._usage / pods, self._requests / pods
        reason: Reason = "placement" if usage < UNDERSTATED * request else "request too low"
        nodes_above = above & self._count.keys()
        return UnevenWorkload(
            workload=workload,
            resource=resource,
            share=share,
            pods=pods,
            pods_above=sum(self._count[name] for name in nodes_above),
            nodes_above=len(nodes_above),
            usage=usage,
            request=request or None,
            reason=reason if request else "no request",
        )


def _workload_of(pod: PlacedPod) -> Workload:
    """The workload of a pod. A pod without a controller, and a static pod, is a workload of its own."""
    return pod.workload or Workload(kind="Pod", group="", namespace=pod.namespace, name=pod.name)
