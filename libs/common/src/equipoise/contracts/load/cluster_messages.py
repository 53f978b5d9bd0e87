"""The latest message about each node, workload and shard of the collector. Older messages are dropped."""

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.collection_cycles import CollectionCycles
from equipoise.contracts.load.latest import (
    SILENCE,
    supersedes_measurement,
    supersedes_placement,
    supersedes_utilization,
)
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.contracts.recent import is_recent


class ClusterMessages:
    """The latest messages. Each `on_` method stores a message and returns True, or drops an outdated message and
    returns False. `now`: Unix seconds."""

    def __init__(self) -> None:
        self.placements: dict[str, NodePlacement] = {}
        """The placements of the existing nodes, by name."""

        self.utilizations: dict[str, NodeUtilization] = {}
        """The utilization of nodes, by name. It may arrive before the placement of a new node, so readers must compare
        UIDs."""

        self.workloads: dict[Workload, WorkloadUtilization] = {}
        self.cycles = CollectionCycles()

        self._removals: dict[str, tuple[NodePlacement, float]] = {}
        """Messages about removed nodes, by name, with the time of their arrival. They are kept for `SILENCE` seconds,
        so that a late message does not add the node again."""

    def on_placement(self, message: NodePlacement, now: float) -> bool:
        name = message.node
        latest = self.placements.get(name) or self._removal(name, now)
        if not supersedes_placement(message, latest, now):
            return False
        self._removals.pop(name, None)
        if not message.removed:
            self.placements[name] = message
            return True
        self.placements.pop(name, None)
        utilization = self.utilizations.get(name)
        if utilization is not None and utilization.uid == message.uid:
            del self.utilizations[name]
        self._removals[name] = message, now
        # Removals are in the order of their arrival, so only the first ones are checked: thousands may arrive at once.
        while not is_recent(next(iter(self._removals.values()))[1], now, SILENCE):
            del self._removals[next(iter(self._removals))]
        return True

    def on_utilization(self, message: NodeUtilization, now: float) -> bool:
        name = message.node
        if name in self._removals and self._removals[name][0].uid == message.uid:
            return False
        if not supersedes_utilization(message, self.utilizations.get(name), now):
            return False
        self.utilizations[name] = message
        return True

    def on_workload(self, message: WorkloadUtilization, _: float) -> bool:
        if not supersedes_measurement(message, self.workloads.get(message.workload)):
            return False
        self.workloads[message.workload] = message
        return True

    def drop_workloads(self, before: float) -> None:
        """Drops the workloads without a message since `before`."""
        for workload in [key for key, message in self.workloads.items() if message.queried_at <= before]:
            del self.workloads[workload]

    def on_cycle(self, message: UtilizationCycle, now: float) -> bool:
        return self.cycles.on_cycle(message, now)

    def was_removed(self, node: str, now: float) -> bool:
        """Whether the node was removed, and not created again, within the last `SILENCE` seconds."""
        return self._removal(node, now) is not None

    def _removal(self, name: str, now: float) -> NodePlacement | None:
        removal, arrived_at = self._removals.get(name, (None, 0.0))
        return removal if is_recent(arrived_at, now, SILENCE) else None
