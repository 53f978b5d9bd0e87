"""How many pods of each workload will be created until hints change again."""

from collections.abc import Mapping, Sequence

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.numeric import Array, np

_RECENT_WEIGHT = 10.0
"""A workload with recent pods is being rolled out or scaled. Each recent pod counts as this many replicas."""


def expected_pods(
    workloads: Sequence[Workload], replicas: Mapping[Workload, int], recent: Mapping[Workload, int], factor: float
) -> Array:
    """The expected pods of each workload. Their sum is the number of recently placed pods, times `factor`."""
    weights = np.array(
        [max(1, replicas.get(workload, 0)) + _RECENT_WEIGHT * recent.get(workload, 0) for workload in workloads],
        dtype=np.float64,
    )
    total = weights.sum()
    expected: Array = factor * sum(recent.values()) * weights / total if total else weights
    return expected
