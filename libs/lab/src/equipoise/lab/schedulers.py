"""The scheduler of a replay: kube-scheduler, alone or with an extender, or the greedy reference."""

import random
from collections.abc import Callable

import numpy as np

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.greedy import Greedy
from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.pod_template import PodTemplate
from equipoise.lab.model.stock.scheduler import SimulatedExtender, StockScheduler
from equipoise.lab.model.trace import Trace


class SimulatedScheduler:
    """kube-scheduler, and the requested resources of each node."""

    def __init__(
        self,
        trace: Trace,
        generator: random.Random,
        extender: Callable[[PodDemand, float], SimulatedExtender | None] = lambda pod, now: None,
    ) -> None:
        """`extender`: for a pod at a time; None: there is none."""
        self.placements = Placements(trace.nodes, trace.rules)
        self._scheduler = StockScheduler()
        self._generator = generator
        self._extender = extender

    def choose(self, template: PodTemplate, pod: PodDemand, now: float) -> int | None:
        """A feasible node, or None. The pod is not placed yet."""
        return self._scheduler.schedule(self.placements, template, self._generator, self._extender(pod, now))

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
    """The greedy reference: the feasible node with the lowest cost."""

    def __init__(self, trace: Trace, generator: random.Random) -> None:
        super().__init__(trace, generator)
        self._greedy = Greedy(trace)

    def choose(self, template: PodTemplate, pod: PodDemand, now: float) -> int | None:
        feasible = np.flatnonzero(self.placements.feasible(template))
        if not len(feasible):
            return None
        return int(feasible[self._greedy.cost(template.workload)[feasible].argmin()])

    def place(self, template: PodTemplate, node: int) -> None:
        super().place(template, node)
        self._greedy.place(template.workload, node)

    def remove(self, template: PodTemplate, node: int) -> None:
        super().remove(template, node)
        self._greedy.remove(template.workload, node)
