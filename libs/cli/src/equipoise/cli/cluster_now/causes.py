"""Which workloads make nodes uneven. Pure.

The part of a workload in the load of a node above the mean of all nodes is the load of its pods on the node, minus
their mean load on a node. The parts of all workloads, and of usage outside of measured pods, add up to that load. A
DaemonSet with the same usage everywhere has no part, however much it uses. A workload that uses less on these nodes
than elsewhere has a negative part, which offsets others. A share is a share of all positive parts: the shares of all
workloads are at most 100 %.
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
"""Usage as a multiple of the request from which the request is the cause."""

Resource = Literal["cpu", "memory"]
Reason = Literal["no request", "request too low", "placement"]


class UnevenWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that makes nodes uneven."""

    workload: Workload
    resource: Resource
    share: float
    """Its share (0..1) of what raises the nodes above the mean, summed over these nodes."""

    pods: int
    """Running pods whose usage is known, on nodes that count."""

    pods_above: int
    """The number of these on nodes above the mean."""

    nodes_above: int
    """Nodes above the mean on which they are."""

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
    """The workloads with the largest parts, largest first. `nodes`: those that count for the spread."""
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
        for pod in placements[name].pods if name in placements else ():
            usage = measured.get(pod.uid, Resources())
            load = getattr(load_of(usage, utilization[name].base), resource) if measured else None
            if load is not None:
                groups[_workload_of(pod)].add(name, load, getattr(usage, resource), getattr(pod.requests, resource))
    parts = {
        workload: sum(pods.load.get(name, 0.0) - sum(pods.load.values()) / len(loads) for name in above)
        for workload, pods in groups.items()
    }
    otherwise = total - sum(parts.values())
    whole = sum(part for part in (*parts.values(), otherwise) if part > 0)
    largest = sorted(parts, key=lambda workload: (-parts[workload], workload))[:limit]
    return [groups[each].cause(each, resource, parts[each] / whole, above) for each in largest if parts[each] > 0]


class _Pods:
    """The measured pods of a workload, of one resource."""

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
        here = above & self._count.keys()
        return UnevenWorkload(
            workload=workload,
            resource=resource,
            share=share,
            pods=pods,
            pods_above=sum(self._count[name] for name in here),
            nodes_above=len(here),
            usage=usage,
            request=request or None,
            reason=reason if request else "no request",
        )


def _workload_of(pod: PlacedPod) -> Workload:
    """A bare or static pod is a workload of its own."""
    return pod.workload or Workload(kind="Pod", group="", namespace=pod.namespace, name=pod.name)
