"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used equally, as in Kubernetes 1.37."""

from collections.abc import Sequence

import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.framework.status import SKIP, SUCCESS, PluginStatus
from equipoise.scheduling.model.amounts import CPU, MEMORY, PODS
from equipoise.scheduling.model.arrays import Floats, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.node_resources_fit import is_scalar
from equipoise.scheduling.plugins.resources.resource_allocation import CPU_AND_MEMORY, ResourceWeight

# Arrays, because converting a Python number in an operation takes as long as the operation on a hundred nodes.
_ONE, _HALF, _MAX_SCORE = np.array(1.0), np.array(0.5), np.array(float(MAX_SCORE))
_OFFSET, _HALVED, _LOWEST, _HIGHEST = (np.array(number) for number in (3 * MAX_SCORE // 2, 1, 0, MAX_SCORE))


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, resources: Sequence[ResourceWeight] = CPU_AND_MEMORY) -> None:
        # As in kube-scheduler, the number of pods is not scored.
        self._names = [resource.name for resource in resources if resource.name != PODS]

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        """SKIP if the pod requests none of the resources, because it does not change the balance."""
        return SUCCESS if any(map(pod.requests.get, self._names)) else SKIP

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """The scores: about 75 if the pod does not change the balance, up to 100 if it improves it."""
        if self._names == [CPU, MEMORY] and snapshot.usual_sizes:
            deviation = _deviation_of_both(pod, snapshot, rows)
        else:
            deviation = self._deviation(pod, snapshot, rows)
        np.subtract(_ONE, deviation, out=deviation)
        deviation *= _MAX_SCORE
        after, before = deviation.astype(np.int64)
        # 50 + (50 + after - before) // 2. The dividend is never negative, so floor division equals Go's truncation.
        after -= before
        after += _OFFSET
        after >>= _HALVED
        # As in NodeResourcesFit, no pod is refused because of sums that overflowed.
        np.maximum(after, _LOWEST, out=after)  # much faster than `np.clip`
        found: Ints = np.minimum(after, _HIGHEST, out=after)
        return found

    def _deviation(self, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Floats:
        """The deviations with the pod and without it, as an array of 2 × nodes. Scalar resources count only if the pod
        requests them."""
        index, own = [], []
        for name in self._names:
            amount = pod.request(name)
            if name in snapshot.resources and (amount or not is_scalar(name)):
                index.append(snapshot.resources[name])
                own.append(amount)
        capacity = snapshot.allocatable[index].take(rows, axis=1)
        without = snapshot.requested[index].take(rows, axis=1)
        requested = np.stack([without + np.array(own, dtype=np.int64).reshape(-1, 1), without])
        exists = capacity > 0
        shares = np.minimum(requested / np.maximum(capacity, 1), 1.0)
        shares[:, ~exists] = 0.0
        if len(capacity) == 2:
            deviation: Floats = np.abs(shares[:, 0] - shares[:, 1]) / 2.0
            deviation[:, ~exists.all(axis=0)] = 0.0
            return deviation
        count = exists.sum(axis=0)
        mean = shares.sum(axis=1, keepdims=True) / np.maximum(count, 1)
        deviation = np.sqrt((np.where(exists, shares - mean, 0.0) ** 2).sum(axis=1) / np.maximum(count, 1))
        lowest = np.where(exists, shares, 1.0).min(axis=1, initial=1.0)
        difference = shares.max(axis=1, initial=0.0) - lowest
        return np.where(count == 2, difference / 2, deviation)


def _deviation_of_both(pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Floats:
    """The result of `_deviation` for cpu and memory, if all nodes have both.

    This is the formula of kube-scheduler for two resources. Any other formula differs in the last bit, and truncation
    makes that visible.
    """
    requested = snapshot.requested[:2].take(rows, axis=1)
    # resources × (with the pod, without it) × nodes, so that all operations use contiguous arrays
    shares = np.empty((2, 2, len(rows)))
    shares[:, 1] = requested
    requested += pod.shape.cpu_and_memory
    shares[:, 0] = requested
    shares /= snapshot.allocatable[:2].take(rows, axis=1)[:, np.newaxis]
    np.minimum(shares, _ONE, out=shares)
    deviation, memory = shares
    deviation -= memory
    np.abs(deviation, out=deviation)
    deviation *= _HALF
    found: Floats = deviation
    return found
