"""Public reports of the users of other systems: what went wrong there, with the product's own code."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from agent.fake_cgroups import FakeCgroups
from binder.worlds import GENEROUS, World
from builders import GIB, a_placed_pod, a_workload
from descheduler.cluster import Cluster
from descheduler.cluster_states import a_cluster, a_node, a_pod, changed_node, changed_pod, names, pod_info
from reclaimer.decisions.test_evaluation import a_node as a_reclaimed_node
from reclaimer.decisions.test_evaluation import result_of
from reclaimer.worlds import a_batch_pod

from equipoise.agent.decisions.evictions import CpuEviction, cpu_victims
from equipoise.agent.shell.cgroups.cgroup_files import CgroupFiles
from equipoise.agent.shell.cgroups.cgroup_tree import CgroupTree, PodCgroup, PodGroups
from equipoise.agent.shell.cgroups.measurement import Meter, NodeMeasurement
from equipoise.agent.state.watched_pods import BandPod
from equipoise.binder.decisions.limits import EvictionsPerWorkload, MigratingPerNode, MigratingPerWorkload
from equipoise.binder.decisions.limits.unavailable_per_workload import UnavailablePerWorkload
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.pod import TopologySpreadConstraint
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.reclaimer.decisions.strategy import ReclaimStrategy
from equipoise.runtime.kubernetes.client import PODS

INTERVAL = 120.0


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.bus:
        await world.populate()
        yield world
        await world.stop()


async def test_an_eviction_from_one_node_leaves_the_counts_of_the_others() -> None:
    """koordinator#1854: any eviction began the counts of all hot nodes anew."""
    cluster = Cluster()
    async with cluster.bus:
        for name in ("node-a", "node-b", "node-c", "node-d"):
            cluster.add_node(name)
        for number in range(8):
            cluster.add_app(f"a{number}", {f"a{number}-x": "node-a"}, 1.0)
            cluster.add_app(f"b{number}", {f"b{number}-x": "node-b"}, 0.1)
        descheduler = cluster.descheduler(max_intents_per_node=1)
        await descheduler.attach()
        await cluster.measure()
        task = asyncio.create_task(descheduler.run())
        await cluster.pass_time(2 * INTERVAL)
        cluster.usage |= {f"uid-b{number}-x": 1.0 for number in range(8)}
        await cluster.pass_time(2 * INTERVAL + 30)
        (first,) = cluster.intents
        await cluster.settle(first, Outcome.EVICTED)
        cluster.kube.remove(PODS, first.pod, "shop")
        await cluster.pass_time(3 * INTERVAL)
        task.cancel()
        await asyncio.wait([task])

    found = [node.abnormal_evaluations for each in cluster.decisions for node in each.nodes if node.node == "node-b"]
    counts = [count for count in found if count]
    assert "node-a" == first.node
    assert counts == list(range(1, len(counts) + 1))
    assert "node-b" in {intent.node for intent in cluster.intents}


async def test_one_eviction_per_workload_and_time_is_one(world: World) -> None:
    """koordinator#2074: six pods of a workload with one eviction in 5 minutes, five of which may migrate at once."""
    limits = msgspec.structs.replace(
        GENEROUS,
        evictions_per_workload=EvictionsPerWorkload(max=1, window=Duration(300)),
        migrating_per_workload=MigratingPerWorkload(max=5),
        unavailable_per_workload=UnavailablePerWorkload(max=5),
    )
    await world.start(world.binder(limits=limits))

    await world.propose(*(f"web-{number}" for number in range(1, 7)))

    assert 1 == len(world.evicted)
    assert {"evicted": 1, "rejected_limit": 5} == Counter(outcome.outcome.value for outcome in world.outcomes)
    assert {"evictionsPerWorkload"} == {outcome.limit for outcome in world.outcomes if outcome.limit}


async def test_of_ten_intents_of_a_node_as_many_proceed_as_its_limit_allows(world: World) -> None:
    """koordinator#1150: jobs that waited counted as migrating, so that none of ten ever proceeded."""
    limits = msgspec.structs.replace(
        GENEROUS,
        migrating_per_node=MigratingPerNode(max=2),
        migrating_per_workload=MigratingPerWorkload(max=9),
        unavailable_per_workload=UnavailablePerWorkload(max=9),
    )
    await world.start(world.binder(limits=limits))
    pods = [f"{app}-{number}" for app in ("web", "db") for number in range(1, 6)]

    await world.propose(*pods)
    first = {eviction.name for eviction in world.evicted}
    await world.clock.advance(60.0)  # the workloads have all replicas again
    await world.publish_cluster(sequence=2)
    for name in pods:
        if name not in first:
            await world.propose(name, id=f"again-{name}")

    assert 2 == len(first)
    assert 4 == len(world.evicted)


@pytest.mark.parametrize("how", ["forbidden", "deleted", "another"])
async def test_a_pod_that_cannot_be_read_is_not_evicted(world: World, how: str) -> None:
    """koordinator#3039: without the pod no rule was checked, and the migration was approved."""
    if how == "forbidden":
        world.kube.refuse("get", resource="pods")
    elif how == "deleted":
        world.kube.remove(PODS, "web-1", "shop")
    else:
        (pod,) = [pod for pod in world.kube.stored(PODS) if pod.metadata.name == "web-1"]
        metadata = msgspec.structs.replace(pod.metadata, uid="uid-of-another")
        world.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))
    await world.start(world.binder())

    await world.propose("web-1")

    assert [] == world.evicted
    assert not [outcome for outcome in world.outcomes if outcome.outcome is Outcome.EVICTED]


def test_a_pod_without_a_measurement_takes_its_request_until_it_is_measured() -> None:
    """koordinator#1906: batch resources fell steeply. They fall by the request, and not below what bound pods have."""
    bound = [a_batch_pod(f"job-{number}", cpu=1.0) for number in range(5)]
    new = a_placed_pod("new", workload=None, requests=Resources(cpu=8.0, memory=GIB))
    usage = {f"job-{number}": Resources(cpu=1.0, memory=GIB) for number in range(5)}
    strategy = ReclaimStrategy(enabled=True, cpu_threshold=100.0)
    nothing = Resources(cpu=0.0, memory=0.0)

    def batch(*pods: object, **measured: Resources) -> tuple[float | None, float | None]:
        node = a_reclaimed_node(*bound, *pods, usage=usage | measured, system=nothing)  # type: ignore[arg-type]
        band = result_of(node, strategy=strategy).message.bands["batch"]
        return band.reclaimed.cpu, band.offered.cpu

    before, unmeasured, measured = batch(), batch(new), batch(new, new=Resources(cpu=0.5, memory=GIB))

    assert 8.0 == pytest.approx((before[0] or 0.0) - (unmeasured[0] or 0.0))
    assert 0.5 == pytest.approx((before[0] or 0.0) - (measured[0] or 0.0))
    assert 5.0 == unmeasured[1]


def test_nothing_left_to_offer_evicts_no_batch_pod() -> None:
    """koordinator#2118: allocatable batch-cpu of 0 ended all batch pods of the node at once."""
    bound = [a_batch_pod(f"job-{number}", cpu=1.0) for number in range(5)]
    busy = a_placed_pod("busy", workload=None, requests=Resources(cpu=9.0, memory=GIB))
    usage = {"busy": Resources(cpu=10.0, memory=GIB)}
    strategy = ReclaimStrategy(enabled=True, cpu_threshold=100.0)

    result = result_of(a_reclaimed_node(*bound, busy, usage=usage), strategy=strategy)
    pods = {
        f"uid-{number}": BandPod(
            uid=f"uid-{number}", namespace="shop", name=f"job-{number}", band="batch", priority=5_500, cpu_request=1.0
        )
        for number in range(5)
    }

    assert 0.0 == result.message.bands["batch"].reclaimed.cpu
    assert 5_000 == result.amounts["kubernetes.io/batch-cpu"]
    assert [] == cpu_victims(CpuEviction(satisfaction_lower=60.0), None, 0.0, pods, {})


def in_zone(name: str, zone: str, cpu: float) -> ClusterNode:
    """A node with a pod of each of four workloads, which are spread over the zones."""
    constraint = TopologySpreadConstraint(
        max_skew=1,
        topology_key="topology.kubernetes.io/zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": ""}),
    )
    pods = []
    for number in range(4):
        app = f"app-{number}"
        selector = LabelSelector(match_labels={"app": app})
        spread = [msgspec.structs.replace(constraint, label_selector=selector)]
        pod = a_pod(f"{app}-{name}", cpu=cpu, workload=a_workload(app))
        pods.append(changed_pod(pod, labels={"app": app}, topology_spread_constraints=spread))
    return changed_node(a_node(name, pods), labels={"topology.kubernetes.io/zone": zone})


def test_nothing_is_planned_where_the_spread_over_zones_allows_no_target() -> None:
    """descheduler#1534: zone b is hot and zone a idle; with maxSkew 1 a replacement would have to run in zone b."""
    cluster = a_cluster(*(in_zone(f"{zone}{n}", zone, {"a": 0.3, "b": 2.2}[zone]) for zone in "ab" for n in (1, 2)))

    plan = LowNodeLoad().plan(cluster, names(cluster))

    assert {"hot", "idle"} == {entry.state for entry in LowNodeLoad().classify(cluster)}
    assert [] == list(plan.moves)
    assert any("topology spread" in entry.why for entry in plan.refused)


def test_without_the_spread_over_zones_the_same_pods_move() -> None:
    """The constraint is what keeps them."""
    nodes = []
    for zone in "ab":
        for number in (1, 2):
            node = in_zone(f"{zone}{number}", zone, {"a": 0.3, "b": 2.2}[zone])
            pods = [changed_pod(pod, topology_spread_constraints=[]) for pod in node.pods]
            nodes.append(msgspec.structs.replace(node, pods=pods, occupying=[pod.info for pod in pods]))
    cluster = a_cluster(*nodes)

    assert LowNodeLoad().plan(cluster, names(cluster)).moves


def test_pods_are_not_packed_to_an_emptier_node() -> None:
    """descheduler#1461: the only node on which the pod fits is emptier than its own."""
    sparse = a_node("sparse", [changed_pod(a_pod("web", cpu=1.5), node_selector={"disk": "ssd"})])
    emptier = changed_node(a_node("emptier", [a_pod("job", cpu=0.2)]), labels={"disk": "ssd"})
    full = a_node("full", [a_pod(f"full-{number}", cpu=1.0) for number in range(5)])
    cluster = a_cluster(sparse, emptier, full)

    moves = [(move.pod.name, move.target) for move in BinPack().plan(cluster, names(cluster)).moves]

    assert [("job", "full")] == moves


def with_room(name: str, pods: int) -> ClusterNode:
    """A node on which this many more pods with a request of 0.13 cores fit."""
    large = a_pod(f"large-{name}", cpu=3.0, info=pod_info(f"large-{name}", {"cpu": 10.0 - 0.13 * pods - 0.01}))
    return a_node(name, [large])


def test_many_evictions_at_once_fill_each_target_only_as_far_as_it_has_room() -> None:
    """karmada#6518: all of 15 went to the place that had had room for 10 at first; another one had room for 5."""
    pods = [a_pod(f"app-{n}", cpu=0.1, memory=GIB / 10, info=pod_info(f"app-{n}", {"cpu": 0.13})) for n in range(15)]
    cluster = a_cluster(a_node("a", pods), with_room("b", 10), with_room("c", 5))

    targets = Counter(move.target for move in BinPack().plan(cluster, names(cluster)).moves)

    assert {"b": 10, "c": 5} == targets


def measured_in_ten_seconds(root: Path, version: int) -> NodeMeasurement:
    """A latency-sensitive pod uses 2 s of CPU time and waits for 3 s. It was once stopped by its quota, long ago."""
    root.mkdir()
    cgroups = FakeCgroups(root, version)
    path = "kubepods/burstable/poda"
    cgroups.make(path)
    groups = PodGroups("kubepods", None, {"a": PodCgroup("a", "burstable", path)})
    if version == 1:  # only the unified hierarchy has the pressure of groups
        (root / "unified" / path).mkdir(parents=True)
    pressure = root / ("unified" if version == 1 else "") / path / "cpu.pressure"
    now = [0.0]
    proc, system = str(root / "proc"), str(root / "sys")
    meter = Meter(CgroupTree(str(root)), CgroupFiles(), proc=proc, system=system, monotonic=lambda: now[0])
    found = []
    for second in (0, 10):
        nanoseconds = 10**9 * second // 10
        if version == 1:
            cgroups.put("kubepods", "cpuacct.usage", str(2 * nanoseconds))
            (root / "cpu" / path / "cpu.stat").write_text("nr_throttled 1\nthrottled_time 5")
        else:
            cgroups.put("kubepods", "cpu.stat", f"usage_usec {2 * nanoseconds // 1_000}")
            cgroups.put(path, "cpu.stat", "usage_usec 5\nthrottled_usec 5")
        pressure.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={3 * nanoseconds // 1_000}")
        now[0] = float(second)
        found.append(meter.measure(groups))
    return found[-1]


@pytest.mark.parametrize("version", [1, 2])
def test_counters_of_other_units_are_the_same_usage(tmp_path: Path, version: int) -> None:
    """kubernetes#142599: pressure was in microseconds on some nodes, in nanoseconds on others. So are cgroups."""
    found = measured_in_ten_seconds(tmp_path / "cgroup", version)

    assert 0.2 == pytest.approx(found.pods)
    assert 30.0 == pytest.approx(found.pressure)
