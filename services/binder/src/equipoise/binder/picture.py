"""What the bus says of the fleet: each node's last placement and utilization, each shard's last round."""

from collections.abc import Iterable

import msgspec

from equipoise.binder.targets import FleetNode, fleet_node
from equipoise.contracts.messages import NodePlacement, NodeUtilization, UtilizationCycle


class Picture:
    """The newest message of each kind; one with a lower epoch or sequence than the last is dropped."""

    def __init__(self) -> None:
        self._placed: dict[str, FleetNode] = {}
        self._utilization: dict[str, NodeUtilization] = {}
        self._cycles: dict[str, UtilizationCycle] = {}

    def place(self, placement: NodePlacement) -> None:
        before = self._placed.get(placement.node)
        if before is not None and _order(placement) < _order(before.placement):
            return
        if placement.removed:
            self._placed.pop(placement.node, None)
            self._utilization.pop(placement.node, None)
        else:
            self._placed[placement.node] = fleet_node(placement)

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
        """Prometheus' clock minus the collectors', in seconds: the largest of all shards."""
        return max((cycle.skew for cycle in self._cycles.values()), key=abs, default=0.0)

    @property
    def nodes(self) -> list[FleetNode]:
        return [
            msgspec.structs.replace(node, utilization=self._utilization.get(name))
            for name, node in self._placed.items()
        ]

    def node(self, name: str) -> FleetNode | None:
        return self._placed.get(name)

    @property
    def pods(self) -> int:
        """Pods on all nodes."""
        return sum(len(node.placement.pods) for node in self._placed.values())


def _order(message: NodePlacement | NodeUtilization | UtilizationCycle) -> tuple[int, int]:
    return message.epoch, message.sequence
