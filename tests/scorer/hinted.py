"""Clusters whose workloads get placement hints."""

from collections.abc import Sequence

import msgspec
from builders import NOW, a_node_utilization, a_placed_pod, a_placement, a_workload, a_workload_utilization
from scorer.clusters import a_cycle

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod, WorkloadHint
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.placement_hints.hint_table import HintTable
from equipoise.scorer.state.scoring_state import ScoringState

WEB = a_workload()
SETTINGS = HintSettings(terms=2, preferred_nodes=3, preferred_share=1.0, avoided_share=0.25, min_change=0.0)


class HintedCluster:
    """Nodes of 10 cores, node-0 on; messages are received by the scoring state and the table."""

    def __init__(
        self, policy: ScoringPolicy | None = None, settings: HintSettings = SETTINGS, load: LoadSettings | None = None
    ) -> None:
        scorer = ScoringSettings(policy=policy or WaterLevel(), hints=settings)
        self.scoring = ScoringState(load or LoadSettings(), scorer)
        self.table = HintTable(self.scoring, settings)
        self._sequence = 1

    def node(self, name: str, cpu: float | None = 1.0, pods: Sequence[PlacedPod] = (), **fields: object) -> None:
        """Receive the placement and the utilization of a node."""
        defaults = {"labels": {HOSTNAME: f"host-{name}"}, "pods": list(pods)}
        self.place(a_placement(name, **(defaults | fields)))  # type: ignore[arg-type]
        self._sequence += 1
        self.scoring.nodes.on_utilization(a_node_utilization(name, cpu, sequence=self._sequence), NOW)

    def place(self, message: NodePlacement, now: float = NOW) -> None:
        """Receive a placement."""
        self._sequence += 1
        message = msgspec.structs.replace(message, sequence=self._sequence)
        placed = self.scoring.on_placement(message, now) or []
        self.table.on_placement(message, [each.pod for each in placed], now)

    def measured(self, workload: Workload = WEB, cpu: float = 1.0) -> None:
        """Receive the usage of a workload."""
        self._sequence += 1
        self.scoring.nodes.on_workload(a_workload_utilization(workload, cpu, sequence=self._sequence), NOW)

    def update(self, now: float = NOW) -> dict[Workload, WorkloadHint]:
        """Compute and return all hints."""
        self._sequence += 1
        nodes = max(1, len(self.scoring.nodes))
        self.scoring.on_cycle(a_cycle(nodes, sequence=self._sequence, queried_at=now), now)
        for _ in self.table.update(now):
            pass
        return self.table.hints(now)


def a_pod_of(workload: Workload, name: str, placed_at: float = NOW - 90_000) -> PlacedPod:
    return a_placed_pod(name, workload=workload, placed_at=placed_at, running_since=placed_at)


def preferred(hint: WorkloadHint) -> list[str]:
    """The preferred hostnames without their prefix, the highest weight first."""
    return [name.removeprefix("host-") for name, weight in hint.weights.most_common() if weight > 0]


def avoided(hint: WorkloadHint) -> list[str]:
    """The same of the avoided ones."""
    return [] if hint.avoid is None else [name.removeprefix("host-") for name in hint.avoid.hostnames]
