"""The schedulers of a replay: kube-scheduler alone, with the scorer, or the greedy reference."""

import random

import numpy as np

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.greedy import Greedy
from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.plugins import Ints
from equipoise.lab.model.stock.pod_template import PodTemplate
from equipoise.lab.model.stock.scheduler import Rows, SimulatedExtender, StockScheduler
from equipoise.lab.model.trace import Trace
from equipoise.lab.simulated_collector import SimulatedCollector
from equipoise.scorer.decisions.scoring_state import ScoringState


class StockOnly:
    """kube-scheduler without an extender, and the requested resources of each node."""

    def __init__(self, trace: Trace, generator: random.Random) -> None:
        self._placements = Placements(trace.nodes, trace.rules)
        self._scheduler = StockScheduler()
        self._generator = generator

    def choose(self, template: PodTemplate, pod: PodDemand, now: float) -> int | None:
        """A feasible node, or None. The pod is not placed yet."""
        return self._scheduler.schedule(self._placements, template, self._generator, self._extender(pod, now))

    def choose_alone(self, template: PodTemplate) -> int | None:
        """The same without the extender."""
        return self._scheduler.schedule(self._placements, template, self._generator)

    def _extender(self, pod: PodDemand, now: float) -> SimulatedExtender | None:
        return None

    def is_feasible(self, template: PodTemplate) -> bool:
        return bool(self._placements.feasible(template).any())

    def excluded(self, workload: int) -> list[int]:
        """Nodes that anti-affinity rules exclude for pods of the workload."""
        flags = self._placements.anti_affinity.excluded(workload)
        return [] if flags is None else np.flatnonzero(flags).tolist()

    def place(self, template: PodTemplate, node: int) -> None:
        self._placements.place(template, node)

    def terminate(self, template: PodTemplate, node: int) -> None:
        """The pod is terminating: it keeps its resources until it is removed."""
        self._placements.terminate(template, node)

    def remove(self, template: PodTemplate, node: int) -> None:
        """A terminating pod was deleted."""
        self._placements.remove(template, node, terminating=True)

    def violations(self) -> int:
        """Number of anti-affinity violations of the current placement."""
        return self._placements.anti_affinity.violations()


class WithScorer(StockOnly):
    """kube-scheduler with the scorer as its extender."""

    def __init__(
        self,
        trace: Trace,
        generator: random.Random,
        state: ScoringState,
        *,
        collector: SimulatedCollector,
        origin: float,
        weight: int,
        max_score: int,
    ) -> None:
        super().__init__(trace, generator)
        self._names = [node.name for node in trace.nodes]
        self._numbers = {workload: number for number, workload in enumerate(collector.workloads)}
        self._state = state
        self._collector = collector
        self._origin = origin
        self._weight = weight
        self._max_score = max_score

    def _extender(self, pod: PodDemand, now: float) -> SimulatedExtender:
        def scores(rows: Rows) -> Ints:
            # The collector publishes every workload in each round. Only the requested one is needed here.
            if pod.workload is not None:
                message = self._collector.workload(self._numbers[pod.workload], now)
                if message is not None:
                    self._state.nodes.on_workload(message)
            names = [self._names[row] for row in rows.tolist()]
            return self._state.prioritize(pod, names, self._origin + now).scores.scores

        return SimulatedExtender(scores=scores, weight=self._weight, max_score=self._max_score)


class GreedyScheduler(StockOnly):
    """The greedy reference: the feasible node with the lowest cost."""

    def __init__(self, trace: Trace, generator: random.Random) -> None:
        super().__init__(trace, generator)
        self._greedy = Greedy(trace)

    def choose(self, template: PodTemplate, pod: PodDemand, now: float) -> int | None:
        feasible = np.flatnonzero(self._placements.feasible(template))
        if not len(feasible):
            return None
        return int(feasible[self._greedy.cost(template.workload)[feasible].argmin()])

    def place(self, template: PodTemplate, node: int) -> None:
        super().place(template, node)
        self._greedy.place(template.workload, node)

    def remove(self, template: PodTemplate, node: int) -> None:
        super().remove(template, node)
        self._greedy.remove(template.workload, node)
