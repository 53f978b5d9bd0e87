"""The collector from end to end, on a bus, an API server, a clock and a source of memory."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import pytest
from builders import GIB, NOW, a_placement, a_workload_utilization
from collector.sources_in_memory import FakeSource, Usage
from prometheus_client import CollectorRegistry

from equipoise.collector.decisions.query import MetricQuery, Sample
from equipoise.collector.decisions.sharding import shard_of
from equipoise.collector.decisions.workloads import slot_of
from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings, ProfileSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.annotations import as_annotations, workload_usage
from equipoise.contracts.kubernetes.objects import (
    Condition,
    Lease,
    LeaseSpec,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    WorkloadObject,
)
from equipoise.contracts.kubernetes.raw_allocatable import RAW_ALLOCATABLE
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, LEASES, NODES, PODS, REPLICA_SETS
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
        """Time passes, and the watches show that they live."""
        while seconds > 0:
            await self.clock.advance(min(30, seconds))
            self.kube.bookmark()
            seconds -= 30
        await self.bus.settled()

    def nodes(self) -> dict[str, NodeUtilization]:
        """The last word on each node."""
        return {message.node: message for message in self.bus.published(NodeUtilization, NODE_USAGES)}

    def placements(self) -> dict[str, NodePlacement]:
        return {message.node: message for message in self.bus.published(NodePlacement, PLACEMENTS)}

    def cycle(self) -> UtilizationCycle:
        return self.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[-1]

    def workloads(self) -> dict[str, WorkloadUtilization]:
        said = self.bus.published(WorkloadUtilization, "equipoise.utilization.workload.>")
        return {message.workload.name: message for message in said}


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
async def collecting(world: World, settings: CollectorSettings, identity: str = "one") -> AsyncIterator[Collector]:
    collector = Collector(
        settings=settings, load=LoadSettings(), namespace="equipoise-system", identity=identity, source=world.source,
        kube=world.kube, bus=world.bus, clock=world.clock, health=world.health, metrics=CollectorRegistry(),
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


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = a_world()
    async with made.bus, collecting(made, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await made.advance(1)
        yield made


async def test_the_first_round_tells_every_node(world: World) -> None:
    """All windows, the pods' usage by UID, and what is left for the system."""
    node = world.nodes()["a"]

    assert {"5m", "15m", "1h", "1d"} == node.windows.keys()
    assert (2.0, 8 * GIB) == (node.windows["1d"].mean.cpu, node.windows["1d"].mean.memory)
    assert {"uid-db-0": (0.5, GIB)} == {uid: (used.cpu, used.memory) for uid, used in node.pods.items()}
    assert (1.5, 7 * GIB) == (node.system.cpu, node.system.memory)
    assert ("uid-a", 10.0) == (node.uid, node.base.cpu)
    assert 5.0 == node.queried_at - node.sampled_at
    assert world.health.warm


async def test_an_amplified_node_is_measured_by_what_it_really_has(world: World) -> None:
    """Load is a share of the allocatable before it was raised; requests still fit into the raised one."""
    node = a_node("a")
    annotations = {RAW_ALLOCATABLE: '{"cpu": "4"}'}
    world.kube.put(
        NODES, msgspec.structs.replace(node, metadata=ObjectMeta(name="a", uid="uid-a", annotations=annotations))
    )
    await world.advance(30)

    assert (4.0, 64 * GIB) == (world.nodes()["a"].base.cpu, world.nodes()["a"].base.memory)
    assert 10.0 == world.placements()["a"].allocatable.cpu


async def test_a_round_ends_with_a_cycle(world: World) -> None:
    """How many nodes should have data, and how many have."""
    cycle = world.cycle()

    assert (2, 2, {}, "") == (cycle.expected, cycle.fresh, cycle.missing, cycle.problem)


async def test_a_workload_is_the_mean_of_its_pods(world: World) -> None:
    """Usage per replica; longer windows once enough of them was seen."""
    world.source.pods["shop", "db-1", "b"].cpu = 1.5
    await world.advance(60)
    workload = world.workloads()["db"]
    assert (2, 1.0) == (workload.replicas, workload.windows["5m"].mean.cpu)
    assert {"5m"} == workload.windows.keys()

    await world.advance(900)
    assert {"5m", "15m"} == world.workloads()["db"].windows.keys()
    assert {300.0} == {
        query.length for query in world.source.queries if query.subject == "pod" and query.aggregate == "mean"
    }


async def test_pods_may_be_sampled_less_often_than_nodes() -> None:
    """Kubelets and node-exporter are scraped at their own pace: each is judged by its own."""
    world = a_world()
    world.source.pods = {name: Usage(cpu=0.5, memory=GIB, interval=60.0) for name in world.source.pods}
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(1)

        assert {"uid-db-0"} == world.nodes()["a"].pods.keys()


async def test_pods_go_by_the_nodes_pace_where_theirs_is_not_told() -> None:
    """A source that cannot say it for pods is no source that cannot measure."""
    world = a_world()
    world.source.fails = lambda query: (query.subject, query.aggregate) == ("pod", "spacing")
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(1)

        assert {"uid-db-0"} == world.nodes()["a"].pods.keys()


async def test_each_window_has_its_own_period(world: World) -> None:
    """The shortest is asked for every 15 s, the longest every half hour; no two questions of a round differ in time."""
    world.source.queries.clear()
    await world.advance(600)
    means = [
        query
        for query in world.source.queries
        if query.aggregate == "mean" and query.subject == "node" and query.resource == "cpu"
    ]
    count = {length: sum(query.length == length for query in means) for length in (300.0, 900.0, 3_600.0, 86_400.0)}

    assert 36 <= count[300.0] <= 45
    assert 18 <= count[900.0] <= 23
    assert 4 <= count[3_600.0] <= 6
    assert 0 == count[86_400.0]
    moments = {
        (query.length, query.at) for query in world.source.queries if query.aggregate in ("mean", "count", "newest")
    }
    assert sum(count.values()) == len(moments)


async def test_a_source_runs_on_a_standby_too() -> None:
    """One without a memory has a history when the lead is taken over."""
    world = a_world()
    held = LeaseSpec(holder_identity="another", lease_duration_seconds=3_600, acquire_time=at(NOW), renew_time=at(NOW))
    metadata = ObjectMeta(name="equipoise-collector", namespace="equipoise-system")
    world.kube.put(LEASES, Lease(metadata=metadata, spec=held))
    async with world.bus, collecting(world, CollectorSettings(profile=NO_PROFILE)):
        await world.advance(60)

        assert (False, True, []) == (world.health.leading, world.source.runs, world.source.queries)


async def test_a_source_that_is_down_makes_values_old_not_zero(world: World) -> None:
    """The last values stand with their own times, the cycle says why, and later they are unknown."""
    before = world.nodes()["a"]
    world.source.down = "ConnectionRefusedError"
    await world.advance(60)

    assert before.windows["5m"] == world.nodes()["a"].windows["5m"]
    assert "ConnectionRefusedError" in world.cycle().problem
    assert "ConnectionRefusedError" in world.health.problems["prometheus"]
    assert 2 == world.cycle().fresh
    await world.advance(180)
    assert "5m" not in world.nodes()["a"].windows
    assert 0 == world.cycle().fresh
    world.source.down = ""
    await world.advance(60)
    assert {} == world.health.problems
    assert (2, "") == (world.cycle().fresh, world.cycle().problem)
    assert {"5m", "15m", "1h", "1d"} == world.nodes()["a"].windows.keys()


async def test_a_failing_question_leaves_the_others(world: World) -> None:
    """Memory that cannot be asked for ages alone."""
    world.source.fails = lambda query: query.resource == "memory" and query.subject == "node"
    world.source.nodes["a"].cpu = 3.0
    await world.advance(20)
    mean = world.nodes()["a"].windows["5m"].mean

    assert (3.0, 8 * GIB) == (mean.cpu, mean.memory)
    assert "memory of nodes" in world.health.problems["prometheus"]
    assert (2, "") == (world.cycle().fresh, world.cycle().problem)
    await world.advance(300)
    mean = world.nodes()["a"].windows["5m"].mean
    assert (3.0, None) == (mean.cpu, mean.memory)


async def test_a_failing_question_about_pods_leaves_what_was_known(world: World) -> None:
    """For as long as it is young enough; memory beside it is renewed, and workloads remember no half rounds."""
    world.source.fails = lambda query: query.resource == "cpu" and query.subject == "pod"
    world.source.pods["shop", "db-0", "a"].memory = 2 * GIB
    await world.advance(30)
    used = world.nodes()["a"].pods["uid-db-0"]
    assert (0.5, 2 * GIB, 1.5) == (used.cpu, used.memory, world.nodes()["a"].system.cpu)
    assert 0.5 == world.workloads()["db"].windows["5m"].mean.cpu

    await world.advance(200)
    used = world.nodes()["a"].pods["uid-db-0"]
    assert (None, 2 * GIB) == (used.cpu, used.memory)


async def test_pods_that_are_never_measured_are_a_problem(world: World) -> None:
    """The source answers, and every pod of hours has too few samples: somebody must be told."""
    assert "pods" not in world.health.problems
    for usage in world.source.pods.values():
        usage.coverage = 0.5
    await world.advance(30)
    assert "none of 2 pods has enough samples in 5m" in world.health.problems["pods"]
    assert {} == world.nodes()["a"].pods

    for usage in world.source.pods.values():
        usage.coverage = 1.0
    await world.advance(30)
    assert "pods" not in world.health.problems


async def test_a_source_without_pods_is_no_problem(world: World) -> None:
    """It never said that it knew any."""
    world.source.rejects = lambda query: "nodes only" if query.subject == "pod" else ""
    await world.advance(30)

    assert "pods" not in world.health.problems


@pytest.mark.parametrize("subjects", [("node", "pod"), ("pod",)])
async def test_intervals_that_cannot_be_found_anew_stay(subjects: tuple[str, ...]) -> None:
    """How far apart samples lie hardly changes: neither nodes nor pods with intervals of their own go blind for it."""
    world = a_world()
    world.source.pods = {name: Usage(cpu=0.5, memory=GIB, interval=60.0) for name in world.source.pods}
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(1)
        world.source.fails = lambda query: query.aggregate == "spacing" and query.subject in subjects
        await world.advance(2_000)

        assert {} == world.health.problems
        assert 2 == world.cycle().fresh
        assert {"uid-db-0"} == world.nodes()["a"].pods.keys()


async def test_a_pod_without_a_time_belongs_to_no_workload(world: World) -> None:
    """The time of the question is not that of a sample."""
    del world.source.nodes["a"]
    world.kube.put(NODES, a_node("c"))
    world.kube.put(PODS, a_pod("db-2", "c"))
    world.source.pods["shop", "db-2", "c"] = Usage(cpu=9.0)
    await world.advance(30)

    assert 2 == world.workloads()["db"].replicas
    assert 0.5 == world.workloads()["db"].windows["5m"].mean.cpu


async def test_a_standby_forgets_too() -> None:
    """It watches for weeks, and what it will say first when it takes over must fit into messages."""
    world = a_world()
    async with world.bus, collecting(world, CollectorSettings(profile=NO_PROFILE), "first"):
        await world.advance(30)
        async with collecting(world, CollectorSettings(profile=NO_PROFILE), "second") as standby:
            await world.advance(30)
            world.kube.put(PODS, a_pod("job", "a", age=-60))
            await world.advance(10)
            world.kube.remove(PODS, "job", "shop")
            await world.advance(1)
            assert {"a"} == set(standby._placement.nodes_with_gone_pods)
            await world.advance(1_300)
            assert set() == set(standby._placement.nodes_with_gone_pods)


async def test_an_empty_source_is_unknown(world: World) -> None:
    """No series at all: no window stands, nothing is 0, the missing nodes are named."""
    world.source.nodes.clear()
    await world.advance(20)

    assert {"15m", "1h", "1d"} >= world.nodes()["a"].windows.keys()
    await world.advance(200)
    assert (2, 0, {"a", "b"}) == (world.cycle().expected, world.cycle().fresh, world.cycle().missing.keys())


async def test_nodes_without_data_are_summed_up_where_operators_look(world: World) -> None:
    """In /readyz by reason with a few names, on the bus with all counts; over when they have data again."""
    gone = world.source.nodes.pop("b")
    await world.advance(200)
    assert world.health.problems["nodes"] == "unknown load: stale (1 node: b)"
    assert (world.cycle().fresh, world.cycle().reasons) == (1, {"stale": 1})
    world.source.nodes["b"] = gone
    await world.advance(30)
    assert "nodes" not in world.health.problems


async def test_a_source_of_other_names_is_a_problem(world: World) -> None:
    """Series that name no node of this cluster say how they call theirs."""
    world.source.nodes = {"10.0.0.1": Usage()}
    await world.advance(20)

    assert 'node="10.0.0.1"' in world.health.problems["prometheus"]
    assert 'node="10.0.0.1"' in world.cycle().problem


async def test_a_slow_source_is_not_asked_twice_at_once(world: World) -> None:
    """A round of a window begins when the one before it has ended."""
    world.source.takes = 40.0
    await world.advance(100)
    world.source.queries.clear()
    await world.advance(400)
    moments = {query.at for query in world.source.queries if query.length == 300.0 and query.aggregate == "mean"}

    assert 3 <= len(moments) <= 5
    assert 2 == world.cycle().fresh


async def test_a_node_made_anew_is_another_node(world: World) -> None:
    """Its forerunner's samples are not its own."""
    world.kube.remove(NODES, "a")
    world.kube.put(NODES, a_node("a", uid="new", age=-1))
    await world.advance(30)
    told = [
        message
        for message in world.bus.published(NodeUtilization, NODE_USAGES)
        if message.node == "a" and message.uid == "new"
    ]

    assert all(not message.windows for message in told)
    assert 1 == world.cycle().expected


async def test_nodes_that_are_not_expected(world: World) -> None:
    """Young and unready nodes need not have data."""
    world.kube.put(NODES, a_node("young", age=100))
    world.kube.put(NODES, a_node("ill", ready=False))
    world.kube.put(NODES, a_node("dark"))
    await world.advance(20)
    cycle = world.cycle()

    assert (3, 2) == (cycle.expected, cycle.fresh)
    assert "no sample" in cycle.missing["dark"]


@pytest.mark.parametrize(
    ("skew", "fresh", "warned", "told"), [(1.0, 2, False, False), (3.0, 2, True, False), (-11.0, 0, True, True)]
)
async def test_another_clock_is_measured(world: World, skew: float, fresh: int, warned: bool, told: bool) -> None:
    """Published, warned of above two seconds, and above ten nothing is known."""
    world.source.skew = skew
    await world.advance(20)

    assert skew == pytest.approx(world.cycle().skew)
    assert fresh == world.cycle().fresh
    assert warned == ("clock" in world.health.problems)
    assert told == ("clock" in world.cycle().problem)


async def test_placements_are_told_at_once_and_together(world: World) -> None:
    """Changes within the gathering time are one message; nothing is said when nothing changed."""
    assert {"a", "b"} == world.placements().keys()
    before = len(world.bus.published(NodePlacement, PLACEMENTS))
    for number in range(5):
        world.kube.put(PODS, a_pod(f"new-{number}", "a", age=-1))
    world.kube.put(NODES, a_node("a"))
    await world.advance(0.06)
    assert before + 1 == len(world.bus.published(NodePlacement, PLACEMENTS))
    assert 6 == len(world.placements()["a"].pods)

    world.kube.put(NODES, a_node("a"))
    await world.advance(1)
    assert before + 1 == len(world.bus.published(NodePlacement, PLACEMENTS))


async def test_placements_are_repeated(world: World) -> None:
    """Every five minutes, with a higher sequence."""
    before = world.placements()["a"]
    await world.advance(301)
    after = world.placements()["a"]

    assert (before.epoch, True) == (after.epoch, after.sequence > before.sequence)


async def test_an_evicted_pod_is_gone_with_its_usage(world: World) -> None:
    """Readers take it off the means."""
    world.kube.remove(PODS, "db-0", "shop")
    await world.advance(1)
    (gone,) = world.placements()["a"].gone

    assert ("uid-db-0", 0.5) == (gone.uid, gone.usage.cpu)


async def test_a_deleted_node_is_told(world: World) -> None:
    """Readers forget it; it is repeated like every placement, for the one who missed it."""
    world.kube.remove(NODES, "b")
    await world.advance(1)
    once = [said for said in world.bus.published(NodePlacement, PLACEMENTS) if said.removed]
    await world.advance(301)
    again = [said for said in world.bus.published(NodePlacement, PLACEMENTS) if said.removed]

    assert world.placements()["b"].removed
    assert (1, 2) == (len(once), len(again))


async def test_what_could_not_be_said_is_said_later(world: World) -> None:
    """A lost bus loses nothing: placements and usage are said again when it is back."""
    world.bus.disconnect()
    world.kube.put(PODS, a_pod("late", "a", age=-1))
    await world.advance(5)
    count = len(world.nodes())
    await world.bus.reconnect()
    await world.advance(3)

    assert "late" in {pod.name for pod in world.placements()["a"].pods}
    assert count == len(world.nodes())


async def test_placements_are_told_at_once_after_minutes_without_the_bus(world: World) -> None:
    """However long it was away: a server that lost its streams knows of no node until then."""
    world.bus.disconnect()
    world.kube.put(PODS, a_pod("late", "a", age=-1))
    await world.advance(600)
    before = len(world.bus.published(NodePlacement, PLACEMENTS))
    await world.bus.reconnect()
    await world.advance(3)

    assert {"a", "b"} == {said.node for said in world.bus.published(NodePlacement, PLACEMENTS)[before:]}
    assert "late" in {pod.name for pod in world.placements()["a"].pods}


async def test_a_placement_that_is_never_taken_holds_up_no_other(world: World) -> None:
    """It is tried less and less often; what changes elsewhere is told as soon as ever."""
    vast = a_node("a")
    labels = {f"label-{number}": "x" * 1_000 for number in range(1_100)}
    world.kube.put(NODES, msgspec.structs.replace(vast, metadata=msgspec.structs.replace(vast.metadata, labels=labels)))
    await world.advance(240)
    world.kube.put(PODS, a_pod("late", "b", age=-1))
    await world.advance(1)

    assert "late" in {pod.name for pod in world.placements()["b"].pods}


async def test_a_placement_that_another_replica_tells_of_by_now_is_not_tried_again() -> None:
    """What was lost while its shard was ours is that one's to say: nothing wakes us for it every second."""
    world, settings = a_world(), CollectorSettings(leader_election=False, profile=NO_PROFILE, shards=2)
    async with world.bus, collecting(world, settings) as collector:
        await world.advance(1)
        world.bus.disconnect()
        world.kube.put(PODS, a_pod("late", "a", age=-1))
        await world.advance(2)
        assert collector._placement_publisher.tracker.due(math.inf) == ["a"]

        collector._shards.release(shard_of("a", 2))
        await world.bus.reconnect()
        await world.advance(10)
        assert collector._placement_publisher.tracker.due(math.inf) == []


async def test_a_placement_lost_in_a_blink_is_said_again(world: World) -> None:
    """Even when the bus is back before anybody saw that it was away."""
    world.bus.disconnect()
    world.kube.put(PODS, a_pod("late", "a", age=-1))
    await world.clock.advance(0.1)
    await world.bus.reconnect()
    await world.advance(3)

    assert "late" in {pod.name for pod in world.placements()["a"].pods}


async def test_only_the_leader_speaks() -> None:
    """A standby watches; when it takes over its epoch is higher, and it tells what was deleted meanwhile."""
    world, other = a_world(), FakeHealth()
    settings = CollectorSettings(profile=NO_PROFILE)
    standby = World(world.clock, world.bus, world.kube, FakeSource(world.clock, nodes=world.source.nodes), other)
    async with world.bus:
        async with collecting(world, settings):
            await world.advance(5)
            async with collecting(standby, settings, "two"):
                await world.advance(20)
                assert (True, False) == (world.health.leading, other.leading)
                assert (True, [], 1) == (other.warm, standby.source.queries, len(epochs(world)))
        async with collecting(standby, settings, "three"):
            await world.advance(20)
            assert other.leading

    assert 2 == len(epochs(world))
    assert world.nodes()["a"].epoch == max(epochs(world))


async def test_a_standby_tells_what_was_deleted_before_its_time() -> None:
    """Nobody else would: the old leader is gone and the new one never told of that node."""
    world, other = a_world(), FakeHealth()
    settings = CollectorSettings(profile=NO_PROFILE)
    standby = World(world.clock, world.bus, world.kube, FakeSource(world.clock, nodes=world.source.nodes), other)
    async with world.bus, asyncio.TaskGroup() as tasks:
        leader = tasks.create_task(one_collects(world, settings))
        await world.advance(5)
        async with collecting(standby, settings, "two"):
            await world.advance(5)
            world.bus.disconnect()
            world.kube.remove(NODES, "b")
            await world.advance(1)
            leader.cancel()
            await world.bus.reconnect()
            await world.advance(20)

            assert other.leading
            assert world.placements()["b"].removed


async def test_a_node_that_went_while_nobody_watched_is_taken_back() -> None:
    """A sole collector that comes back knows from the bus what it told, and says so of what is no more."""
    world = a_world()
    async with world.bus:
        for name in ("a", "ghost"):
            await world.bus.publish(subjects.node_placement(name), a_placement(name, epoch=1))
        async with collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
            await world.advance(1)

            ghost = world.placements()["ghost"]
            assert (True, "uid-ghost") == (ghost.removed, ghost.uid)
            assert not world.placements()["a"].removed


async def test_a_node_of_another_shard_is_left_alone() -> None:
    """Its own collector tells what became of it."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=NO_PROFILE, node_selector={"pool": "mine"})
    async with world.bus:
        for name in ("a", "ghost"):
            await world.bus.publish(subjects.node_placement(name), a_placement(name, epoch=1, labels={"pool": "other"}))
        async with collecting(world, settings):
            await world.advance(1)

            assert {"a": False, "ghost": False} == {name: said.removed for name, said in world.placements().items()}


async def test_an_epoch_is_above_every_one_before() -> None:
    """A predecessor whose clock ran ahead would else be believed for as long as the successor leads."""
    world = a_world()
    ahead = int((NOW + 3_600) * 1000)
    async with world.bus:
        await world.bus.publish(subjects.node_placement("a"), a_placement("a", epoch=ahead))
        async with collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
            await world.advance(1)

            assert world.placements()["a"].epoch > ahead


async def one_collects(world: World, settings: CollectorSettings) -> None:
    async with collecting(world, settings):
        await asyncio.Event().wait()


def epochs(world: World) -> set[int]:
    return {message.epoch for message in world.bus.published(NodeUtilization, NODE_USAGES)}


async def test_a_workloads_day_is_learnt() -> None:
    """The past day is asked for slot by slot; each slot is the mean of the pods."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))
    async with world.bus, collecting(world, settings):
        await world.advance(300)
        profile = world.workloads()["db"].profile

        assert [0.5] * 24 == profile["cpu"]
        assert 0.5 == world.workloads()["db"].windows["1d"].mean.cpu
        slots = {query.at for query in world.source.queries if query.subject == "pod" and query.at % 3_600 == 0}
        assert 24 == len(slots)
        world.source.pods["shop", "db-0", "a"].cpu = world.source.pods["shop", "db-1", "b"].cpu = 1.5
        await world.advance(3_700)
        assert 0.8 == pytest.approx(max(value or 0.0 for value in world.workloads()["db"].profile["cpu"]))


async def test_slots_remember_pods_that_left() -> None:
    """Who ran an hour ago and is gone now belongs to that hour of its workload."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))
    async with world.bus, collecting(world, settings):
        await world.advance(1)
        world.kube.remove(PODS, "db-1", "shop")
        world.source.pods["shop", "db-1", "b"].cpu = 1.5
        await world.advance(3_700)

        assert 1.0 == max(value or 0.0 for value in world.workloads()["db"].profile["cpu"])


async def test_a_slot_that_fails_holds_up_no_other() -> None:
    """What is too much for the source is asked for less and less often, and after all others."""
    world = a_world()
    newest = NOW - NOW % 3_600
    world.source.fails = lambda query: query.subject == "pod" and query.at == newest
    settings = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))
    async with world.bus, collecting(world, settings):
        await world.advance(3_000)
        queries = [
            query.at
            for query in world.source.queries
            if query.subject == "pod" and query.aggregate == "mean" and query.at % 3_600 == 0
        ]

        assert 24 == len(set(queries))
        assert queries.count(newest) <= 2 * 12
        assert 23 == sum(value is not None for value in world.workloads()["db"].profile["cpu"])


async def test_a_day_that_cannot_be_asked_for_is_a_problem() -> None:
    """Windows may be well while the hours are too large for one answer: profiles would stay empty in silence."""
    world = a_world()
    settings = CollectorSettings(leader_election=False)
    async with world.bus, collecting(world, settings):
        await world.advance(60)
        assert "profile" not in world.health.problems

        world.source.fails = lambda query: query.subject == "pod" and query.at < NOW
        await world.advance(60)
        assert "too many samples" in world.health.problems["profile"]

        world.source.fails = lambda query: False
        await world.advance(60)
        assert "profile" not in world.health.problems


def a_remembering_deployment(cpu: float = 2.0, sampled_at: float = NOW - 3_600) -> WorkloadObject:
    """Annotated, as by a collector of before."""
    day: dict[str, list[float | None]] = {"cpu": [cpu] * 24, "memory": [GIB] * 24}
    usage = workload_usage(a_workload_utilization(sampled_at=sampled_at, profile=day))
    assert usage is not None
    return WorkloadObject(metadata=ObjectMeta(name="web", namespace="shop", annotations=as_annotations(usage)))


def deploy(world: World, revision: str) -> None:
    """Two pods of the Deployment `web` by a ReplicaSet of its own; those of an earlier one go."""
    for pod in world.kube.stored(PODS):
        world.kube.remove(PODS, pod.metadata.name, "shop")
    world.source.pods.clear()
    name = f"web-{revision}"
    deployment = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="uid-web", controller=True)
    metadata = ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", owner_references=[deployment])
    world.kube.put(REPLICA_SETS, WorkloadObject(metadata=metadata))
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, uid=f"uid-{name}", controller=True)
    for node in ("a", "b"):
        pod = a_pod(f"{name}-{node}", node)
        owned = msgspec.structs.replace(pod.metadata, owner_references=[owner])
        world.kube.put(PODS, msgspec.structs.replace(pod, metadata=owned))
        world.source.pods["shop", pod.metadata.name, node] = Usage(cpu=0.5, memory=GIB)


@dataclass
class YoungSource(FakeSource):
    """It has seen the newest hour of the day that was, and nothing before."""

    async def query(self, query: MetricQuery) -> list[Sample]:
        answer = await super().query(query)
        unseen = query.subject == "pod" and query.length == 3_600 and query.at <= NOW - 3_600
        return [] if unseen else answer


def a_young_world() -> World:
    world = a_world()
    world.source = YoungSource(world.clock, nodes=world.source.nodes)
    deploy(world, "1")
    return world


LEARNING = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))


async def test_a_day_that_the_source_has_not_seen_is_taken_back_from_the_annotation() -> None:
    """What is measured later is smoothed onto it; no window is made of it; a rollout changes nothing."""
    world = a_young_world()
    world.kube.put(DEPLOYMENTS, a_remembering_deployment())
    async with world.bus, collecting(world, LEARNING):
        await world.advance(300)
        told = world.workloads()["web"]
        newest = slot_of(NOW - NOW % 3_600, 3_600)

        assert [2.0] * 23 == [*told.profile["cpu"][:newest], *told.profile["cpu"][newest + 1 :]]
        assert 0.7 * 2.0 + 0.3 * 0.5 == pytest.approx(told.profile["cpu"][newest])
        assert {"5m"} == told.windows.keys()
        assert [] == list(world.health.problems)

        deploy(world, "2")
        await world.advance(600)
        assert told.profile == world.workloads()["web"].profile


async def test_a_measured_hour_stays_when_annotations_come_late() -> None:
    """They could not be read at first: that is told, nothing else waits for it, and it is asked for again."""
    world = a_young_world()
    world.kube.put(DEPLOYMENTS, a_remembering_deployment())
    world.kube.faults.refuse("list", resource="deployments")
    async with world.bus, collecting(world, LEARNING):
        await world.advance(200)
        newest = slot_of(NOW - NOW % 3_600, 3_600)
        assert "list deployments.apps" in world.health.problems["profile annotations"]
        assert (0.5, 1) == (world.workloads()["web"].profile["cpu"][newest], len(world.health.problems))
        assert 23 == world.workloads()["web"].profile["cpu"].count(None)

        world.kube.faults.heal()
        await world.advance(150)
        assert {} == world.health.problems
        assert 0.5 == world.workloads()["web"].profile["cpu"][newest]
        assert 23 == world.workloads()["web"].profile["cpu"].count(2.0)
        assert 2 == sum(call.verb == "list" and call.resource == "deployments" for call in world.kube.calls)
        assert 1 == sum(call.verb == "list" and call.resource == "daemonsets" for call in world.kube.calls)


async def test_workloads_that_this_cluster_does_not_have_are_no_problem() -> None:
    """Neither Kruise nor Argo is there; what else stands on workloads is read. Nothing is, where no day is learnt."""
    world = a_young_world()
    world.kube.put(DEPLOYMENTS, a_remembering_deployment(cpu=11.0))
    for resource in ("clonesets", "rollouts"):
        world.kube.faults.refuse("list", status=404, resource=resource)
    async with world.bus, collecting(world, LEARNING):
        await world.advance(60)
        assert {} == world.health.problems
        assert 11.0 not in world.workloads()["web"].profile["cpu"]

    world = a_young_world()
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(60)
        assert "list" not in {call.verb for call in world.kube.calls}


class LosingBus(MemoryBus):
    """Calls `lost` while it takes the last word of a shard that is no more."""

    lost: Callable[[], None] | None = None

    async def publish_many(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> int:
        kept = await super().publish_many(messages)
        if self.lost is not None and any(subject.endswith("cycle.all-0") for subject, _ in messages):
            self.lost()
        return kept


async def test_a_shard_may_be_lost_while_an_earlier_division_is_dissolved() -> None:
    """The collector lives on, as a standby."""
    world = a_world()
    world.bus = bus = LosingBus(world.clock)
    async with bus:
        for shard in ("all-0", "all-1"):
            told = UtilizationCycle(shard=shard, cycle=1, expected=1, fresh=1, queried_at=NOW, epoch=1)
            await bus.publish(subjects.utilization_cycle(shard), told)
        async with collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)) as collector:
            bus.lost = lambda: collector._shards.release(0)
            await world.advance(10)
    assert not world.health.leading


def test_the_source_is_closed() -> None:
    """Its threads end with the service."""

    async def run() -> World:
        world = a_world()
        async with world.bus, collecting(world, CollectorSettings(leader_election=False)):
            await world.advance(1)
        return world

    assert asyncio.run(run()).source.closed
