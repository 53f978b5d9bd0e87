"""A generated cluster in which some nodes are hot: its objects and messages, as a snapshot, an API server and a bus."""

import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import (
    Condition,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    ResourceRequirements,
)
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec, PodStatus, TopologySpreadConstraint
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot, WatchedObjects
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICA_SETS
from equipoise.runtime.kubernetes.reflector import Interner
from equipoise.runtime.process.clock import Clock
from equipoise.scheduling.model.pod_info import PodReader
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.kube import MemoryKube

GIB = 2.0**30
NOW = 1_800_000_000.0
LONG_AGO = datetime.fromtimestamp(NOW - 200_000, UTC)
LOAD = LoadSettings()
NAMESPACE = "shop"

PODS_PER_NODE = 30
REPLICAS = 20
CORES, MEMORY = 32, 128
"""The capacity of a node; memory in GiB."""

SYSTEM = Resources(cpu=0.5, memory=2 * GIB)
HOT_CPU, NORMAL_CPU = (0.75, 1.0), (0.35, 0.55)
"""Cores of a pod, mean over the day: hot nodes have a load of 82 %, the others of 43 %."""

MEMORY_82_PERCENT, MEMORY_96_PERCENT = (1.5, 5.5), (2.9, 5.3)
"""Requested GiB of a pod, for that share of a node's memory in total. With 96 %, many pods fit on no other node."""

S = TypeVar("S", bound=msgspec.Struct)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of the API server, and the messages of the collector."""

    nodes: list[Node]
    pods: list[Pod]
    deployments: list[WorkloadObject]
    replica_sets: list[WorkloadObject]
    utilization: list[NodeUtilization]
    workloads: list[WorkloadUtilization]

    @property
    def cycle(self) -> UtilizationCycle:
        count = len(self.nodes)
        return UtilizationCycle(shard="all", cycle=1, expected=count, fresh=count, queried_at=NOW, sequence=1)


def as_received(value: S) -> S:
    """A copy with its own strings, as decoded from a response."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type(value))


def random_uid(generator: random.Random) -> str:
    return str(uuid.UUID(int=generator.getrandbits(128)))


def make_node(name: str, uid: str) -> Node:
    metadata = ObjectMeta(name=name, uid=uid, creation_timestamp=LONG_AGO, labels={"kubernetes.io/hostname": name})
    ready = Condition(type="Ready", status="True", last_transition_time=LONG_AGO)
    allocatable = {"cpu": str(CORES), "memory": f"{MEMORY}Gi", "pods": "110"}
    return Node(metadata=metadata, status=NodeStatus(allocatable=allocatable, conditions=[ready]))


def placement_message(node: Node) -> NodePlacement:
    """The placement without pods: they started before every window, so their times do not matter."""
    return NodePlacement(node=node.metadata.name, uid=node.metadata.uid, epoch=1, sequence=1)


def make_pod(node: str, app: str, memory: float, generator: random.Random) -> Pod:
    """A pod of a Deployment with a topology spread constraint; `memory`: GiB requested."""
    requests = {"cpu": "500m", "memory": f"{round(memory * 1024)}Mi"}
    spread = TopologySpreadConstraint(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": app}),
        max_skew=5,
    )
    conditions = [
        Condition(type=type_, status="True", last_transition_time=LONG_AGO) for type_ in ("PodScheduled", "Ready")
    ]
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=f"{app}-1", controller=True)
    uid = random_uid(generator)
    return Pod(
        metadata=ObjectMeta(
            name=f"{app}-1-{uid[:8]}", namespace=NAMESPACE, uid=uid, resource_version="1", labels={"app": app},
            owner_references=[owner], creation_timestamp=LONG_AGO,
        ),
        spec=PodSpec(
            node_name=node,
            containers=[Container(resources=ResourceRequirements(requests=requests))],
            topology_spread_constraints=[spread],
        ),
        status=PodStatus(phase="Running", conditions=conditions, start_time=LONG_AGO, qos_class="Burstable"),
    )  # fmt: skip


def workload_object(name: str, owner: str = "") -> WorkloadObject:
    controller = OwnerReference(api_version="apps/v1", kind="Deployment", name=owner, controller=True)
    counts = WorkloadStatus(
        replicas=REPLICAS, ready_replicas=REPLICAS, updated_replicas=REPLICAS, available_replicas=REPLICAS
    )
    metadata = ObjectMeta(
        name=name, namespace=NAMESPACE, creation_timestamp=LONG_AGO, owner_references=[controller] if owner else []
    )
    return WorkloadObject(metadata=metadata, spec=WorkloadSpec(replicas=REPLICAS), status=counts)


class App(msgspec.Struct, frozen=True, kw_only=True):
    """A workload: usage and requests of one replica."""

    name: str
    cpu: list[float]
    """Cores in each hour of the day."""

    memory: float
    """GiB used at every hour."""

    requested: float
    """GiB."""


def make_app(
    name: str, cores: tuple[float, float], shape: int, requested: tuple[float, float], generator: random.Random
) -> App:
    """`shape`: 1 is busy by day, −1 by night."""
    mean = generator.uniform(*cores)
    cpu = [
        mean * (1.0 + (0.3 if 8 <= hour < 20 else -0.3) * shape) * generator.uniform(0.98, 1.02)
        for hour in range(SLOTS)
    ]
    return App(name=name, cpu=cpu, memory=2.0, requested=generator.uniform(*requested))


def make_apps(
    count: int, cores: tuple[float, float], requested: tuple[float, float], generator: random.Random
) -> list[App]:
    prefix = "heavy" if cores == HOT_CPU else "app"
    return [
        make_app(f"{prefix}-{number}", cores, 1 - 2 * (number % 2), requested, generator) for number in range(count)
    ]


def distribute(apps: Sequence[App], nodes: int, generator: random.Random, *, mixed: bool) -> list[list[App]]:
    """The apps of each node; every app has `REPLICAS` replicas in total.

    `mixed`: every node has as many replicas that are busy by day as by night.
    """
    shapes = [list(apps[::2]), list(apps[1::2])] if mixed else [list(apps)]
    share = PODS_PER_NODE // len(shapes)
    apps_of_nodes: list[list[App]] = [[] for _ in range(nodes)]
    for shape in shapes:
        replicas = (shape * (nodes * share // len(shape) + 1))[: nodes * share]
        generator.shuffle(replicas)
        for number, apps_of_node in enumerate(apps_of_nodes):
            apps_of_node.extend(replicas[number * share : (number + 1) * share])
    return apps_of_nodes


def generate_cluster(nodes: int, hot: int, requested: tuple[float, float], generator: random.Random) -> Cluster:
    """Pods of hot nodes use more CPU, and their busy hours are not balanced as on the other nodes."""
    heavy = make_apps(max(2, hot * PODS_PER_NODE // REPLICAS), HOT_CPU, requested, generator)
    normal = make_apps(max(2, (nodes - hot) * PODS_PER_NODE // REPLICAS), NORMAL_CPU, requested, generator)
    apps_of_nodes = distribute(heavy, hot, generator, mixed=False) + distribute(
        normal, nodes - hot, generator, mixed=True
    )
    generator.shuffle(apps_of_nodes)
    interner = Interner()
    cluster = Cluster(nodes=[], pods=[], deployments=[], replica_sets=[], utilization=[], workloads=[])
    for number, apps in enumerate(apps_of_nodes):
        node = make_node(f"node-{number:05}", random_uid(generator))
        pods: list[Pod] = []
        free = float(MEMORY)
        for app in apps:
            # On a full node, the last pods request what remains.
            memory = min(app.requested, free / (len(apps) - len(pods)) * 1.5)
            free -= memory
            pods.append(interner.intern(as_received(make_pod(node.metadata.name, app.name, memory, generator))))
        cluster.nodes.append(interner.intern(as_received(node)))
        cluster.pods.extend(pods)
        cluster.utilization.append(as_received(node_utilization(node, pods, apps)))
    for app in (*heavy, *normal):
        cluster.deployments.append(as_received(workload_object(app.name)))
        cluster.replica_sets.append(as_received(workload_object(f"{app.name}-1", app.name)))
        cluster.workloads.append(as_received(workload_utilization(app)))
    return cluster


def node_utilization(node: Node, pods: Sequence[Pod], apps: Sequence[App]) -> NodeUtilization:
    """The usage of the current hour of the profiles, in every window."""
    hour = datetime.fromtimestamp(NOW, UTC).hour
    usages = {
        pod.metadata.uid: Resources(cpu=app.cpu[hour], memory=app.memory * GIB)
        for pod, app in zip(pods, apps, strict=True)
    }
    mean = Resources(
        cpu=(SYSTEM.cpu or 0.0) + sum(usage.cpu or 0.0 for usage in usages.values()),
        memory=(SYSTEM.memory or 0.0) + sum(usage.memory or 0.0 for usage in usages.values()),
    )
    value = WindowUsage(sampled_at=NOW, mean=mean)
    return NodeUtilization(
        node=node.metadata.name, uid=node.metadata.uid, base=Resources(cpu=CORES, memory=MEMORY * GIB),
        sampled_at=NOW, queried_at=NOW, windows={window.name: value for window in LOAD.windows}, system=SYSTEM,
        epoch=1, sequence=1, pods=usages,
    )  # fmt: skip


def workload_utilization(app: App) -> WorkloadUtilization:
    mean = Resources(cpu=sum(app.cpu) / SLOTS, memory=app.memory * GIB)
    return WorkloadUtilization(
        workload=Workload(kind="Deployment", group="apps", namespace=NAMESPACE, name=app.name),
        replicas=REPLICAS, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=1,
        windows={window.name: WindowUsage(sampled_at=NOW, mean=mean) for window in LOAD.windows},
        profile={"cpu": list(app.cpu), "memory": [app.memory * GIB] * SLOTS},
    )  # fmt: skip


def snapshot_of(cluster: Cluster) -> Snapshot:
    owners = [
        (Workload(kind=kind, group="apps", namespace=NAMESPACE, name=value.metadata.name), value)
        for kind, values in (("Deployment", cluster.deployments), ("ReplicaSet", cluster.replica_sets))
        for value in values
    ]
    reader = PodReader()
    watched = WatchedObjects(
        nodes=cluster.nodes,
        pods=cluster.pods,
        namespaces={NAMESPACE: namespace_object()},
        workloads=dict(owners),
        infos={pod.metadata.uid: reader.read(pod) for pod in cluster.pods},
    )
    return Snapshot(
        now=NOW + 1.0,
        watched=watched,
        nodes={message.node: message for message in cluster.utilization},
        workloads={message.workload: message for message in cluster.workloads},
        cycles=[cluster.cycle],
        placements={node.metadata.name: placement_message(node) for node in cluster.nodes},
    )


def namespace_object() -> Namespace:
    return Namespace(metadata=ObjectMeta(name=NAMESPACE))


async def publish(bus: MemoryBus, cluster: Cluster) -> None:
    """All messages of the collector."""
    for utilization in cluster.utilization:
        await bus.publish(subjects.node_utilization(utilization.node), utilization)
    for node in cluster.nodes:
        await bus.publish(subjects.node_placement(node.metadata.name), placement_message(node))
    for workload in cluster.workloads:
        await bus.publish(subjects.workload_utilization(workload.workload), workload)
    await bus.publish(subjects.utilization_cycle("all"), cluster.cycle)


def api_server(cluster: Cluster, clock: Clock) -> MemoryKube:
    kube = MemoryKube(clock)
    kube.put(NAMESPACES, namespace_object())
    for node in cluster.nodes:
        kube.put(NODES, node)
    for pod in cluster.pods:
        kube.put(PODS, pod)
    for deployment in cluster.deployments:
        kube.put(DEPLOYMENTS, deployment)
    for replica_set in cluster.replica_sets:
        kube.put(REPLICA_SETS, replica_set)
    kube.expire()
    return kube
