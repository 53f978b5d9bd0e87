"""The latest message about every node, workload and shard. Older ones that arrive late are dropped."""

import math
from collections.abc import Collection
from typing import TypeVar

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.latest import Measured, supersedes, supersedes_measurement
from equipoise.contracts.messages.health import REAL, Heartbeat
from equipoise.contracts.messages.placement import NodePlacement, PlacedHint
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization

HEARTBEAT_TTL = 30.0
"""Seconds for which a heartbeat counts: three of its periods."""

Key = TypeVar("Key")
M = TypeVar("M", bound=Measured)


def _keep_latest(messages: dict[Key, M], key: Key, message: M) -> None:
    if supersedes_measurement(message, messages.get(key)):
        messages[key] = message


class LatestMessages:
    """Of the collector, and the heartbeats of the binders."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeUtilization] = {}
        self.workloads: dict[Workload, WorkloadUtilization] = {}
        self.placements: dict[str, NodePlacement] = {}
        self.cycles: dict[str, UtilizationCycle] = {}
        self._binders: dict[str, tuple[float, str]] = {}

    def on_node(self, message: NodeUtilization) -> None:
        _keep_latest(self.nodes, message.node, message)

    def on_placement(self, message: NodePlacement, *, begin: float) -> None:
        """Keeps only the pods that started after `begin`, or left.

        Every window contains the others wholly; their means need no correction.
        """
        if not supersedes(message, self.placements.get(message.node)):
            return
        recent = [pod for pod in message.pods if (pod.running_since or math.inf) > begin]
        self.placements[message.node] = msgspec.structs.replace(message, pods=recent, labels={}, taints=[])

    def hint(self, node: str, namespace: str, pod: str) -> PlacedHint | None:
        """With which this pod on the node was created; None: unknown."""
        pods = self.placements[node].pods if node in self.placements else []
        return next((each.hint for each in pods if (each.namespace, each.name) == (namespace, pod)), None)

    def on_workload(self, message: WorkloadUtilization) -> None:
        _keep_latest(self.workloads, message.workload, message)

    def on_cycle(self, message: UtilizationCycle) -> None:
        _keep_latest(self.cycles, message.shard, message)

    def on_heartbeat(self, message: Heartbeat, now: float) -> None:
        """Keep a heartbeat of a binder. `now`: our monotonic clock."""
        self._binders = {id: entry for id, entry in self._binders.items() if entry[0] > now - HEARTBEAT_TTL}
        if message.evictions:
            self._binders[message.id] = (now, message.evictions)

    def evictions(self, now: float) -> str:
        """What binders do with intents. If they differ, real evictions win. "" without a heartbeat of any binder.

        `now`: of our monotonic clock.
        """
        modes = {mode for at, mode in self._binders.values() if at > now - HEARTBEAT_TTL}
        return min(modes, key=lambda mode: (mode != REAL, mode), default="")

    def prune(self, *, nodes: Collection[str], before: float) -> None:
        """Drops nodes that are not among `nodes`, and workloads and shards without a message since `before`."""
        self.nodes = {name: message for name, message in self.nodes.items() if name in nodes}
        self.placements = {name: message for name, message in self.placements.items() if name in nodes}
        self.workloads = {
            workload: message for workload, message in self.workloads.items() if message.queried_at > before
        }
        self.cycles = {shard: message for shard, message in self.cycles.items() if message.queried_at > before}
