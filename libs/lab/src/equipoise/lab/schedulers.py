"""Who gives pods their nodes in a replay: kube-scheduler alone, with the scorer beside it, or the greedy reference."""

import random

import numpy as np

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.greedy import Greedy
from equipoise.lab.model.stock import Extender, Placements, PodKind, StockScheduler
from equipoise.lab.model.stock.resources import Ints
from equipoise.lab.model.stock.scheduler import Rows
from equipoise.lab.model.trace import Trace
from equipoise.lab.simulated_collector import SimulatedCollector
from equipoise.scorer.decisions.scoring_state import Picture as Knowledge


class StockOnly:
    """kube-scheduler without an extender, and the books of what is requested where."""

    def __init__(self, trace: Trace, chance: random.Random) -> None:
        self._placements = Placements(trace.nodes, trace.rules)
        self._scheduler = StockScheduler()
        self._chance = chance

    def choose(self, kind: PodKind, pod: PodDemand, now: float) -> int | None:
        """A node with room, or None. Nothing is booked yet."""
        return self._scheduler.schedule(self._placements, kind, self._chance, self._extender(pod, now))

    def choose_alone(self, kind: PodKind) -> int | None:
        """The same before anybody but kube-scheduler was there."""
        return self._scheduler.schedule(self._placements, kind, self._chance)

    def _extender(self, pod: PodDemand, now: float) -> Extender | None:
        return None

    def has_room(self, kind: PodKind) -> bool:
        return bool(self._placements.feasible(kind).any())

    def closed(self, workload: int) -> list[int]:
        """The nodes that anti-affinity rules close to the workload's pods."""
        flags = self._placements.neighbours.closed(workload)
        return [] if flags is None else np.flatnonzero(flags).tolist()

    def place(self, kind: PodKind, node: int) -> None:
        self._placements.place(kind, node)

    def terminate(self, kind: PodKind, node: int) -> None:
        """The pod is leaving: it keeps its room until it is removed."""
        self._placements.terminate(kind, node)

    def remove(self, kind: PodKind, node: int) -> None:
        """The pod, which was leaving, is gone."""
        self._placements.remove(kind, node, terminating=True)

    def violations(self) -> int:
        """Anti-affinity rules that the pods break where they are now."""
        return self._placements.violations()


class WithScorer(StockOnly):
    """kube-scheduler that asks the scorer, whose own rules give the answer."""

    def __init__(
        self,
        trace: Trace,
        chance: random.Random,
        knowledge: Knowledge,
        *,
        collector: SimulatedCollector,
        origin: float,
        weight: int,
        resolution: int,
    ) -> None:
        super().__init__(trace, chance)
        self._names = [node.name for node in trace.nodes]
        self._numbers = {workload: number for number, workload in enumerate(collector.workloads)}
        self._knowledge = knowledge
        self._collector = collector
        self._origin = origin
        self._weight = weight
        self._resolution = resolution

    def _extender(self, pod: PodDemand, now: float) -> Extender:
        def ask(rows: Rows) -> Ints:
            # The collector tells every workload in each round; who is not asked about need not be told.
            if pod.workload is not None:
                news = self._collector.workload(self._numbers[pod.workload], now)
                if news is not None:
                    self._knowledge.on_workload(news)
            names = [self._names[row] for row in rows.tolist()]
            return self._knowledge.prioritize(pod, names, self._origin + now).answer.scores

        return Extender(ask=ask, weight=self._weight, resolution=self._resolution)


class GreedyScheduler(StockOnly):
    """The greedy reference: the feasible node that costs least, whatever kube-scheduler thinks of it."""

    def __init__(self, trace: Trace, chance: random.Random) -> None:
        super().__init__(trace, chance)
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
