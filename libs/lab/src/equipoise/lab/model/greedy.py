"""An unattainable reference: it knows every usage curve and the final mean load of the cluster.

Each pod is placed where it adds least to Σ (load of the node − mean load)² over the day, for CPU and memory. Policies
are compared with it.
"""

import numpy as np

from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.trace import Array, Trace

MEMORY_WEIGHT = 0.3
"""Weight of the squared distance of memory; that of CPU is 1."""


class Greedy:
    """The usage of all nodes over the day while pods are placed."""

    def __init__(self, trace: Trace) -> None:
        self._base = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])
        self._curves = np.stack([trace.cpu_milli / 1_000.0, trace.memory_mib * MIB])
        """resources × workloads × steps."""

        self._used = np.zeros((2, len(trace.nodes), trace.steps))
        whole = np.einsum("rws,w->rs", self._curves, trace.replicas())
        self._mean = whole / self._base.sum(axis=0)[:, np.newaxis]
        """resources × steps: the mean load once all pods are placed."""

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
