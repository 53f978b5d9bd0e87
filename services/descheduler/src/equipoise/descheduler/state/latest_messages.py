"""The latest messages of the collector and the binders, reduced to what the descheduler needs."""

import math
from collections.abc import Collection, Iterator

import msgspec

from equipoise.contracts.load.cluster_messages import ClusterMessages
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME, REAL, Heartbeat
from equipoise.contracts.messages.placement import NodePlacement, PlacedHint


def with_recent_pods(placement: NodePlacement, begin: float) -> NodePlacement:
    """The placement with only the pods that left, or that started after `begin`. The other
    pods ran throughout every window, so its mean needs no correction for them."""
    recent = [pod for pod in placement.pods if (pod.running_since or math.inf) > begin]
    return msgspec.structs.replace(placement, pods=recent, labels={}, taints=[])


class LatestMessages(ClusterMessages):
    """The latest messages. Placements have only the pods that `with_recent_pods` keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._binders: dict[str, tuple[float, Heartbeat]] = {}
        """The last heartbeat of each binder, with the time of its receipt (monotonic clock)."""

    def hint(self, node: str, namespace: str, pod: str) -> PlacedHint | None:
        """The hint with which this pod on the node was created; None if it is unknown."""
        pods = self.placements[node].pods if node in self.placements else []
        return next((placed.hint for placed in pods if (placed.namespace, placed.name) == (namespace, pod)), None)

    def on_heartbeat(self, message: Heartbeat, now: float) -> None:
        """Keeps a heartbeat of a binder that has read the ledger. `now`: our monotonic clock."""
        if message.evictions:
            self._binders = {id: entry for id, entry in self._binders.items() if entry[0] > now - HEARTBEAT_LIFETIME}
            self._binders[message.id] = (now, message)

    def evictions(self, now: float) -> str:
        """What binders do with intents. If they differ, real evictions win. "" without a heartbeat of any binder.

        `now`: the time of our monotonic clock.
        """
        modes = {heartbeat.evictions for heartbeat in self._alive(now)}
        return min(modes, key=lambda mode: (mode != REAL, mode), default="")

    @property
    def surge_pods(self) -> frozenset[str] | None:
        """The UIDs of the pods that are moved without a gap; None if no binder has ever reported.

        While no binder reports, the last known ones remain: their moves are open.
        """
        if not self._binders:
            return None
        return frozenset(uid for _, heartbeat in self._binders.values() for uid in heartbeat.surge_pods)

    def campaign_permits(self, now: float) -> bool:
        """Whether a campaign permits moves, as a binder has read it. `now`: the time of our monotonic clock."""
        return any(heartbeat.campaign_permits for heartbeat in self._alive(now))

    def _alive(self, now: float) -> Iterator[Heartbeat]:
        return (heartbeat for at, heartbeat in self._binders.values() if at > now - HEARTBEAT_LIFETIME)

    def prune(self, *, nodes: Collection[str], before: float) -> None:
        """Drops nodes that are not among `nodes`, and workloads without a message since `before`."""
        self.utilizations = {name: message for name, message in self.utilizations.items() if name in nodes}
        self.placements = {name: message for name, message in self.placements.items() if name in nodes}
        self.drop_workloads(before)
