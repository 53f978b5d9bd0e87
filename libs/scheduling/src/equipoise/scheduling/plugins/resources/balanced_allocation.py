"""NodeResourcesBalancedAllocation: nodes whose resources would be used to equal shares, as of Kubernetes 1.36."""

from collections.abc import Sequence

import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.framework.status import SKIP, SUCCESS, PluginStatus
from equipoise.scheduling.model.amounts import PODS
from equipoise.scheduling.model.arrays import Floats, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.node_resources_fit import is_scalar
from equipoise.scheduling.plugins.resources.resource_allocation import CPU_AND_MEMORY, ResourceWeight


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, resources: Sequence[ResourceWeight] = CPU_AND_MEMORY) -> None:
        # As there, the number of pods is no resource that is scored.
        self._resources = [each for each in resources if each.name != PODS]

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        """A pod that requests none of the resources changes no balance."""
        return SUCCESS if any(pod.request(each.name) for each in self._resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """About 75: the pod changes nothing; 100: the node becomes much better balanced."""
        index, own = [], []
        for each in self._resources:
            amount = pod.request(each.name)
            if each.name in snapshot.resources and (amount or not is_scalar(each.name)):
                index.append(snapshot.resources[each.name])
                own.append(amount)
        capacity = snapshot.amounts(snapshot.allocatable, index, rows)
        requested = np.empty((2, *capacity.shape), dtype=np.int64)
        requested[:] = snapshot.amounts(snapshot.requested, index, rows)
        requested[0] += np.array(own, dtype=np.int64).reshape(-1, 1)
        after, before = _balance(requested, capacity)
        # 50..150 // 2: never negative, so that numpy divides as Go.
        found: Ints = MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2
        return found


def _balance(requested: Ints, capacity: Ints) -> Ints:
    """100: equal shares. Resources that a node does not have do not count.

    `requested`: any number of cases × resources × nodes; `capacity`: resources × nodes.
    """
    has = capacity > 0
    everywhere = np.count_nonzero(has) == has.size
    shares = requested / (capacity if everywhere else np.maximum(capacity, 1))
    np.minimum(shares, 1.0, out=shares)
    if not everywhere:
        shares[:, ~has] = 0.0
    # kube-scheduler's own formula for two: another one differs in the last bit, which truncation shows.
    if len(capacity) == 2:
        deviation: Floats = np.abs(shares[:, 0] - shares[:, 1]) / 2
        if not everywhere:
            deviation[:, ~has.all(axis=0)] = 0.0
    else:
        count = has.sum(axis=0)
        mean = shares.sum(axis=1, keepdims=True) / np.maximum(count, 1)
        deviation = np.sqrt((np.where(has, shares - mean, 0.0) ** 2).sum(axis=1) / np.maximum(count, 1))
        lowest = np.where(has, shares, 1.0).min(axis=1, initial=1.0)
        difference = shares.max(axis=1, initial=0.0) - lowest
        deviation = np.where(count == 2, difference / 2, deviation)
    found: Ints = ((1.0 - deviation) * MAX_SCORE).astype(np.int64)
    return found
