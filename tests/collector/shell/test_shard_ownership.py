"""Several collectors that share the nodes of one cluster, on an in-memory bus and API server."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from builders import NOW
from collector.collectors import FakeHealth, a_node, a_pod
from collector.sources_in_memory import FakeSource, Usage
from prometheus_client import CollectorRegistry

from equipoise.collector.decisions.sharding import shard_of
from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings, ProfileSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.node_coverage import coverage_problem
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.faults import Call
from equipoise.testbed.memory.kube import MemoryKube

COUNT = 40
SHARDS = 4
SETTINGS = CollectorSettings(shards=SHARDS, profile=ProfileSettings(enabled=False))
LOAD = LoadSettings()


@dataclass
class SharedCluster:
    """One cluster and the replicas of its collector."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    sources: dict[str, FakeSource] = field(default_factory=dict)
    health: dict[str, FakeHealth] = field(default_factory=dict)
    disconnected: set[str] = field(default_factory=set)
    """Replicas without a connection to the bus."""

    followed: set[str] = field(default_factory=set)
    """The channels that a replica follows."""

    not_ready: set[str] = field(default_factory=set)
    """Replicas whose heartbeats are not ready."""

    def __post_init__(self) -> None:
        self.bus = MemoryBus(self.clock)
        self.kube = MemoryKube(self.clock)
        self.usage: dict[str, Usage] = {}
        for number in range(COUNT):
            name = f"node-{number}"
            self.kube.put(NODES, a_node(name))
            self.kube.put(PODS, a_pod(f"db-{number}", name))
            self.usage[name] = Usage()

    async def begin(self, identity: str, settings: CollectorSettings = SETTINGS) -> None:
        source = self.sources[identity] = FakeSource(self.clock, nodes=self.usage)
        source.pods = {("shop", f"db-{number}", f"node-{number}"): Usage(cpu=0.5) for number in range(COUNT)}
        self.health[identity] = FakeHealth()
        collector = Collector(
            settings=settings, load=LOAD, namespace="equipoise-system", identity=identity, source=source,
            kube=self.kube, bus=Connection(self, identity), clock=self.clock, health=self.health[identity],
            metrics=CollectorRegistry(),
        )  # fmt: skip
        await collector.attach()
        self.running[identity] = asyncio.create_task(collector.run())

    async def kill(self, identity: str) -> None:
        """Without releasing its Leases: they expire."""
        self.kube.refuse("replace", resource="leases", status=0)
        task = self.running.pop(identity)
        task.cancel()
        await asyncio.wait([task])
        self.kube.clear_faults()

    async def advance(self, seconds: float) -> None:
        """Time passes, with heartbeats of the running replicas and bookmarks of the watches."""
        while seconds > 0:
            for identity in self.running.keys() - self.disconnected:
                part = self.health[identity].shard
                beat = Heartbeat(
                    service="collector", id=identity, version="", ready=identity not in self.not_ready, shard=part,
                    at=self.clock.now(),
                )  # fmt: skip
                await self.bus.publish(subjects.health("collector", identity), beat)
            self.kube.bookmark()
            await self.clock.advance(min(5, seconds))
            seconds -= 5
        await self.bus.settled()

    @property
    def transitions(self) -> dict[str, int]:
        """How often each Lease changed hands."""
        return {lease.metadata.name: lease.spec.lease_transitions for lease in self.kube.stored(LEASES)}

    @property
    def holders(self) -> dict[str, str]:
        return {lease.metadata.name: lease.spec.holder_identity for lease in self.kube.stored(LEASES)}

    def nodes(self) -> list[NodeUtilization]:
        return self.bus.published(NodeUtilization, "equipoise.utilization.node.*")

    def cycles(self) -> dict[str, UtilizationCycle]:
        """The last cycle of each shard."""
        published = self.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")
        return {cycle.shard: cycle for cycle in published}


class Connection:
    """One replica's connection to the bus."""

    def __init__(self, cluster: SharedCluster, identity: str) -> None:
        self._cluster = cluster
        self._identity = identity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.bus, name)

    @property
    def connected(self) -> bool:
        return self._identity not in self._cluster.disconnected

    async def publish_many(self, messages: Any) -> int:
        if not self.connected:
            raise BusError("disconnected")
        return await self._cluster.bus.publish_many(messages)

    async def follow(self, channel: Any, on_message: Any, **options: Any) -> None:
        self._cluster.followed.add(channel.pattern)
        await self._cluster.bus.follow(channel, on_message, **options)

    async def subscribe(self, subject: str, kind: Any, handler: Any) -> None:
        async def receive(delivery: Any) -> None:
            if self.connected:
                await handler(delivery)

        await self._cluster.bus.subscribe(subject, kind, receive)


@pytest.fixture
async def cluster() -> AsyncIterator[SharedCluster]:
    made = SharedCluster()
    async with made.bus:
        yield made
        for identity in list(made.running):
            task = made.running.pop(identity)
            task.cancel()
            await asyncio.wait([task])


async def two_replicas(cluster: SharedCluster) -> None:
    await cluster.begin("one")
    await cluster.begin("two")
    await cluster.advance(60)


async def test_replicas_share_the_nodes(cluster: SharedCluster) -> None:
    """Each holds half of the shards; every node is published by the holder of its shard alone."""
    await two_replicas(cluster)
    assert cluster.holders.keys() == {f"equipoise-collector-{shard}" for shard in range(SHARDS)}
    assert Counter(cluster.holders.values()) == {"one": 2, "two": 2}
    before = len(cluster.nodes())
    await cluster.advance(60)
    published = cluster.nodes()[before:]
    assert {message.node for message in published} == set(cluster.usage)
    for shard in range(SHARDS):
        ours = [message for message in published if shard_of(message.node, SHARDS) == shard]
        assert len({message.epoch for message in ours}) == 1
        orders = [(message.sequence, message.node) for message in ours]
        assert len(orders) == len(set(orders))


async def test_each_shard_has_its_own_cycle(cluster: SharedCluster) -> None:
    """Together they expect all nodes. A workload is published by one of them."""
    await two_replicas(cluster)
    cycles = cluster.cycles()
    assert cycles.keys() == {f"all-{shard}" for shard in range(SHARDS)}
    for shard in range(SHARDS):
        assert cycles[f"all-{shard}"].expected == sum(shard_of(name, SHARDS) == shard for name in cluster.usage)
    assert sum(cycle.fresh for cycle in cycles.values()) == COUNT
    workloads = cluster.bus.published(WorkloadUtilization, "equipoise.utilization.workload.>")
    assert {(message.workload.name, message.replicas) for message in workloads[-3:]} == {("db", COUNT)}
    assert len({message.epoch for message in workloads[-3:]}) == 1


async def test_shards_of_a_lost_replica_are_taken_over_within_thirty_seconds(cluster: SharedCluster) -> None:
    """No node is lost. The new holder has a higher epoch, and publishes what it has measured already."""
    await two_replicas(cluster)
    lost = {name for name, holder in cluster.holders.items() if holder == "two"}
    before = {message.node: message for message in cluster.nodes()}
    placed = cluster.bus.published(NodePlacement, "equipoise.placement.node.*")
    await cluster.kill("two")
    count, placed_count = len(cluster.nodes()), len(placed)
    await cluster.advance(30)
    assert set(cluster.holders.values()) == {"one"}
    published = {message.node: message for message in cluster.nodes()[count:]}
    assert published.keys() == set(cluster.usage)
    again = {
        published.node
        for published in cluster.bus.published(NodePlacement, "equipoise.placement.node.*")[placed_count:]
    }
    for name in cluster.usage:
        if f"equipoise-collector-{shard_of(name, SHARDS)}" in lost:
            assert published[name].epoch > before[name].epoch
            assert published[name].windows.keys() == before[name].windows.keys()
            assert name in again
    assert sum(cycle.fresh for cycle in cluster.cycles().values()) == COUNT


async def test_an_acquired_shard_is_published_at_once(cluster: SharedCluster) -> None:
    """With the last measurements: the next round may be half a minute later."""
    await two_replicas(cluster)
    lost = {shard for shard in range(SHARDS) if cluster.holders[f"equipoise-collector-{shard}"] == "two"}
    await cluster.kill("two")
    published_at: dict[tuple[int, int], float] = {}
    for _ in range(30):
        await cluster.advance(1)
        for message in cluster.nodes():
            published_at.setdefault((shard_of(message.node, SHARDS), message.epoch), cluster.clock.now())
    for shard in lost:
        epoch = max(epoch for known, epoch in published_at if known == shard)  # the time of acquisition in milliseconds
        assert published_at[shard, epoch] - epoch / 1_000 <= 3


async def test_a_shard_taken_from_a_lost_replica_is_not_released_again(cluster: SharedCluster) -> None:
    """Though the replica's last heartbeat is younger than its Lease."""
    await cluster.begin("one")
    await cluster.advance(30)
    await cluster.begin("two")
    await cluster.advance(30)
    before = cluster.transitions
    taken = {name: int(holder == "two") for name, holder in cluster.holders.items()}
    await cluster.kill("two")
    await cluster.advance(60)
    assert set(cluster.holders.values()) == {"one"}
    assert {name: count - before[name] for name, count in cluster.transitions.items()} == taken


async def test_no_shard_is_released_for_a_replica_that_is_not_ready(cluster: SharedCluster) -> None:
    """It has not listed the cluster yet; it gets its share when it is ready."""
    await cluster.begin("one")
    await cluster.advance(30)
    cluster.not_ready.add("two")
    await cluster.begin("two")
    await cluster.advance(60)
    assert set(cluster.holders.values()) == {"one"}
    assert set(cluster.transitions.values()) == {0}
    cluster.not_ready.clear()
    await cluster.advance(30)
    assert Counter(cluster.holders.values()) == {"one": 2, "two": 2}


async def test_a_replica_without_the_bus_releases_its_shards(cluster: SharedCluster) -> None:
    """Its Leases are fine, but it cannot publish. It gets its share again when it can."""
    await two_replicas(cluster)
    cluster.disconnected.add("two")
    await cluster.advance(40)
    assert set(cluster.holders.values()) == {"one"}
    before = len(cluster.nodes())
    await cluster.advance(20)
    assert {message.node for message in cluster.nodes()[before:]} == set(cluster.usage)
    cluster.disconnected.clear()
    await cluster.advance(60)
    assert Counter(cluster.holders.values()) == {"one": 2, "two": 2}


async def test_a_replica_that_has_the_bus_again_acquires_the_first_free_shard_that_it_reads(
    cluster: SharedCluster,
) -> None:
    """Not only after its next check of the bus: by its next read of the Lease, another may have acquired the shard."""
    await cluster.begin("one")
    await cluster.advance(30)
    cluster.running["another"] = asyncio.create_task(asyncio.sleep(0))
    cluster.health["another"] = cluster.health["one"]
    await cluster.advance(5)
    cluster.disconnected.add("one")
    await cluster.advance(15)
    assert set(cluster.holders.values()) == {""}
    read: list[str] = []

    async def reconnect(call: Call) -> None:
        if call.verb == "get" and call.resource == "leases" and not read:
            read.append(call.name)
            cluster.disconnected.clear()

    cluster.kube.on_call = reconnect
    while not read:
        await cluster.clock.advance(0.05)
    assert cluster.holders[read[0]] == "one"


async def test_after_an_outage_of_the_bus_every_node_is_published_at_once(cluster: SharedCluster) -> None:
    """Even when all replicas lost it for a minute."""
    await two_replicas(cluster)
    cluster.disconnected |= {"one", "two"}
    await cluster.advance(60)
    cluster.disconnected.clear()
    before = len(cluster.nodes())
    await cluster.advance(25)
    assert {message.node for message in cluster.nodes()[before:]} == set(cluster.usage)
    assert sum(cycle.fresh for cycle in cluster.cycles().values()) == COUNT


async def test_a_single_replica_keeps_its_shards_without_the_bus(cluster: SharedCluster) -> None:
    """No other replica could take them."""
    await cluster.begin("one")
    await cluster.advance(30)
    cluster.disconnected.add("one")
    await cluster.advance(60)
    assert set(cluster.holders.values()) == {"one"}
    assert set(cluster.transitions.values()) == {0}


async def test_replicas_that_reconnect_together_get_equal_shares(cluster: SharedCluster) -> None:
    """The first one does not take all free shards."""
    await two_replicas(cluster)
    before = cluster.transitions
    times = 8  # which replica reads a Lease first is random
    for _ in range(times):
        cluster.disconnected |= {"one", "two"}
        await cluster.advance(20)
        assert set(cluster.holders.values()) == {""}
        cluster.disconnected.clear()
        await cluster.advance(20)
        assert Counter(cluster.holders.values()) == {"one": 2, "two": 2}
    assert {name: count - before[name] for name, count in cluster.transitions.items()} == dict.fromkeys(before, times)


async def test_epochs_never_decrease_while_replicas_come_and_go(cluster: SharedCluster) -> None:
    """Subscribers would drop the messages."""
    await two_replicas(cluster)
    await cluster.begin("three")
    await cluster.advance(60)
    await cluster.kill("one")
    await cluster.advance(60)
    await cluster.begin("four")
    await cluster.advance(60)
    last: dict[str, tuple[int, int]] = {}
    for message in cluster.nodes():
        order = (message.epoch, message.sequence)
        assert order > last.get(message.node, (0, 0))
        last[message.node] = order
    assert Counter(cluster.holders.values()).most_common(1)[0][1] <= 2


async def test_a_new_replica_gets_its_share(cluster: SharedCluster) -> None:
    """The other one releases half of its shards; the gap is short."""
    await cluster.begin("one")
    await cluster.advance(30)
    assert set(cluster.holders.values()) == {"one"}
    await cluster.begin("two")
    await cluster.advance(30)
    assert Counter(cluster.holders.values()) == {"one": 2, "two": 2}
    before = len(cluster.nodes())
    await cluster.advance(20)
    assert {message.node for message in cluster.nodes()[before:]} == set(cluster.usage)


async def test_collectors_of_other_nodes_are_not_counted_as_replicas(cluster: SharedCluster) -> None:
    """They cannot take our shards."""
    others = CollectorSettings(
        shards=SHARDS, shard="blue", node_selector={"pool": "blue"}, profile=ProfileSettings(enabled=False)
    )
    await cluster.begin("one")
    await cluster.begin("two", others)
    await cluster.advance(60)
    assert Counter(cluster.holders.values()) == {"one": SHARDS, "two": SHARDS}
    assert set(cluster.transitions.values()) == {0}


async def test_a_standby_without_a_shard_does_not_query_the_source(cluster: SharedCluster) -> None:
    """With more replicas than shards."""
    settings = CollectorSettings(profile=ProfileSettings(enabled=False))
    await cluster.begin("one", settings)
    await cluster.advance(10)
    await cluster.begin("two", settings)
    await cluster.advance(30)
    assert cluster.sources["two"].queries == []
    assert cluster.holders == {"equipoise-collector": "one"}


async def test_a_new_holder_publishes_nothing_before_it_has_measured(cluster: SharedCluster) -> None:
    """A cycle without values would read as a cluster without coverage."""
    settings = CollectorSettings(profile=ProfileSettings(enabled=False))
    await cluster.begin("one", settings)
    await cluster.begin("two", settings)
    await cluster.advance(30)
    cluster.sources["two"].takes = 3.0
    await cluster.kill("one")
    before = len(cluster.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*"))
    await cluster.advance(60)
    cycles = cluster.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[before:]
    assert cycles
    assert {cycle.fresh for cycle in cycles} == {COUNT}


async def test_another_number_of_shards_expects_each_node_once(cluster: SharedCluster) -> None:
    """Subscribers would wait for the nodes of the previous cycles otherwise."""
    one = CollectorSettings(profile=ProfileSettings(enabled=False))
    await cluster.begin("one", one)
    await cluster.advance(20)
    assert cluster.cycles()["all"].expected == COUNT
    await cluster.kill("one")
    await cluster.begin("two")
    await cluster.advance(40)
    cycles = cluster.cycles()
    assert cycles["all"].expected == 0
    assert sum(cycle.expected for cycle in cycles.values()) == COUNT
    await cluster.kill("two")
    await cluster.begin("three", one)
    await cluster.advance(40)
    assert {shard: cycle.expected for shard, cycle in cluster.cycles().items() if cycle.expected} == {"all": COUNT}


async def test_cycles_published_during_a_rolling_update_are_ended_too(cluster: SharedCluster) -> None:
    """A new subscriber receives only the last cycle of each shard."""
    await cluster.begin("one", CollectorSettings(profile=ProfileSettings(enabled=False)))
    await cluster.advance(60)
    await cluster.begin("two")
    await cluster.advance(90)
    await cluster.kill("one")
    await cluster.advance(60)
    assert {shard for shard, cycle in cluster.cycles().items() if cycle.expected} == {f"all-{i}" for i in range(SHARDS)}


async def test_a_shard_without_cycles_is_missing_coverage_for_every_subscriber(cluster: SharedCluster) -> None:
    """Its nodes are still expected."""
    await two_replicas(cluster)
    at = cluster.clock.now()
    cycles = list(cluster.cycles().values())
    silent = max(cycles, key=lambda cycle: cycle.expected)
    fresh = COUNT - silent.expected
    assert coverage_problem(cycles, known=COUNT, load=LOAD, use="score", now=at) == ""
    assert coverage_problem(cycles, known=COUNT, load=LOAD, use="eviction", now=at) == ""
    later = at + 200
    received = [
        cycle if cycle is silent else UtilizationCycle(
            shard=cycle.shard, cycle=99, expected=cycle.expected, fresh=cycle.fresh, queried_at=later, epoch=cycle.epoch
        )
        for cycle in cycles
    ]  # fmt: skip
    stricter = LoadSettings(coverage=type(LOAD.coverage)(score=0.8))
    scores = coverage_problem(received, known=fresh, load=stricter, use="score", now=later)
    assert f"of {fresh} of {COUNT} nodes" in scores
    assert silent.shard in coverage_problem(received, known=fresh, load=LOAD, use="eviction", now=later)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (2, 4), (4, 2), (4, 1), (3, 4)])
async def test_a_rolling_update_to_another_number_of_shards_ends_no_current_shard(
    cluster: SharedCluster, before: int, after: int
) -> None:
    """The old collector does not end the new shards, and its own end in time."""
    await cluster.begin("one", CollectorSettings(shards=before, profile=ProfileSettings(enabled=False)))
    await cluster.advance(60)
    await cluster.begin("two", CollectorSettings(shards=after, profile=ProfileSettings(enabled=False)))
    await cluster.advance(60)
    await cluster.kill("one")
    await cluster.advance(LOAD.freshness.score + 60)
    latest: dict[str, UtilizationCycle] = {}
    for cycle in cluster.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*"):
        held = latest.get(cycle.shard)
        if held is None or (cycle.epoch, cycle.sequence) >= (held.epoch, held.sequence):
            latest[cycle.shard] = cycle
    assert sum(cycle.expected for cycle in latest.values()) == COUNT
    assert sum(cycle.fresh for cycle in latest.values()) == COUNT
    assert min(cycle.queried_at for cycle in latest.values() if cycle.expected) > cluster.clock.now() - 60


async def test_an_epoch_is_raised_above_that_of_another_collector(cluster: SharedCluster) -> None:
    """It published our nodes with a higher epoch during a rolling update."""
    await cluster.begin("one")
    await cluster.advance(60)
    await cluster.begin("two", CollectorSettings(profile=ProfileSettings(enabled=False)))
    await cluster.advance(60)
    await cluster.kill("one")
    for number in range(COUNT):
        cluster.kube.put(PODS, a_pod(f"new-{number}", f"node-{number}"))
    await cluster.advance(330)
    highest = {
        name: max(published.epoch for published in cluster.nodes() if published.node == name) for name in cluster.usage
    }
    placed = {
        published.node: published.epoch
        for published in cluster.bus.published(NodePlacement, "equipoise.placement.node.*")
    }
    assert {message.node: message.epoch for message in cluster.nodes()} == highest
    assert placed == highest
