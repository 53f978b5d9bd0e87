"""A small cluster in memory: nodes, a Deployment per app, and a collector that publishes the usage of its pods."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from builders import GIB, a_placed_pod, a_workload
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.moves import MovesLevel, MovesSettings
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, OwnerReference, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec, PodStatus
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import NodePlacement, PlacedHint
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.service import Descheduler
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICA_SETS
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

LOAD = LoadSettings()
LONG_AGO = 7 * 86_400.0


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def a_ready(status: str = "True", since: float = 0.0) -> Condition:
    return Condition(type="Ready", status=status, last_transition_time=moment(since))


def a_node_object(name: str, now: float, **fields: Any) -> Node:
    """A node of 10 cores and 64 GiB, Ready for a week."""
    status = NodeStatus(
        allocatable={"cpu": "10", "memory": "64Gi", "pods": "110"}, conditions=[a_ready(since=now - LONG_AGO)]
    )
    metadata = ObjectMeta(
        name=name, uid=f"uid-{name}", creation_timestamp=moment(now - LONG_AGO), labels={"kubernetes.io/hostname": name}
    )
    return Node(**({"metadata": metadata, "status": status} | fields))


def a_pod_object(name: str, node: str, now: float, app: str = "web", **spec: Any) -> Pod:
    """A running, ready pod of the ReplicaSet `<app>-1`, there for a week."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=f"{app}-1", controller=True)
    since = moment(now - LONG_AGO)
    container = Container(resources=ResourceRequirements(requests={"cpu": "100m", "memory": "128Mi"}))
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="shop", uid=f"uid-{name}", labels={"app": app}, owner_references=[owner],
            creation_timestamp=since,
        ),
        spec=PodSpec(**({"node_name": node, "containers": [container]} | spec)),
        status=PodStatus(
            phase="Running",
            conditions=[
                Condition(type="PodScheduled", status="True", last_transition_time=since),
                Condition(type="Ready", status="True", last_transition_time=since),
            ],
            start_time=since,
            qos_class="Burstable",
        ),
    )  # fmt: skip


def a_workload_object(name: str, replicas: int = 4, **fields: Any) -> WorkloadObject:
    """All replicas ready, nothing rolling out."""
    status = WorkloadStatus(
        replicas=replicas, ready_replicas=replicas, updated_replicas=replicas, available_replicas=replicas
    )
    defaults: dict[str, Any] = {
        "metadata": ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"),
        "spec": WorkloadSpec(replicas=replicas),
        "status": status,
    }
    return WorkloadObject(**(defaults | fields))


class Cluster:
    """What a test moves: the API server, the bus, the time, and how much each pod uses."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_800_000_000.0)
        self.kube = MemoryKube(self.clock)
        self.bus = MemoryBus(self.clock)
        self.usage: dict[str, float] = {}
        """Cores by pod UID."""

        self.waiting: dict[str, float] = {}
        """The share of time in which processes wait for CPU, by node; unknown for others."""

        self.hints: dict[str, PlacedHint] = {}
        """By the name of a pod: the hint with which it was created."""

        self.health = Health(configuration_hash="", metrics=CollectorRegistry())
        self.registry = CollectorRegistry()
        self.add_namespace()
        self._sequence = 0
        self.last_descheduler: Descheduler
        """That a test has started."""

    def add_namespace(self, name: str = "shop") -> None:
        self.kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))

    def add_node(self, name: str, **fields: Any) -> None:
        self.kube.put(NODES, a_node_object(name, self.clock.now(), **fields))

    def add_app(self, app: str, placed: dict[str, str], cores: float, **spec: Any) -> None:
        """A Deployment whose pods (name: node) each use this many cores."""
        self.kube.put(DEPLOYMENTS, a_workload_object(app, max(4, len(placed))))
        owner = OwnerReference(api_version="apps/v1", kind="Deployment", name=app, controller=True)
        replica_set = ObjectMeta(name=f"{app}-1", namespace="shop", owner_references=[owner])
        self.kube.put(REPLICA_SETS, a_workload_object(f"{app}-1", len(placed), metadata=replica_set))
        for name, node in placed.items():
            self.add_pod(name, node, cores, app=app, **spec)

    def add_pod(self, name: str, node: str, cores: float, app: str = "web", **spec: Any) -> None:
        self.kube.put(PODS, a_pod_object(name, node, self.clock.now(), app, **spec))
        self.usage[f"uid-{name}"] = cores

    def hot_and_idle(self, apps: int = 8) -> None:
        """node-a at 80 %, of eight workloads; node-b and node-c with nothing."""
        for name in ("node-a", "node-b", "node-c"):
            self.add_node(name)
        for number in range(apps):
            self.add_app(f"app{number}", {f"app{number}-x": "node-a"}, 8.0 / apps)

    async def measure(self, *, sampled_at: float | None = None, expected: int | None = None) -> None:
        """Publishes what a collector would now."""
        now = self.clock.now()
        sampled_at = now if sampled_at is None else sampled_at
        self._sequence += 1
        nodes = self.kube.stored(NODES)
        for node in nodes:
            pods = [pod for pod in self.kube.stored(PODS) if pod.spec.node_name == node.metadata.name]
            cores = {pod.metadata.uid: self.usage[pod.metadata.uid] for pod in pods}
            mean = Resources(cpu=sum(cores.values()), memory=len(pods) * GIB)
            await self.bus.publish(
                subjects.node_utilization(node.metadata.name),
                NodeUtilization(
                    node=node.metadata.name,
                    uid=node.metadata.uid,
                    base=Resources(cpu=10.0, memory=64 * GIB),
                    sampled_at=sampled_at,
                    queried_at=now,
                    windows={window.name: WindowUsage(sampled_at=sampled_at, mean=mean) for window in LOAD.windows},
                    pods={uid: Resources(cpu=value, memory=GIB) for uid, value in cores.items()},
                    pressure=None
                    if (waiting := self.waiting.get(node.metadata.name)) is None
                    else NodePressure(sampled_at=sampled_at, waiting=Pressure(cpu=waiting)),
                    epoch=1,
                    sequence=self._sequence,
                ),
            )
            await self.bus.publish(
                subjects.node_placement(node.metadata.name),
                NodePlacement(
                    node=node.metadata.name,
                    uid=node.metadata.uid,
                    pods=[
                        a_placed_pod(pod.metadata.name, placed_at=now, running_since=now, hint=self.hints[name])
                        for pod in pods
                        if (name := pod.metadata.name) in self.hints
                    ],
                    epoch=1,
                    sequence=self._sequence,
                ),
            )
        expected = len(nodes) if expected is None else expected
        cycle = UtilizationCycle(
            shard="all",
            cycle=self._sequence,
            expected=expected,
            fresh=len(nodes),
            queried_at=now,
            sequence=self._sequence,
        )
        await self.bus.publish(subjects.utilization_cycle("all"), cycle)

    async def measure_app(self, app: str, cores: float, *, whole_day: bool = False, error: float | None = None) -> None:
        """What a replica of the app is known to use; with `whole_day` in every hour of the past day.

        `error`: cores by which hours differed from the profile.
        """
        now = self.clock.now()
        self._sequence += 1
        workload = a_workload(app)
        usage = WindowUsage(sampled_at=now, mean=Resources(cpu=cores, memory=GIB))
        await self.bus.publish(
            subjects.workload_utilization(workload),
            WorkloadUtilization(
                workload=workload, replicas=1, sampled_at=now, queried_at=now,
                windows={window.name: usage for window in LOAD.windows}, epoch=1, sequence=self._sequence,
                profile={"cpu": [cores] * SLOTS, "memory": [float(GIB)] * SLOTS} if whole_day else {},
                forecast_error=Resources(cpu=error, memory=None if error is None else 0.0),
            ),
        )  # fmt: skip

    async def pass_time(self, seconds: float, *, step: float = 30.0) -> None:
        """Time passes, and the collector publishes."""
        for _ in range(round(seconds / step)):
            await self.measure()
            self.kube.bookmark()
            await self.clock.advance(step)

    async def settle(self, intent: EvictionIntent, outcome: Outcome, detail: str = "", **fields: Any) -> None:
        """Publishes the outcome that a binder would."""
        now = self.clock.now()
        message = converted(
            intent,
            EvictionOutcome,
            **({"intent_id": intent.id, "outcome": outcome, "detail": detail, "settled_at": now} | fields),
        )
        await self.bus.publish(subjects.eviction_outcome(intent.namespace, intent.pod), message)
        await self.clock.advance(0.0)

    @property
    def intents(self) -> list[EvictionIntent]:
        return self.bus.published(EvictionIntent, subjects.eviction_intent("*", "*"))

    @property
    def decisions(self) -> list[DescheduleDecision]:
        return self.bus.published(DescheduleDecision, subjects.decision("descheduler", "*"))

    @property
    def last_decision(self) -> DescheduleDecision:
        return self.decisions[-1]

    def descheduler(
        self,
        identity: str = "descheduler-1",
        surge: SurgeSettings = SurgeSettings(),  # noqa: B008  a frozen value
        level: MovesLevel | None = None,
        thresholds: Thresholds = Thresholds(),  # noqa: B008  a frozen value
        **settings: Any,
    ) -> Descheduler:
        """With one strategy, so that there is one decision per evaluation."""
        defaults: dict[str, Any] = {"warm_up": Duration(0), "strategies": (LowNodeLoad(),)}
        own = DeschedulerSettings(**(defaults | settings))
        shared = Shared(load=LOAD, moves=MovesSettings(level=level), surge=surge, thresholds=thresholds)
        runtime = Runtime(
            configuration=Configuration(shared=shared, own=own, hash=""),
            message_bus=self.bus,
            clock=self.clock,
            health=self.health,
            metrics=self.registry,
            identity=identity,
            api_server=self.kube,
        )
        return Descheduler(runtime)


def terminating(pod: Pod, at: float) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=moment(at)))
