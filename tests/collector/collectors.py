"""A collector on an in-memory bus, API server and metric source, with a manual clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from builders import GIB, NOW
from collector.sources_in_memory import FakeSource, Usage
from prometheus_client import CollectorRegistry

from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings, ProfileSettings
from equipoise.collector.sources import PromqlSource
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec, PodStatus
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.kubernetes.client import NODES, PODS
from equipoise.runtime.process.unreadable import UnreadableThings
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

NODE_USAGES = "equipoise.utilization.node.*"


PLACEMENTS = "equipoise.placement.node.*"


NO_PROFILE = ProfileSettings(enabled=False)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def a_node(name: str, *, uid: str = "", age: float = 90_000, ready: bool = True) -> Node:
    sizes = {"cpu": "10", "memory": "64Gi", "pods": "110"}
    condition = Condition(type="Ready", status="True" if ready else "False", last_transition_time=at(NOW - age))
    return Node(
        metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", creation_timestamp=at(NOW - age)),
        status=NodeStatus(allocatable=sizes, capacity=sizes, conditions=[condition]),
    )


def a_pod(name: str, node: str, *, uid: str = "", age: float = 90_000) -> Pod:
    conditions = [
        Condition(type=kind, status="True", last_transition_time=at(NOW - age)) for kind in ("PodScheduled", "Ready")
    ]
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", uid="u", controller=True)
    return Pod(
        metadata=ObjectMeta(name=name, namespace="shop", uid=uid or f"uid-{name}", owner_references=[owner]),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase="Running", conditions=conditions, start_time=at(NOW - age)),
    )


@dataclass
class FakeHealth:
    leading: bool | None = None
    shard: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    warm: bool = False
    unreadable: UnreadableThings = field(default_factory=UnreadableThings)

    def set_problem(self, key: str, text: str | None) -> None:
        if text is None:
            self.problems.pop(key, None)
        else:
            self.problems[key] = text

    def warmed_up(self) -> None:
        self.warm = True


@dataclass
class World:
    clock: ManualClock
    bus: MemoryBus
    kube: MemoryKube
    source: FakeSource
    health: FakeHealth

    async def advance(self, seconds: float) -> None:
        """Time passes, with bookmarks of the watches."""
        while seconds > 0:
            await self.clock.advance(min(30, seconds))
            self.kube.bookmark()
            seconds -= 30
        await self.bus.settled()

    def nodes(self) -> dict[str, NodeUtilization]:
        """The last message of each node."""
        return {message.node: message for message in self.bus.published(NodeUtilization, NODE_USAGES)}

    def placements(self) -> dict[str, NodePlacement]:
        return {message.node: message for message in self.bus.published(NodePlacement, PLACEMENTS)}

    def cycle(self) -> UtilizationCycle:
        return self.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[-1]

    def workloads(self) -> dict[str, WorkloadUtilization]:
        published = self.bus.published(WorkloadUtilization, "equipoise.utilization.workload.>")
        return {message.workload.name: message for message in published}


def a_world() -> World:
    clock = ManualClock(NOW)
    world = World(clock, MemoryBus(clock), MemoryKube(clock), FakeSource(clock), FakeHealth())
    for name in ("a", "b"):
        world.kube.put(NODES, a_node(name))
        world.source.nodes[name] = Usage()
    for pod, node in (("db-0", "a"), ("db-1", "b")):
        world.kube.put(PODS, a_pod(pod, node))
        world.source.pods["shop", pod, node] = Usage(cpu=0.5, memory=GIB)
    return world


@asynccontextmanager
async def collecting(
    world: World,
    settings: CollectorSettings,
    identity: str = "one",
    discovery: str = "",
    load: LoadSettings | None = None,
    promql: PromqlSource | None = None,
) -> AsyncIterator[Collector]:
    collector = Collector(
        settings=settings, load=load or LoadSettings(), namespace="equipoise-system", identity=identity,
        source=world.source, promql=promql, kube=world.kube, bus=world.bus, clock=world.clock, health=world.health,
        metrics=CollectorRegistry(), discovery=discovery,
    )  # fmt: skip
    await collector.attach()
    task = asyncio.create_task(collector.run())
    try:
        yield collector
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
