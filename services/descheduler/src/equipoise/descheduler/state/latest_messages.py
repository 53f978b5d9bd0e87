"""The last word of the bus on every node, workload and shard. A message older than the last word is dropped."""

from collections.abc import Collection, Mapping
from typing import TypeVar

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.latest import Measured, supersedes_measurement
from equipoise.contracts.messages.health import REAL, Heartbeat
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization

HEARTBEAT_LIFE = 30.0
"""Seconds for which a heartbeat counts: three of its periods."""

Key = TypeVar("Key")
M = TypeVar("M", bound=Measured)


def _take(words: dict[Key, M], key: Key, message: M) -> None:
    if supersedes_measurement(message, words.get(key)):
        words[key] = message


class Heard:
    """What the collector told, and how binders fare."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeUtilization] = {}
        self._workloads: dict[Workload, WorkloadUtilization] = {}
        self._cycles: dict[str, UtilizationCycle] = {}
        self._binders: dict[str, tuple[float, str]] = {}

    @property
    def nodes(self) -> Mapping[str, NodeUtilization]:
        return self._nodes

    @property
    def workloads(self) -> Mapping[Workload, WorkloadUtilization]:
        return self._workloads

    @property
    def cycles(self) -> Collection[UtilizationCycle]:
        return self._cycles.values()

    def node(self, message: NodeUtilization) -> None:
        _take(self._nodes, message.node, message)

    def workload(self, message: WorkloadUtilization) -> None:
        _take(self._workloads, message.workload, message)

    def cycle(self, message: UtilizationCycle) -> None:
        _take(self._cycles, message.shard, message)

    def heartbeat(self, message: Heartbeat, now: float) -> None:
        """Of a binder: the last word of each is remembered, by our clock."""
        self._binders = {id: told for id, told in self._binders.items() if told[0] > now - HEARTBEAT_LIFE}
        if message.evictions:
            self._binders[message.id] = (now, message.evictions)

    def evictions(self, now: float) -> str:
        """What binders do with intents at present; where they differ, real evictions first. "" when none is heard."""
        words = {word for at, word in self._binders.values() if at > now - HEARTBEAT_LIFE}
        return min(words, key=lambda word: (word != REAL, word), default="")

    def pod_usage(self, node: str, uid: str) -> Resources:
        """What a pod was measured to use last; unknown when it never was."""
        heard = self._nodes.get(node)
        return heard.pods.get(uid, Resources()) if heard is not None else Resources()

    def forget(self, *, nodes: Collection[str], before: float) -> None:
        """Drops nodes that are not among `nodes`, and workloads and shards silent since `before`."""
        self._nodes = {name: message for name, message in self._nodes.items() if name in nodes}
        self._workloads = {
            workload: message for workload, message in self._workloads.items() if message.queried_at > before
        }
        self._cycles = {shard: message for shard, message in self._cycles.items() if message.queried_at > before}
