"""The schedulers of a replay: kube-scheduler alone, with the scorer, or the greedy reference."""

import random

import numpy as np

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.greedy import Greedy
from equipoise.lab.model.stock import Extender, Placements, PodKind, StockScheduler
from equipoise.lab.model.stock.resources import Ints
from equipoise.lab.model.stock.scheduler import Rows
from equipoise.lab.model.trace import Trace
from equipoise.lab.simulated_collector import SimulatedCollector
from equipoise.scorer.decisions.scoring_state import Picture as ScoringState


class StockOnly:
    """kube-scheduler without an extender, and the requested resources of each node."""

    def __init__(self, trace: Trace, generator: random.Random) -> None:
        self._placements = Placements(trace.nodes, trace.rules)
        self._scheduler = StockScheduler()
        self._generator = generator

    def choose(self, kind: PodKind, pod: PodDemand, now: float) -> int | None:
        """A feasible node, or None. The pod is not placed yet."""
        return self._scheduler.schedule(self._placements, kind, self._generator, self._extender(pod, now))

    def choose_alone(self, kind: PodKind) -> int | None:
        """The same without the extender."""
        return self._scheduler.schedule(self._placements, kind, self._generator)

    def _extender(self, pod: PodDemand, now: float) -> Extender | None:
        return None

    def has_room(self, kind: PodKind) -> bool:
        return bool(self._placements.feasible(kind).any())

    def closed(self, workload: int) -> list[int]:
        """Nodes that anti-affinity rules exclude for pods of the workload."""
        flags = self._placements.neighbours.closed(workload)
        return [] if flags is None else np.flatnonzero(flags).tolist()

    def place(self, kind: PodKind, node: int) -> None:
        self._placements.place(kind, node)

    def terminate(self, kind: PodKind, node: int) -> None:
        """The pod is terminating: it keeps its resources until it is removed."""
        self._placements.terminate(kind, node)

    def remove(self, kind: PodKind, node: int) -> None:
        """A terminating pod was deleted."""
        self._placements.remove(kind, node, terminating=True)

    def violations(self) -> int:
        """Number of anti-affinity violations of the current placement."""
        return self._placements.violations()


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
        resolution: int,
    ) -> None:
        super().__init__(trace, generator)
        self._names = [node.name for node in trace.nodes]
        self._numbers = {workload: number for number, workload in enumerate(collector.workloads)}
        self._state = state
        self._collector = collector
        self._origin = origin
        self._weight = weight
        self._resolution = resolution

    def _extender(self, pod: PodDemand, now: float) -> Extender:
        def scores(rows: Rows) -> Ints:
            # The collector publishes every workload in each round. Only the requested one is needed here.
            if pod.workload is not None:
                message = self._collector.workload(self._numbers[pod.workload], now)
                if message is not None:
                    self._state.on_workload(message)
            names = [self._names[row] for row in rows.tolist()]
            return self._state.prioritize(pod, names, self._origin + now).answer.scores

        return Extender(scores=scores, weight=self._weight, resolution=self._resolution)


class GreedyScheduler(StockOnly):
    """The greedy reference: the feasible node with the lowest cost."""

    def __init__(self, trace: Trace, generator: random.Random) -> None:
        super().__init__(trace, generator)
        self._greedy = Greedy(trace)

    def choose(self, kind: PodKind, pod: PodDemand, now: float) -> int | None:
        feasible = np.flatnonzero(self._placements.feasible(kind))
        if not len(feasible):
            return None
        return int(feasible[self._greedy.cost(kind.workload)[feasible].argmin()])

    def place(self, kind: PodKind, node: int) -> None:
        super().place(kind, node)
        self._greedy.place(kind.workload, node)

    def remove(self, kind: PodKind, node: int) -> None:
        super().remove(kind, node)
        self._greedy.remove(kind.workload, node)
