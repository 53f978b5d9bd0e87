"""The deletion costs that the annotator writes before a scale-down, in a replay. The decisions are its code."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from equipoise.annotator.decisions.deletion_order import First, deletion_order
from equipoise.annotator.decisions.scale_down import HOUR, ScaleDown, expected_scale_down
from equipoise.annotator.state.scale_down_outlook import PlacedPods, PodsOfNode, node_outlook
from equipoise.contracts.eviction.deletion_cost import RANKS, cost_of_rank
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.descheduler.state.lazy import LazyMapping
from equipoise.lab.model.replicas.autoscaling import pods_by_hour
from equipoise.lab.model.trace import Array, Trace
from equipoise.lab.simulated.cluster import SimulatedCluster


@dataclass(kw_only=True)
class SimulatedDeletionCosts:
    """Receives the messages of the collector, and writes the costs when it is called."""

    first: First
    trace: Trace
    """A trace with `replicas_by_step`."""

    numbers: Mapping[Workload, int]
    """The index in the trace of each workload."""

    window: str
    """The shortest window."""

    kubernetes: SimulatedCluster
    origin: float
    """Unix time of the start of the trace."""

    _placed: PlacedPods = field(default_factory=PlacedPods, init=False)
    _utilizations: dict[str, NodeUtilization] = field(default_factory=dict, init=False)

    def on_placement(self, message: NodePlacement, now: float) -> None:
        self._placed.on_placement(msgspec.convert(message, PodsOfNode, from_attributes=True), self.origin + now)

    def on_utilization(self, message: NodeUtilization) -> None:
        self._utilizations[message.node] = message

    def write(self, days: Mapping[Workload, Array], now: float) -> None:
        """Writes the costs for the scale-downs of the next hour.

        `days`: the profile of a pod of each workload, resources × hours. `now`: seconds of the trace, less than `LEAD`
        before a full hour.
        """
        expected = self._expected(now)
        profiles = LazyMapping(days, lambda workload: _message(workload, days[workload]))
        for workload, nodes in self._placed.pods_of(expected).items():
            scale_down = expected[workload]
            outlook = {
                name: node_outlook(
                    self._placed.nodes[name],
                    [pod.uid for pod in pods],
                    workload,
                    self._utilizations.get(name),
                    self.window,
                    profiles,
                    scale_down,
                )
                for name, pods in nodes.items()
            }
            constraints = self.kubernetes.template(self.numbers[workload]).spec.topology_spread_constraints
            order = deletion_order(outlook, constraints, first=self.first, count=scale_down.pods)
            costs = {uid: int(cost_of_rank(rank)) for rank, group in enumerate(order[:RANKS]) for uid in group}
            for pods in nodes.values():
                for pod in pods:
                    self.kubernetes.pods[pod.uid].deletion_cost = costs.get(pod.uid, 0)

    def _expected(self, now: float) -> dict[Workload, ScaleDown]:
        """The expected scale-downs, from the day until the last full hour."""
        assert self.trace.replicas_by_step is not None
        end = now - now % HOUR
        hours = pods_by_hour(self.trace.replicas_by_step, self.trace.seconds_per_step, end)
        first_slot = int((self.origin + end) // HOUR) % SLOTS
        by_hour = np.roll(hours, first_slot, axis=1).tolist()
        return {
            workload: found
            for workload, number in self.numbers.items()
            if (found := expected_scale_down(by_hour[number], self.kubernetes.replicas(number), self.origin + now))
            is not None
        }


def _message(workload: Workload, day: Array) -> WorkloadUtilization:
    """A message of which only the profile is read."""
    profile = dict(zip(RESOURCES, day.tolist(), strict=True))
    return WorkloadUtilization(
        workload=workload, replicas=1, sampled_at=0.0, queried_at=0.0, windows={}, profile=profile, epoch=1, sequence=1
    )
