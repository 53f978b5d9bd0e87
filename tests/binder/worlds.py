"""A small cluster with everything a binder reads, in memory."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, an_intent
from kube_objects import a_deployment, a_pod, a_replica_set
from prometheus_client import CollectorRegistry

from equipoise.binder.decisions.limits import (
    EvictionRate,
    EvictionsPerCluster,
    EvictionsPerNamespace,
    EvictionsPerWorkload,
    Limits,
    MigratingPerNode,
    UnusualRate,
)
from equipoise.binder.service import Binder
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import KEY, NAME, create_ledger
from equipoise.binder.state.ledger import Ledger
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.moves import MovesLevel, MovesSettings
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Lease, LeaseSpec, Namespace
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget, PodDisruptionBudgetSpec
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.bus import Bus, Delivery
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    Kube,
    Resource,
)
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.evictions import RecordedEviction
from equipoise.testbed.memory.kube import MemoryKube

OWN = "equipoise-system"
LEADER = LeaseEpoch(lease_uid="lease", transitions=1, holder="descheduler-1")

GENEROUS = Limits(
    migrating_per_node=MigratingPerNode(max="unlimited"),
    evictions_per_workload=EvictionsPerWorkload(max="unlimited"),
    evictions_per_namespace=EvictionsPerNamespace(max="unlimited"),
    evictions_per_cluster=EvictionsPerCluster(max="unlimited", max_count="unlimited"),
    unusual_rate=UnusualRate(max="unlimited"),
    rate=EvictionRate(max="unlimited"),
    startup_grace_period=Duration(0),
)
"""Only what protects a workload's own replicas."""


def a_cycle(**fields: Any) -> UtilizationCycle:
    defaults: dict[str, Any] = {
        "shard": "all",
        "cycle": 1,
        "expected": 3,
        "fresh": 3,
        "queried_at": NOW - 1,
        "epoch": 1,
        "sequence": 1,
    }
    return UtilizationCycle(**(defaults | fields))


class World:
    """Three nodes, two Deployments of ten pods on node-a; node-a is hot, the others are idle."""

    def __init__(self) -> None:
        self.clock = ManualClock(now=NOW)
        self.kube = MemoryKube(self.clock)
        self.bus = MemoryBus(self.clock)
        self.outcomes: list[EvictionOutcome] = []
        self._running: list[asyncio.Task[None]] = []

    async def populate(self, *, lost: Collection[str] = ()) -> None:
        """`lost`: subjects of messages that the bus does not have, as after a restart without a volume."""
        for namespace in ("shop", OWN):
            self.kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=namespace)))
        self.kube.put(
            LEASES,
            Lease(
                metadata=ObjectMeta(name="equipoise-descheduler", namespace=OWN, uid=LEADER.lease_uid),
                spec=LeaseSpec(holder_identity=LEADER.holder, lease_transitions=LEADER.transitions),
            ),
        )
        for node in ("node-a", "node-b", "node-c"):
            self.kube.put(NODES, Node(metadata=ObjectMeta(name=node)))
        for owner in ("web", "db"):
            self.kube.put(DEPLOYMENTS, a_deployment(owner))
            self.kube.put(REPLICA_SETS, a_replica_set(owner))
            for number in range(1, 11):
                self.kube.put(PODS, a_pod(f"{owner}-{number}", owner=owner))
        await create_ledger(self.kube, OWN, self.clock)
        # As after the first start of a binder, so that the next one writes nothing at its start.
        ledger = self.ledger.retaining(GENEROUS.retention, NOW)
        self.write_ledger(msgspec.json.encode(ledger).decode())
        await self.publish_cluster(lost=lost)
        await self.bus.subscribe_latest("equipoise.eviction.outcome.>", EvictionOutcome, self._record)

    async def _record(self, delivery: Delivery[EvictionOutcome]) -> None:
        self.outcomes.append(delivery.message)

    async def publish_cluster(self, sequence: int = 1, *, lost: Collection[str] = ()) -> None:
        """The messages that the collector would publish now."""
        now = self.clock.now()
        messages: list[tuple[str, Message]] = []
        for node, cpu in (("node-a", 9.0), ("node-b", 1.0), ("node-c", 1.0)):
            pods = [a_placed_pod(f"{node}-{number}") for number in range(10)]
            fresh = {"sampled_at": now - 1, "queried_at": now, "sequence": sequence}
            utilization = a_node_utilization(node, cpu=cpu, memory=4 * GIB, **fresh)
            messages.append((subjects.node_utilization(node), utilization))
            messages.append((subjects.node_placement(node), a_placement(node, pods, sequence=sequence)))
        messages.append((subjects.utilization_cycle("all"), a_cycle(queried_at=now, sequence=sequence)))
        for subject, message in messages:
            if subject not in lost:
                await self.bus.publish(subject, message)

    def binder(
        self,
        *,
        evict: bool = True,
        limits: Limits = GENEROUS,
        kube: Kube | None = None,
        bus: Bus | None = None,
        protection: Protection = Protection(),  # noqa: B008  a frozen value
        surge: SurgeSettings = SurgeSettings(),  # noqa: B008  a frozen value
        level: MovesLevel | None = None,
        **more: Any,
    ) -> Binder:
        self.metrics = CollectorRegistry()
        self.health = Health(configuration_hash="", metrics=self.metrics)
        own = BinderSettings(evict=evict, limits=limits, **more)
        shared = Shared(protection=protection, moves=MovesSettings(level=level), surge=surge)
        runtime = Runtime(
            configuration=Configuration(shared=shared, own=own, hash=""),
            message_bus=bus or self.bus,
            clock=self.clock,
            health=self.health,
            metrics=self.metrics,
            identity="binder-1",
            api_server=kube or self.kube,
        )
        return Binder(runtime, random=lambda: 0.0)

    async def start(self, binder: Binder) -> asyncio.Task[None]:
        """Runs a binder through its first second, in which it determines the time."""
        await binder.attach()
        task = asyncio.create_task(binder.run())
        self._running.append(task)
        await self.clock.advance(1.1)
        return task

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.bus.__aexit__(None, None, None)

    async def propose(self, *pods: str, **fields: Any) -> list[EvictionIntent]:
        now = self.clock.now()
        defaults: dict[str, Any] = {
            "sampled_at": now - 5,
            "decided_at": now,
            "expires_at": now + 180,
            "epoch": LEADER,
        }
        intents = [an_intent(pod, **(defaults | fields)) for pod in pods]
        for intent in intents:
            await self.bus.publish(subjects.eviction_intent("shop", intent.pod), intent, message_id=intent.id)
        await self.bus.settled()
        return intents

    async def outcome_of(
        self, pod: str = "web-1", *, limits: Limits = GENEROUS, evict: bool = True, **fields: Any
    ) -> str:
        """Starts a binder, proposes one pod and returns the outcome, if need be that after its last attempt."""
        await self.start(self.binder(limits=limits, evict=evict))
        await self.propose(pod, **fields)
        if not self.outcomes:
            await self.clock.advance(180)
        assert len(self.outcomes) == 1
        return self.outcomes[0].outcome.value

    def block(self, budget: str) -> None:
        """Creates a disruption budget of the Deployment `web` that allows nothing."""
        selector = LabelSelector(match_labels={"app": "web"})
        metadata = ObjectMeta(name=budget, namespace="shop")
        spec = PodDisruptionBudgetSpec(selector=selector)
        self.kube.put(BUDGETS, PodDisruptionBudget(metadata=metadata, spec=spec))

    def elect_another_leader(self) -> None:
        (lease,) = self.kube.stored(LEASES)
        spec = msgspec.structs.replace(lease.spec, lease_transitions=2, holder_identity="descheduler-2")
        self.kube.put(LEASES, msgspec.structs.replace(lease, spec=spec))

    @property
    def evicted(self) -> list[RecordedEviction]:
        """Evictions that happened; dry runs are none."""
        return [eviction for eviction in self.kube.evictions if eviction.status == 201 and not eviction.dry_run]

    @property
    def ledger(self) -> Ledger:
        (config_map,) = self.kube.stored(CONFIG_MAPS)
        return msgspec.json.decode(config_map.data[KEY], type=Ledger)

    def write_ledger(self, text: str) -> None:
        self.kube.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=NAME, namespace=OWN), data={KEY: text}))


class SlowWrites:
    """An API server that carries out a write at once and responds late."""

    def __init__(self, world: World, seconds: float) -> None:
        self._world = world
        self.seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.kube, name)

    async def replace(self, resource: Resource[Any], value: Any) -> Any:
        response = await self._world.kube.replace(resource, value)
        await self._world.clock.sleep(self.seconds)
        return response
