"""Intents that a binder completes per second, with an API server in memory that responds at once."""

import argparse
import asyncio
import json
import logging
import random
import time
from contextlib import suppress
from itertools import pairwise
from statistics import median

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from bench import clusters
from equipoise.binder.decisions.destination_check import LARGEST_BATCH, destination_search, refused_by_filters
from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.limits.evictions_per_namespace import EvictionsPerNamespace
from equipoise.binder.decisions.limits.migrating_per_node import MigratingPerNode
from equipoise.binder.decisions.limits.rate import EvictionRate
from equipoise.binder.decisions.limits.unusual_rate import UnusualRate
from equipoise.binder.service import Binder
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import create_ledger
from equipoise.binder.state.cluster_state import ClusterState
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec, Namespace
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, OwnerReference, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, Pod, PodSpec, PodStatus
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import Delivery
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import LEASES, NAMESPACES, PODS, STATEFUL_SETS
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.volumes import Volumes
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.kube import MemoryKube

OWN = "equipoise-system"
GIB = 2.0**30
LEADER = LeaseEpoch(lease_uid="lease", transitions=0, holder="descheduler")
UNLIMITED = Limits(
    migrating_per_node=MigratingPerNode(max="unlimited"),
    evictions_per_namespace=EvictionsPerNamespace(max="unlimited"),
    evictions_per_cluster=EvictionsPerCluster(max="unlimited", max_count="unlimited"),
    unusual_rate=UnusualRate(max="unlimited"),
    rate=EvictionRate(max="unlimited"),
    startup_grace_period=Duration(0),
)


def put_pods(kube: MemoryKube, count: int) -> None:
    """Creates for every pod to evict its own StatefulSet with two replicas."""
    kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="shop")))
    metadata = ObjectMeta(name=DESCHEDULER_LEASE, namespace=OWN, uid=LEADER.lease_uid)
    kube.put(LEASES, Lease(metadata=metadata, spec=LeaseSpec(holder_identity=LEADER.holder)))
    ready = PodStatus(phase="Running", conditions=[Condition(type="Ready", status="True")])
    for number in range(count):
        name = f"web{number}"
        kube.put(
            STATEFUL_SETS,
            WorkloadObject(
                metadata=ObjectMeta(name=name, namespace="shop", uid=name),
                spec=WorkloadSpec(replicas=2),
                status=WorkloadStatus(replicas=2, ready_replicas=2),
            ),
        )
        owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name=name, uid=name, controller=True)
        pod = ObjectMeta(name=f"{name}-0", namespace="shop", uid=f"{name}-0", owner_references=[owner])
        kube.put(PODS, Pod(metadata=pod, spec=PodSpec(node_name="node-0"), status=ready))


async def publish_load(bus: MemoryBus, nodes: int, pods: int, now: float) -> None:
    """`pods`: the number of pods on each node, of which the bus has the placement only."""
    allocatable, generator = Resources(cpu=32, memory=128 * GIB), random.Random(1)
    for number in range(nodes):
        node = f"node-{number}"
        mean = WindowUsage(sampled_at=now, mean=Resources(cpu=4 if number else 30, memory=GIB))
        utilization = NodeUtilization(
            node=node, uid=node, base=allocatable, sampled_at=now, queried_at=now, epoch=1, sequence=1,
            windows={window.name: mean for window in LoadSettings().windows},
        )  # fmt: skip
        placement = NodePlacement(
            node=node, uid=node, ready=True, ready_since=0.0, allocatable=allocatable, epoch=1, sequence=1,
            pods=clusters.placement(number, pods, now, generator).pods,
        )  # fmt: skip
        await bus.publish(subjects.node_utilization(node), utilization)
        await bus.publish(subjects.node_placement(node), placement)
    cycle = UtilizationCycle(shard="all", cycle=1, expected=nodes, fresh=nodes, queried_at=now)
    await bus.publish(subjects.utilization_cycle("all"), cycle)


def make_intent(number: int, now: float) -> EvictionIntent:
    return EvictionIntent(
        id=f"intent-{number}", pod_uid=f"web{number}-0", namespace="shop", pod=f"web{number}-0", node="node-0",
        workload=Workload(kind="StatefulSet", group="apps", namespace="shop", name=f"web{number}"),
        strategy="low_node_load", reason="node is overutilized", sampled_at=now, decided_at=now,
        expires_at=now + 600, expected_reduction=Resources(cpu=0.5, memory=GIB), target="node-1", epoch=LEADER,
    )  # fmt: skip


async def measure(intents: int, nodes: int, pods: int = 0) -> dict[str, float]:
    """`pods`: the number of pods on each node."""
    clock, metrics = SystemClock(), CollectorRegistry()
    kube, bus = MemoryKube(clock), MemoryBus(clock)
    put_pods(kube, intents)
    await create_ledger(kube, OWN, clock)
    await publish_load(bus, nodes, pods, clock.now())
    own = BinderSettings(evict=True, limits=UNLIMITED)
    runtime = Runtime(
        configuration=Configuration(shared=Shared(), own=own, hash=""), message_bus=bus, api_server=kube, clock=clock,
        health=Health(configuration_hash="", metrics=metrics), metrics=metrics, identity="binder",
    )  # fmt: skip
    binder = Binder(runtime)
    outcomes: list[EvictionOutcome] = []
    done = asyncio.Event()

    async def on_outcome(delivery: Delivery[EvictionOutcome]) -> None:
        outcomes.append(delivery.message)
        if len(outcomes) == intents:
            done.set()

    await binder.attach()
    await bus.subscribe("equipoise.eviction.outcome.*.*", EvictionOutcome, on_outcome)
    async with bus:
        await bus.settled()  # the messages about the nodes are not part of an intent
        for number in range(intents):
            intent = make_intent(number, clock.now())
            await bus.publish(subjects.eviction_intent("shop", intent.pod), intent, message_id=intent.id)
        started, cpu = time.perf_counter(), time.process_time()
        task = asyncio.create_task(binder.run())
        await asyncio.wait_for(done.wait(), 300)
        seconds = time.perf_counter() - started - 1.0  # it measures the clock of the API server for one second
        cpu = time.process_time() - cpu
        task.cancel()
        await asyncio.wait([task])
    evicted = sum(outcome.outcome.value == "evicted" for outcome in outcomes)
    return {
        "intents": intents, "nodes": nodes, "evicted": evicted, "intents_per_second": round(intents / seconds, 1),
        "cpu_milliseconds_each": 1e3 * cpu / intents,
    }  # fmt: skip


def measure_search(nodes: int, pods: int) -> dict[str, float]:
    """CPU time of a search for a node that takes a replacement, if all are too hot for it, and of its longest step."""
    generator, now, load = random.Random(1), 1_800_000_000.0, LoadSettings()
    cluster = ClusterState(load)
    for number in range(nodes):
        placement = msgspec.structs.replace(clusters.placement(number, pods, now, generator), ready_since=0.0)
        cluster.on_placement(placement, now)
        cluster.on_utilization(clusters.utilization(placement, now, generator), now)
    source, target, *_ = cluster.nodes
    spec = PodSpec(containers=[Container(resources=ResourceRequirements(requests={"cpu": "10m"}))])
    pod = PodInfo(Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="web"), spec=spec))
    totals, longest = [], []
    for _ in range(5):
        refusals = [refused_by_filters(pod, cluster.snapshot, Volumes())]
        search = destination_search(
            source, target, Resources(cpu=1_000.0), cluster.nodes, refusals,
            usage_of=pod_usage(cluster.workloads, load=load, now=now), load=load, thresholds=Thresholds(), now=now,
            skew=0.0,
        )  # fmt: skip
        times = [time.process_time()]
        with suppress(StopIteration):
            while True:
                next(search)
                times.append(time.process_time())
        times.append(time.process_time())
        assert len(times) > nodes / LARGEST_BATCH  # all nodes were examined
        totals.append(times[-1] - times[0])
        longest.append(max(later - earlier for earlier, later in pairwise(times)))
    return {"a pod that no node takes, ms": 1e3 * median(totals), "its longest step, ms": 1e3 * median(longest)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intents", type=int, default=200)
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1_000])
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for nodes in options.nodes:
        print(json.dumps(asyncio.run(measure(options.intents, nodes))))


if __name__ == "__main__":
    main()
