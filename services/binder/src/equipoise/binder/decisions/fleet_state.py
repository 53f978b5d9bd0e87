"""What the bus says of the fleet: each node's last placement and utilization, each shard's last round."""

from collections.abc import Iterable

import msgspec

from equipoise.binder.decisions.destination_check import FleetNode, fleet_node
from equipoise.binder.decisions.preemptions import Preempted, preempted_on
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle

_ENDING = 60.0
"""Seconds that a pod may take to end: in the last ones its successor may be there already, and both are one."""


class Picture:
    """The newest message of each kind; one with a lower epoch or sequence than the last is dropped."""

    def __init__(self) -> None:
        self._placed: dict[str, FleetNode] = {}
        self._utilization: dict[str, NodeUtilization] = {}
        self._cycles: dict[str, UtilizationCycle] = {}
        self._preempted: dict[str, tuple[Preempted, ...]] = {}

    def place(self, placement: NodePlacement) -> None:
        before = self._placed.get(placement.node)
        if before is not None and _order(placement) < _order(before.placement):
            return
        if placement.removed:
            self._placed.pop(placement.node, None)
            self._preempted.pop(placement.node, None)
            self._utilization.pop(placement.node, None)
        else:
            self._placed[placement.node] = fleet_node(placement)
            self._preempted[placement.node] = preempted_on(placement)

    def measure(self, utilization: NodeUtilization) -> None:
        before = self._utilization.get(utilization.node)
        if before is None or _order(utilization) >= _order(before):
            self._utilization[utilization.node] = utilization

    def end_round(self, cycle: UtilizationCycle) -> None:
        before = self._cycles.get(cycle.shard)
        if before is None or _order(cycle) >= _order(before):
            self._cycles[cycle.shard] = cycle

    @property
    def cycles(self) -> Iterable[UtilizationCycle]:
        return self._cycles.values()

    @property
    def skew(self) -> float:
        """Prometheus' clock minus the collectors', in seconds."""
        return skew_of(self._cycles.values())

    @property
    def nodes(self) -> list[FleetNode]:
        return [
            msgspec.structs.replace(node, utilization=self._utilization.get(name))
            for name, node in self._placed.items()
        ]

    def node(self, name: str) -> FleetNode | None:
        return self._placed.get(name)

    def pods_of(self, workload: Workload) -> int:
        """How many pods of a workload are on nodes, those that are on their way out left aside."""
        return sum(
            pod.workload == workload and not pod.terminating
            for node in self._placed.values()
            for pod in node.placement.pods
        )

    def pods_before(self, workload: Workload, at: float) -> tuple[int, int]:
        """How many there were at that moment, at least and at most: a pod that was about to end may have counted.

        The moment must be within what placements remember of gone pods.
        """
        placements = [node.placement for node in self._placed.values()]
        here = sum(
            pod.workload == workload and pod.placed_at <= at and not pod.terminating
            for placement in placements
            for pod in placement.pods
        )
        gone = [
            pod.gone_at
            for placement in placements
            for pod in placement.gone
            if pod.workload == workload and pod.running_since <= at < pod.gone_at
        ]
        return here + sum(gone_at > at + _ENDING for gone_at in gone), here + len(gone)

    @property
    def ready(self) -> tuple[int, int]:
        """How many nodes are Ready, and how many there are."""
        return sum(node.placement.ready for node in self._placed.values()), len(self._placed)

    @property
    def preempted(self) -> Iterable[Preempted]:
        """Pods that kube-scheduler preempted of late, on every node."""
        return (pod for pods in self._preempted.values() for pod in pods)

    @property
    def pods(self) -> int:
        """Pods on all nodes."""
        return sum(len(node.placement.pods) for node in self._placed.values())


def _order(message: NodePlacement | NodeUtilization | UtilizationCycle) -> tuple[int, int]:
    return message.epoch, message.sequence
