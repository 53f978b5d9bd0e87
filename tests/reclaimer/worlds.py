"""Reclaimers with bus, API server and clock of memory, and a collector that publishes one node."""

import asyncio
from typing import Any

from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus.subjects import node_placement, node_utilization
from equipoise.contracts.colocation.bands import OFFERED_BANDS, OFFERED_NAMES, amounts_of_band
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.messages.placement import NodeColocation, PlacedPod
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.values.resources import Resources
from equipoise.reclaimer.service import Reclaimer
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.runtime.bus import Delivery
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import LEASES, NODES
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

INTERVAL = 60.0
NODE = "node-a"
NAMES = OFFERED_NAMES


def a_batch_pod(name: str = "batch-1", cpu: float = 1.0, memory: float = GIB, **fields: Any) -> PlacedPod:
    band = Resources(cpu=cpu, memory=memory)
    fields = {"priority_class": "batch", "workload": None, "requests": Resources(), "reclaimed_requests": band} | fields
    return a_placed_pod(name, **fields)


class World:
    """A node of 10 cores and 64 GiB."""

    def __init__(self) -> None:
        self.clock = ManualClock(now=NOW)
        self.bus = MemoryBus(self.clock)
        self.kube = MemoryKube(self.clock)
        self.sequence = 0
        self.received: list[ReclaimedNode] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.metrics = CollectorRegistry()
        self.health = Health(configuration_hash="", metrics=self.metrics)
        amounts = {"cpu": "10", "memory": "64Gi"}
        status = NodeStatus(capacity=amounts, allocatable=amounts)
        self.kube.put(NODES, Node(metadata=ObjectMeta(name=NODE, uid=f"uid-{NODE}"), status=status))

    async def begin(self, **settings: Any) -> None:
        """A reclaimer that leads."""
        self.metrics = CollectorRegistry()
        self.health = Health(configuration_hash="", metrics=self.metrics)
        reclaimer = Reclaimer(
            Runtime(
                configuration=Configuration(
                    shared=Shared(), own=ReclaimerSettings(**{"enabled": True} | settings), hash=""
                ),
                message_bus=self.bus,
                clock=self.clock,
                health=self.health,
                metrics=self.metrics,
                identity=f"reclaimer-{len(self.tasks)}",
                api_server=self.kube,
            )
        )
        if not self.tasks:
            await self.bus.subscribe("equipoise.reclaim.node.*", ReclaimedNode, self._on_reclaimed)
        await reclaimer.attach()
        self.tasks.append(asyncio.create_task(reclaimer.run()))
        await self.clock.advance(0)

    async def end(self) -> None:
        self.tasks[-1].cancel()
        await asyncio.wait([self.tasks[-1]])
        for lease in self.kube.stored(LEASES):
            self.kube.remove(LEASES, lease.metadata.name, lease.metadata.namespace)

    async def _on_reclaimed(self, delivery: Delivery[ReclaimedNode]) -> None:
        self.received.append(delivery.message)

    async def measured(self, cpu: float | None = 2.0, memory: float | None = 8 * GIB, **fields: Any) -> None:
        """The collector publishes the usage of the node, all of it outside pods."""
        self.sequence += 1
        now = self.clock.now()
        values = {"sampled_at": now, "queried_at": now, "sequence": self.sequence} | fields
        message = a_node_utilization(NODE, cpu=cpu, memory=memory, system=Resources(cpu=cpu, memory=memory), **values)
        await self.bus.publish(node_utilization(NODE), message)
        await self.clock.advance(0)

    async def placed(self, *pods: PlacedPod, **fields: Any) -> None:
        """The collector publishes the node with these pods, and what its status contains."""
        self.sequence += 1
        status = self.kube.stored(NODES)[0].status if self.kube.stored(NODES) else NodeStatus()
        found = {name: parse_quantity(status.allocatable[name]) for name in NAMES if name in status.allocatable}
        amounts = {band: each for band in OFFERED_BANDS if (each := amounts_of_band(found, band)) != Resources()}
        values = {
            "sequence": self.sequence,
            "colocation": NodeColocation(amounts=amounts, capacity_amounts=amounts),
        } | fields
        await self.bus.publish(node_placement(NODE), a_placement(NODE, list(pods), **values))
        await self.clock.advance(0)

    async def rounds(self, count: int, *pods: PlacedPod, cpu: float | None = 2.0, **fields: Any) -> None:
        """This many evaluations, each after the collector has published."""
        for _ in range(count):
            await self.placed(*pods)
            await self.measured(cpu, **fields)
            await self.clock.advance(INTERVAL)
        await self.placed(*pods)

    @property
    def status(self) -> dict[str, int]:
        """The amounts of the bands in the node's status."""
        allocatable = self.kube.stored(NODES)[0].status.allocatable
        assert allocatable == self.kube.stored(NODES)[0].status.capacity
        return {name: round(parse_quantity(allocatable[name])) for name in NAMES if name in allocatable}

    @property
    def writes(self) -> int:
        return sum(call.verb == "update_status" for call in self.kube.calls)
