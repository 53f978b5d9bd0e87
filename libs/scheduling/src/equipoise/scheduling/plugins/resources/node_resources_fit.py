"""NodeResourcesFit: the requests of a pod must fit into free resources. Nodes are scored by how full they would be."""

from collections.abc import Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, is_update_of, node_became_suitable
from equipoise.scheduling.framework.plugin import MAX_SCORE, Refusal
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.amounts import CPU, EXACT, MEMORY, PODS, STORAGE, allocatable
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.resource_allocation import (
    CPU_AND_MEMORY,
    ResourceWeight,
    Strategy,
    least_allocated,
    least_allocated_exactly,
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
        unknown_resources: Sequence[str] = (),
    ) -> None:
        """`ignored_resources`: extended resources that another program checks; `ignored_groups`: the prefixes of such
        resources. `unknown_resources`: resources whose amount on the nodes is unknown. None of all these resources is
        checked.

        Raises ValueError without resources to score.
        """
        if not resources:
            raise ValueError("no resources configured")
        self._strategy = strategy
        self._names = [resource.name for resource in resources]
        self._weights = np.array([resource.weight for resource in resources], dtype=np.int64)
        self._total_weight = np.array(self._weights.sum())
        self._least_of_both = strategy is least_allocated and self._names == [CPU, MEMORY]
        self._ignored = frozenset(ignored_resources)
        self._unknown = frozenset(unknown_resources)
        self._ignored_groups = frozenset(ignored_groups)

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        """One refusal per insufficient resource. It is unresolvable if the request exceeds the allocatable amount of
        the node."""
        free = (snapshot.allocatable - snapshot.requested).take(rows, axis=1)
        basic = pod.shape.basic_requests  # of the first four resources: cpu, memory, storage, pods
        if basic is not None and not np.count_nonzero(free[:4] < basic):
            return ()
        full = free[3] < 1
        refusals = [Refusal(nodes=full, reason=TOO_MANY_PODS)] if np.count_nonzero(full) else []
        for resource, amount in pod.requests.items():
            if not _counts(resource, amount) or self._is_ignored(resource) or resource == PODS:
                continue
            index = snapshot.resources.get(resource)
            short = free[index] < amount if index is not None else np.ones(len(rows), dtype=np.bool_)
            if not np.count_nonzero(short):
                continue
            reason = f"Insufficient {resource}"
            never = short & (_amounts_by_node(snapshot, snapshot.allocatable, resource, rows) < amount)
            if np.count_nonzero(never):
                short &= ~never
                refusals.append(Refusal(nodes=never, reason=reason, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
            refusals.append(Refusal(nodes=short, reason=reason))
        return refusals

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        if self._least_of_both and snapshot.usual_sizes:
            used = snapshot.assumed.take(rows, axis=1)
            used += pod.shape.container_cpu_and_memory
            if _highest(used) <= EXACT:
                size = snapshot.allocatable[:2].take(rows, axis=1)
                return least_allocated_exactly(used, size, self._weights, self._total_weight)
        requests = pod.container_requests
        own = [requests.get(name, 0) for name in self._names]
        size = np.array([_amounts_by_node(snapshot, snapshot.allocatable, name, rows) for name in self._names])
        used = np.array([_assumed(snapshot, name, rows) for name in self._names])
        counts = size > 0
        for index, name in enumerate(self._names):
            if name == PODS or (is_scalar(name) and not own[index]):
                counts[index] = False  # scalar resources count only if the pod requests them
        used += np.array(own, dtype=np.int64)[:, np.newaxis]
        # Sums that overflowed may be negative. kube-scheduler would refuse such a score, and then schedule no pod.
        scores: Ints = np.clip(self._strategy(used, size, counts, self._weights), 0, MAX_SCORE)
        return scores

    def _is_ignored(self, resource: str) -> bool:
        if resource in self._unknown:
            return True
        prefix, _, _ = resource.partition("/")
        return is_extended(resource) and (resource in self._ignored or prefix in self._ignored_groups)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod was removed or requests less, or the pod now fits on a node if no other pod is there."""
        if event.kind == "Pod":
            if event.action == "delete":
                return True
            old, new = event.old, event.new
            return (
                isinstance(old, PodInfo)
                and isinstance(new, PodInfo)
                and any(new.request(name) < old.request(name) for name in pod.requests)
            )
        return is_update_of(event, pod) or node_became_suitable(event, lambda node: self._fits_alone(pod, node))

    def _fits_alone(self, pod: PodInfo, node: Node) -> bool:
        amounts = allocatable(node)
        return amounts.get(PODS, 0) > 0 and all(
            amount <= amounts.get(name, 0)
            for name, amount in pod.requests.items()
            if _counts(name, amount) and not self._is_ignored(name)
        )


def _counts(resource: str, amount: int) -> bool:
    """Whether a request is compared with free resources. A sum that overflowed is negative, and is compared only for
    scalar resources, as in kube-scheduler."""
    return amount > 0 or (amount < 0 and resource not in (CPU, MEMORY, STORAGE))


def _amounts_by_node(snapshot: ClusterSnapshot, array: Ints, resource: str, rows: Rows) -> Ints:
    index = snapshot.resources.get(resource)
    if index is None:
        return np.zeros(len(rows), dtype=np.int64)
    found: Ints = array[index].take(rows)
    return found


def _assumed(snapshot: ClusterSnapshot, resource: str, rows: Rows) -> Ints:
    """The requests of the pods of each node, with assumed requests for pods without cpu or memory."""
    if resource in (CPU, MEMORY):
        found: Ints = snapshot.assumed[0 if resource == CPU else 1].take(rows)
        return found
    return _amounts_by_node(snapshot, snapshot.requested, resource, rows)


def _highest(amounts: Ints) -> int:
    """The highest amount. Negative amounts are sums that overflowed, so they count as higher than all others."""
    values = amounts.view(np.uint64)
    return int(values.item(values.argmax()))


def is_extended(resource: str) -> bool:
    """Whether the resource is extended: neither defined by Kubernetes nor a quota. Source: `IsExtendedResourceName`."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def is_scalar(resource: str) -> bool:
    """Whether a resource is scalar: any but cpu, memory and storage. It affects scores only of pods that request it."""
    return "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))
