"""NodeResourcesFit: the requests of a pod must fit into what is left; nodes are scored by how full they would be."""

from collections.abc import Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects import Node
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, changes_itself, node_helps
from equipoise.scheduling.framework.plugin import Refusal
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.amounts import CPU, MEMORY, PODS, allocatable
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.resource_allocation import (
    CPU_AND_MEMORY,
    ResourceWeight,
    Strategy,
    least_allocated,
)

TOO_MANY_PODS = "Too many pods"


class NodeResourcesFit:
    name = "NodeResourcesFit"

    def __init__(
        self,
        strategy: Strategy = least_allocated,
        resources: Sequence[ResourceWeight] = CPU_AND_MEMORY,
        *,
        ignored_resources: Sequence[str] = (),
        ignored_groups: Sequence[str] = (),
    ) -> None:
        """`ignored_resources`: extended ones that another program checks; `ignored_groups`: all with this prefix."""
        self._strategy = strategy
        self._resources = resources
        self._ignored = frozenset(ignored_resources)
        self._ignored_groups = frozenset(ignored_groups)

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        """One refusal per resource that is short. A request that exceeds what the node has is unresolvable."""
        refusals = []
        full = snapshot.requested[3, rows] + 1 > snapshot.allocatable[3, rows]
        refusals.append(Refusal(nodes=full, reason=TOO_MANY_PODS))
        for resource, amount in pod.requests.items():
            if not amount or self._is_ignored(resource) or resource == PODS:
                continue
            size = _of(snapshot, snapshot.allocatable, resource, rows)
            short = amount > size - _of(snapshot, snapshot.requested, resource, rows)
            if not short.any():
                continue
            never = short & (amount > size)
            reason = f"Insufficient {resource}"
            refusals.append(Refusal(nodes=short & ~never, reason=reason))
            refusals.append(Refusal(nodes=never, reason=reason, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
        return refusals

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        requested, capacity, counts, weights = [], [], [], []
        for resource in self._resources:
            size = _of(snapshot, snapshot.allocatable, resource.name, rows)
            own = pod.container_requests.get(resource.name, 0)
            requested.append(_assumed(snapshot, resource.name, rows) + own)
            capacity.append(size)
            counts.append(_counting(size, resource.name, own))
            weights.append(resource.weight)
        return self._strategy(requested, capacity, counts, weights)

    def _is_ignored(self, resource: str) -> bool:
        prefix, _, _ = resource.partition("/")
        return is_extended(resource) and (resource in self._ignored or prefix in self._ignored_groups)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A pod is gone or requests less, or a node has enough for the pod alone."""
        if event.kind == "Pod":
            if event.action == "delete":
                return True
            before, after = event.old, event.new
            return (
                isinstance(before, PodInfo)
                and isinstance(after, PodInfo)
                and any(after.request(name) < before.request(name) for name in pod.requests)
            )
        return changes_itself(pod, event) or node_helps(event, lambda node: self._fits_alone(pod, node))

    def _fits_alone(self, pod: PodInfo, node: Node) -> bool:
        has = allocatable(node)
        return has.get(PODS, 0) > 0 and all(
            amount <= has.get(name, 0) for name, amount in pod.requests.items() if amount and not self._is_ignored(name)
        )


def _of(snapshot: ClusterSnapshot, array: Ints, resource: str, rows: Rows) -> Ints:
    index = snapshot.resources.get(resource)
    if index is None:
        return np.zeros(len(rows), dtype=np.int64)
    found: Ints = array[index, rows]
    return found


def _assumed(snapshot: ClusterSnapshot, resource: str, rows: Rows) -> Ints:
    """Requests of the pods of each node, with assumptions for those without cpu or memory."""
    if resource in (CPU, MEMORY):
        found: Ints = snapshot.assumed[0 if resource == CPU else 1, rows]
        return found
    return _of(snapshot, snapshot.requested, resource, rows)


def is_extended(resource: str) -> bool:
    """As `IsExtendedResourceName` of Kubernetes: neither its own resources nor quotas."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def is_scalar(resource: str) -> bool:
    """All but cpu, memory and storage: a pod that does not request it is not scored by it."""
    return "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))


def _counting(capacity: Ints, resource: str, own: int) -> Flags:
    """A node without the resource is not scored by it. Scalar resources count only if the pod requests them."""
    if resource == PODS or (is_scalar(resource) and not own):
        return np.zeros(len(capacity), dtype=np.bool_)
    return capacity > 0
