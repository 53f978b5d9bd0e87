"""A reference that no cluster can have: it knows every curve, the fleet's final mean, and answers in fractions.

Each pod goes where it adds least to Σ (node's share − fleet's share)² over the day, CPU and memory together. What an
extender's few integers beside the stock scores reach is measured against it.
"""

import numpy as np

from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.trace import Array, Trace

MEMORY_WEIGHT = 0.3
"""That of a squared point of memory; CPU counts 1."""


class Greedy:
    """The nodes' days as they fill."""

    def __init__(self, trace: Trace) -> None:
        self._base = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])
        self._curves = np.stack([trace.cpu_milli / 1_000.0, trace.memory_mib * MIB])
        """resources × workloads × steps."""

        self._used = np.zeros((2, len(trace.nodes), trace.steps))
        whole = np.einsum("rws,w->rs", self._curves, trace.replicas())
        self._mean = whole / self._base.sum(axis=0)[:, np.newaxis]
        """resources × steps: the fleet's share once everything is placed."""

    def cost(self, workload: int) -> Array:
        """By node: what one pod of the workload adds to the squared distance, as mean over the steps."""
        cost = np.zeros(len(self._base))
        for resource, weight in enumerate((1.0, MEMORY_WEIGHT)):
            base = self._base[:, resource]
            pod = self._curves[resource, workload]
            # (d + p)² − d² = 2dp + p², with d the distance to the mean and p the pod, as shares.
            along = self._used[resource] @ pod / base - self._mean[resource] @ pod
            cost += weight * (2.0 * along + pod @ pod / base) / base
        mean: Array = cost / self._curves.shape[2]
        return mean

    def place(self, workload: int, node: int) -> None:
        self._used[:, node] += self._curves[:, workload]

    def remove(self, workload: int, node: int) -> None:
        self._used[:, node] -= self._curves[:, workload]
