"""Placement hints in a replay: the scorer's table, and the node affinity that new pods get from it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod, WorkloadHint
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.stock.plugins import Ints
from equipoise.scorer.decisions.placement_hints.hint_table import HintTable
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.scoring_state import ScoringState


class SimulatedHints:
    """The hints that are written, and what they add to the nodes of a new pod. Times are Unix seconds."""

    def __init__(self, scoring: ScoringState, settings: HintSettings, nodes: Sequence[str]) -> None:
        """`nodes`: the hostnames in the order of the trace."""
        self._table = HintTable(scoring, settings)
        self._numbers = {name: number for number, name in enumerate(nodes)}
        self._written: Mapping[Workload, WorkloadHint] = {}

    def on_placement(self, message: NodePlacement, placed: Sequence[PlacedPod], now: float) -> None:
        self._table.on_placement(message, placed, now)

    def update(self, now: float) -> None:
        """Compute all hints."""
        for _ in self._table.update(now):
            pass

    def read(self, now: float) -> Callable[[], None]:
        """Read all hints; the result writes them."""
        hints = self._table.hints(now)

        def write() -> None:
            self._written = hints

        return write

    def preferred(self, pod: PodDemand) -> Ints | None:
        """Per node: the weights of the terms that it matches; None: the pod gets no hint."""
        hint = None if pod.workload is None else self._written.get(pod.workload)
        if hint is None:
            return None
        weights = np.zeros(len(self._numbers), dtype=np.int64)
        for term in hint.prefer:
            weights[[self._numbers[name] for name in term.hostnames]] += term.weight
        if hint.avoid is not None:
            weights += hint.avoid.weight
            weights[[self._numbers[name] for name in hint.avoid.hostnames]] -= hint.avoid.weight
        return weights
