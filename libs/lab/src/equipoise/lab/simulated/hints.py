"""Placement hints in a replay: the scorer's table, and the node affinity that new pods get from it."""

from collections.abc import Mapping, Sequence

from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import PreferredNodes
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod, WeightedNodes, WorkloadHint
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.state.placement_hints.hint_table import HintTable
from equipoise.scorer.state.scoring_state import ScoringState


class SimulatedHints:
    """The written hints, and the node affinity that new pods get from them. Times are Unix seconds."""

    def __init__(self, scoring: ScoringState, settings: HintSettings) -> None:
        self._table = HintTable(scoring, settings)
        self._written: Mapping[Workload, WorkloadHint] = {}

    def on_placement(self, message: NodePlacement, placed: Sequence[PlacedPod], now: float) -> None:
        self._table.on_placement(message, placed, now)
        evicted = self._table.evicted_workloads(now)
        if any(pod.workload in evicted for pod in placed):
            self.write(now)  # the replacement exists, so that the next pod of the workload is none

    def update(self, now: float) -> None:
        """Compute all hints, to be written later."""
        for _ in self._table.update(now):
            pass

    def write(self, now: float) -> None:
        """Write the hints of the last update, which new pods get from now on.

        They consider the evictions until `now`.
        """
        self._written = self._table.hints(now)

    def preferred(self, pod: PodDemand) -> Sequence[PreferredNodes]:
        """The terms that the pod gets when it is created; empty if it gets no hint."""
        hint = None if pod.workload is None else self._written.get(pod.workload)
        if hint is None:
            return ()
        terms = [_term(nodes, "In") for nodes in hint.prefer]
        return terms if hint.avoid is None else [*terms, _term(hint.avoid, "NotIn")]


def _term(nodes: WeightedNodes, operator: str) -> PreferredNodes:
    rule = SelectorRequirement(key=HOSTNAME, operator=operator, values=list(nodes.hostnames))
    return PreferredNodes(weight=nodes.weight, preference=NodeSelectorTerm(match_expressions=[rule]))
