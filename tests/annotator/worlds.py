"""Annotators with bus, API server and clock of memory, and what a test does to them."""

import asyncio
from typing import Any

from builders import NOW, a_node_utilization
from prometheus_client import CollectorRegistry

from equipoise.annotator.service import Annotator
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus.subjects import node_utilization, utilization_cycle
from equipoise.contracts.configuration.moves import MovesLevel, MovesSettings
from equipoise.contracts.configuration.settings import Placement
from equipoise.contracts.kubernetes.annotations import read_node_load
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import NODES
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

SETTINGS = AnnotatorSettings(writes_per_second=10)
ROUND = SETTINGS.membership.renew_period


class World:
    """Some annotators on one bus and one API server."""

    def __init__(self) -> None:
        self.clock = ManualClock(now=NOW)
        self.bus = MemoryBus(self.clock)
        self.kube = MemoryKube(self.clock)
        self.sequence = 0
        self.running: dict[str, asyncio.Task[None]] = {}
        self.health: dict[str, Health] = {}
        self.metrics: dict[str, CollectorRegistry] = {}

    async def begin(
        self,
        identity: str = "annotator-1",
        settings: AnnotatorSettings = SETTINGS,
        *,
        hints: bool = False,
        level: MovesLevel | None = None,
    ) -> None:
        metrics = self.metrics[identity] = CollectorRegistry()
        self.health[identity] = Health(configuration_hash="", metrics=metrics)
        shared = Shared(placement=Placement(hints=hints), moves=MovesSettings(level=level))
        runtime = Runtime(
            configuration=Configuration(shared=shared, own=settings, hash=""),
            message_bus=self.bus,
            clock=self.clock,
            health=self.health[identity],
            metrics=metrics,
            identity=identity,
            api_server=self.kube,
        )
        annotator = Annotator(runtime)
        await annotator.attach()
        self.running[identity] = asyncio.create_task(annotator.run())
        await self.clock.advance(0)

    async def end(self, identity: str) -> None:
        task = self.running.pop(identity)
        task.cancel()
        await asyncio.wait([task])

    def add_node(self, name: str = "node-a", uid: str = "") -> None:
        self.kube.put(NODES, Node(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}")))

    async def measured(self, name: str = "node-a", cpu: float | None = 1.0, **fields: Any) -> None:
        """The collector publishes a node's utilization, sampled just now."""
        self.sequence += 1
        now = self.clock.now()
        values = {"sampled_at": now, "queried_at": now, "sequence": self.sequence} | fields
        await self.bus.publish(node_utilization(name), a_node_utilization(name, cpu=cpu, **values))
        await self.clock.advance(0)

    async def round_ended(self, *, skew: float, shard: str = "all") -> None:
        """The collector publishes a cycle with this skew of the source's clock."""
        self.sequence += 1
        cycle = UtilizationCycle(
            shard=shard, cycle=1, expected=1, fresh=1, queried_at=self.clock.now(), skew=skew, sequence=self.sequence
        )
        await self.bus.publish(utilization_cycle(shard), cycle)
        await self.clock.advance(0)

    def written_by(self, identity: str) -> int:
        """How many nodes this replica has written, by its metrics."""
        labels = {"kind": "Node", "result": "written"}
        return int(self.metrics[identity].get_sample_value("equipoise_annotator_writes_total", labels) or 0)

    def waiting(self, identity: str = "annotator-1") -> tuple[float | None, float | None]:
        """How many objects wait to be read, and to be written."""
        names = ("equipoise_annotator_objects_unread", "equipoise_annotator_writes_pending")
        unread, unwritten = (self.metrics[identity].get_sample_value(name) for name in names)
        return unread, unwritten

    def load_on(self, name: str = "node-a") -> float | None:
        """The cpu load of the shortest window in the node's annotation."""
        node = next(node for node in self.kube.stored(NODES) if node.metadata.name == name)
        load, _ = read_node_load(node.metadata.annotations)
        return None if load is None else load.windows["5m"].mean.cpu

    @property
    def writes(self) -> int:
        return sum(call.verb == "annotate" for call in self.kube.calls)

    def writes_on(self, name: str) -> int:
        return sum(call.verb == "annotate" and call.name == name for call in self.kube.calls)
