"""How many pods of each workload will be created until hints change again."""

from collections.abc import Mapping, Sequence

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.numeric import Array, np

_RECENT_WEIGHT = 10.0
"""A workload that just got a pod is rolled out or scaled: it counts as this many pods that were not replaced yet."""


def expected_pods(
    workloads: Sequence[Workload], replicas: Mapping[Workload, int], recent: Mapping[Workload, int], factor: float
) -> Array:
    """The expected pods of each workload: as many as were placed recently, times `factor`, divided among all."""
    shares = np.array(
        [max(1, replicas.get(each, 0)) + _RECENT_WEIGHT * recent.get(each, 0) for each in workloads], dtype=np.float64
    )
    total = shares.sum()
    expected: Array = factor * sum(recent.values()) * shares / total if total else shares
    return expected
