"""The scheduler of a replay: kube-scheduler, alone or with an extender, or the greedy reference."""

import random
from collections.abc import Callable

import numpy as np

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.plugins import Ints
from equipoise.lab.model.stock.pod_template import PodTemplate
from equipoise.lab.model.stock.scheduler import SimulatedExtender, StockScheduler
from equipoise.lab.model.trace import Array, Trace

MEMORY_WEIGHT = 0.3
"""Weight of the squared distance of memory for the greedy reference; that of CPU is 1."""


class SimulatedScheduler:
    """kube-scheduler, and the requested resources of each node."""

    def __init__(
        self,
        trace: Trace,
        generator: random.Random,
        extender: Callable[[PodDemand, float], SimulatedExtender | None] = lambda pod, now: None,
        preferred: Callable[[PodDemand], Ints | None] = lambda pod: None,
        percentage_of_nodes_to_score: int = 0,
    ) -> None:
        """`extender`: for a pod at a time; None: there is none.

        `preferred`: per node, what the preferred terms that a new pod was given add to the node; None: it has none.
        """
        self.placements = Placements(trace.nodes, trace.rules)
        self._scheduler = StockScheduler(percentage_of_nodes_to_score=percentage_of_nodes_to_score)
        self._generator = generator
        self._extender = extender
        self._preferred = preferred

    def choose(self, template: PodTemplate, pod: PodDemand, now: float) -> int | None:
        """A feasible node, or None. The pod is not placed yet."""
        extender, preferred = self._extender(pod, now), self._preferred(pod)
        return self._scheduler.schedule(self.placements, template, self._generator, extender, preferred)

    def choose_alone(self, template: PodTemplate) -> int | None:
        """The same without the extender."""
        return self._scheduler.schedule(self.placements, template, self._generator)

    def excluded(self, workload: int) -> list[int]:
        """Nodes that anti-affinity rules exclude for pods of the workload."""
        flags = self.placements.anti_affinity.excluded(workload)
        return [] if flags is None else np.flatnonzero(flags).tolist()

    def place(self, template: PodTemplate, node: int) -> None:
        self.placements.place(template, node)

    def remove(self, template: PodTemplate, node: int) -> None:
        """A terminating pod was deleted."""
        self.placements.remove(template, node, terminating=True)


class GreedyScheduler(SimulatedScheduler):
    """An unattainable reference: it knows every usage curve and the final mean load of the cluster.

    Each pod is placed where it adds least to Σ (load of the node − mean load)² over the day, for CPU and memory.
    Policies are compared with it.
    """

    def __init__(self, trace: Trace, generator: random.Random) -> None:
        super().__init__(trace, generator)
        self._base = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])
        self._curves = np.stack([trace.cpu_milli / 1_000.0, trace.memory_mib * MIB])
        """resources × workloads × steps."""

        self._used = np.zeros((2, len(trace.nodes), trace.steps))
        whole = np.einsum("rws,w->rs", self._curves, trace.replicas())
        self._mean = whole / self._base.sum(axis=0)[:, np.newaxis]
        """resources × steps: the mean load once all pods are placed."""

    def choose(self, template: PodTemplate, pod: PodDemand, now: float) -> int | None:
        feasible = np.flatnonzero(self.placements.feasible(template))
        return int(feasible[self._cost(template.workload)[feasible].argmin()]) if len(feasible) else None

    def _cost(self, workload: int) -> Array:
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

    def place(self, template: PodTemplate, node: int) -> None:
        super().place(template, node)
        self._used[:, node] += self._curves[:, template.workload]

    def remove(self, template: PodTemplate, node: int) -> None:
        super().remove(template, node)
        self._used[:, node] -= self._curves[:, template.workload]
