"""Several collectors that share a fleet, on a bus, an API server and a clock of memory."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from builders import NOW
from collector.sources_in_memory import FakeSource, Usage
from collector.test_service import FakeHealth, a_node, a_pod
from prometheus_client import CollectorRegistry

from equipoise.collector.decisions.sharding import shard_of
from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings, ProfileSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.coverage import coverage_problem
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

COUNT = 40
SHARDS = 4
SETTINGS = CollectorSettings(shards=SHARDS, profile=ProfileSettings(enabled=False))
LOAD = LoadSettings()


@dataclass
class Fleet:
    """One cluster, and the replicas that collect of it."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    sources: dict[str, FakeSource] = field(default_factory=dict)
    health: dict[str, FakeHealth] = field(default_factory=dict)
    cut_off: set[str] = field(default_factory=set)
    """Replicas that do not reach the bus, nor it them."""

    not_ready: set[str] = field(default_factory=set)
    """Replicas that say so."""

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
            kube=self.kube, bus=Line(self, identity), clock=self.clock, health=self.health[identity],
            metrics=CollectorRegistry(),
        )  # fmt: skip
        await collector.attach()
        self.running[identity] = asyncio.create_task(collector.run())

    async def die(self, identity: str) -> None:
        """Without a word: its Leases run out."""
        self.kube.refuse("replace", resource="leases", status=0)
        task = self.running.pop(identity)
        task.cancel()
        await asyncio.wait([task])
        self.kube.heal()

    async def advance(self, seconds: float) -> None:
        """Time passes; who lives says so every ten seconds, and the watches show that they live."""
        while seconds > 0:
            for identity in self.running.keys() - self.cut_off:
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
        """The last word of each shard."""
        said = self.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")
        return {cycle.shard: cycle for cycle in said}


class Line:
    """One replica's connection to the bus."""

    def __init__(self, fleet: Fleet, identity: str) -> None:
        self._fleet = fleet
        self._identity = identity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet.bus, name)

    @property
    def connected(self) -> bool:
        return self._identity not in self._fleet.cut_off

    async def publish_many(self, messages: Any) -> int:
        if not self.connected:
            raise BusError("cut off")
        return await self._fleet.bus.publish_many(messages)

    async def subscribe(self, subject: str, kind: Any, handler: Any) -> None:
        async def hear(delivery: Any) -> None:
            if self.connected:
                await handler(delivery)

        await self._fleet.bus.subscribe(subject, kind, hear)


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    made = Fleet()
    async with made.bus:
        yield made
        for identity in list(made.running):
            task = made.running.pop(identity)
            task.cancel()
            await asyncio.wait([task])


async def shared(fleet: Fleet) -> None:
    await fleet.begin("one")
    await fleet.begin("two")
    await fleet.advance(60)


async def test_replicas_share_the_fleet(fleet: Fleet) -> None:
    """Each holds its part of the shards; every node is told of, by the holder of its shard alone."""
    await shared(fleet)
    assert fleet.holders.keys() == {f"equipoise-collector-{shard}" for shard in range(SHARDS)}
    assert Counter(fleet.holders.values()) == {"one": 2, "two": 2}
    begun = len(fleet.nodes())
    await fleet.advance(60)
    told = fleet.nodes()[begun:]
    assert {message.node for message in told} == set(fleet.usage)
    for shard in range(SHARDS):
        ours = [message for message in told if shard_of(message.node, SHARDS) == shard]
        assert len({message.epoch for message in ours}) == 1
        orders = [(message.sequence, message.node) for message in ours]
        assert len(orders) == len(set(orders))


async def test_each_shard_ends_its_round_with_a_cycle_of_its_own(fleet: Fleet) -> None:
    """Together they expect the whole fleet, each what is its own; and a workload is told of by one of them, whole."""
    await shared(fleet)
    cycles = fleet.cycles()
    assert cycles.keys() == {f"all-{shard}" for shard in range(SHARDS)}
    for shard in range(SHARDS):
        assert cycles[f"all-{shard}"].expected == sum(shard_of(name, SHARDS) == shard for name in fleet.usage)
    assert sum(cycle.fresh for cycle in cycles.values()) == COUNT
    workloads = fleet.bus.published(WorkloadUtilization, "equipoise.utilization.workload.>")
    assert {(message.workload.name, message.replicas) for message in workloads} == {("db", COUNT)}
    assert len({message.epoch for message in workloads[-3:]}) == 1


async def test_what_a_lost_replica_held_is_taken_over_within_thirty_seconds(fleet: Fleet) -> None:
    """No node is lost; the new holder speaks louder than the old one did, and from what it has measured already."""
    await shared(fleet)
    lost = {name for name, holder in fleet.holders.items() if holder == "two"}
    before = {message.node: message for message in fleet.nodes()}
    placed = fleet.bus.published(NodePlacement, "equipoise.placement.node.*")
    await fleet.die("two")
    begun, fleet_begun = len(fleet.nodes()), len(placed)
    await fleet.advance(30)
    assert set(fleet.holders.values()) == {"one"}
    told = {message.node: message for message in fleet.nodes()[begun:]}
    assert told.keys() == set(fleet.usage)
    again = {said.node for said in fleet.bus.published(NodePlacement, "equipoise.placement.node.*")[fleet_begun:]}
    for name in fleet.usage:
        if f"equipoise-collector-{shard_of(name, SHARDS)}" in lost:
            assert told[name].epoch > before[name].epoch
            assert told[name].windows.keys() == before[name].windows.keys()
            assert name in again
    assert sum(cycle.fresh for cycle in fleet.cycles().values()) == COUNT


async def test_what_is_taken_over_is_told_of_at_once(fleet: Fleet) -> None:
    """From what was measured of late: the next round may be half a minute away."""
    await shared(fleet)
    lost = {shard for shard in range(SHARDS) if fleet.holders[f"equipoise-collector-{shard}"] == "two"}
    await fleet.die("two")
    told_at: dict[tuple[int, int], float] = {}
    for _ in range(30):
        await fleet.advance(1)
        for message in fleet.nodes():
            told_at.setdefault((shard_of(message.node, SHARDS), message.epoch), fleet.clock.now())
    for shard in lost:
        epoch = max(epoch for known, epoch in told_at if known == shard)  # milliseconds of when it was taken
        assert told_at[shard, epoch] - epoch / 1_000 <= 3


async def test_what_is_taken_from_a_lost_replica_is_kept(fleet: Fleet) -> None:
    """Though its last heartbeat is younger than its Lease was: it is not given to the dead."""
    await fleet.begin("one")
    await fleet.advance(30)
    await fleet.begin("two")
    await fleet.advance(30)
    before = fleet.transitions
    taken = {name: int(holder == "two") for name, holder in fleet.holders.items()}
    await fleet.die("two")
    await fleet.advance(60)
    assert set(fleet.holders.values()) == {"one"}
    assert {name: count - before[name] for name, count in fleet.transitions.items()} == taken


async def test_nothing_is_given_to_a_replica_that_is_not_ready(fleet: Fleet) -> None:
    """It has not read the cluster yet; once it is ready it gets its share."""
    await fleet.begin("one")
    await fleet.advance(30)
    fleet.not_ready.add("two")
    await fleet.begin("two")
    await fleet.advance(60)
    assert set(fleet.holders.values()) == {"one"}
    assert set(fleet.transitions.values()) == {0}
    fleet.not_ready.clear()
    await fleet.advance(30)
    assert Counter(fleet.holders.values()) == {"one": 2, "two": 2}


async def test_a_replica_that_is_cut_off_from_the_bus_lets_others_speak(fleet: Fleet) -> None:
    """Its Leases are fine, its shards would be silent; it takes its share again when it can speak."""
    await shared(fleet)
    fleet.cut_off.add("two")
    await fleet.advance(40)
    assert set(fleet.holders.values()) == {"one"}
    begun = len(fleet.nodes())
    await fleet.advance(20)
    assert {message.node for message in fleet.nodes()[begun:]} == set(fleet.usage)
    fleet.cut_off.clear()
    await fleet.advance(60)
    assert Counter(fleet.holders.values()) == {"one": 2, "two": 2}


async def test_no_bus_for_anybody_costs_nobody_the_fleet(fleet: Fleet) -> None:
    """When it is back after a minute, every node is told of at once again."""
    await shared(fleet)
    fleet.cut_off |= {"one", "two"}
    await fleet.advance(60)
    fleet.cut_off.clear()
    begun = len(fleet.nodes())
    await fleet.advance(25)
    assert {message.node for message in fleet.nodes()[begun:]} == set(fleet.usage)
    assert sum(cycle.fresh for cycle in fleet.cycles().values()) == COUNT


async def test_who_is_alone_keeps_its_shards_without_the_bus(fleet: Fleet) -> None:
    """There is nobody else to speak for them: once it is back it need not wait for any Lease."""
    await fleet.begin("one")
    await fleet.advance(30)
    fleet.cut_off.add("one")
    await fleet.advance(60)
    assert set(fleet.holders.values()) == {"one"}
    assert set(fleet.transitions.values()) == {0}


async def test_replicas_that_come_back_together_take_their_share_each(fleet: Fleet) -> None:
    """What lay free while nobody reached the bus is not all taken by the first one that does."""
    await shared(fleet)
    before = fleet.transitions
    times = 8  # who looks at which Lease first is chance
    for _ in range(times):
        fleet.cut_off |= {"one", "two"}
        await fleet.advance(20)
        assert set(fleet.holders.values()) == {""}
        fleet.cut_off.clear()
        await fleet.advance(20)
        assert Counter(fleet.holders.values()) == {"one": 2, "two": 2}
    assert {name: count - before[name] for name, count in fleet.transitions.items()} == dict.fromkeys(before, times)


async def test_no_epoch_is_followed_by_a_lower_one(fleet: Fleet) -> None:
    """While replicas come and go every node's messages stay in order: what readers would drop is not said."""
    await shared(fleet)
    await fleet.begin("three")
    await fleet.advance(60)
    await fleet.die("one")
    await fleet.advance(60)
    await fleet.begin("four")
    await fleet.advance(60)
    last: dict[str, tuple[int, int]] = {}
    for message in fleet.nodes():
        order = (message.epoch, message.sequence)
        assert order > last.get(message.node, (0, 0))
        last[message.node] = order
    assert Counter(fleet.holders.values()).most_common(1)[0][1] <= 2


async def test_a_replica_that_comes_later_gets_its_share(fleet: Fleet) -> None:
    """The one that had all gives back half; it is quiet in between for no longer than a look at the Lease takes."""
    await fleet.begin("one")
    await fleet.advance(30)
    assert set(fleet.holders.values()) == {"one"}
    await fleet.begin("two")
    await fleet.advance(30)
    assert Counter(fleet.holders.values()) == {"one": 2, "two": 2}
    begun = len(fleet.nodes())
    await fleet.advance(20)
    assert {message.node for message in fleet.nodes()[begun:]} == set(fleet.usage)


async def test_collectors_of_other_nodes_are_not_counted_upon(fleet: Fleet) -> None:
    """They take no shard of ours: who is alone with its nodes keeps them all, without a pause."""
    others = CollectorSettings(
        shards=SHARDS, shard="blue", node_selector={"pool": "blue"}, profile=ProfileSettings(enabled=False)
    )
    await fleet.begin("one")
    await fleet.begin("two", others)
    await fleet.advance(60)
    assert Counter(fleet.holders.values()) == {"one": SHARDS, "two": SHARDS}
    assert set(fleet.transitions.values()) == {0}


async def test_a_standby_without_a_shard_asks_nothing(fleet: Fleet) -> None:
    """More replicas than shards: it watches and waits."""
    settings = CollectorSettings(profile=ProfileSettings(enabled=False))
    await fleet.begin("one", settings)
    await fleet.advance(10)
    await fleet.begin("two", settings)
    await fleet.advance(30)
    assert fleet.sources["two"].queries == []
    assert fleet.holders == {"equipoise-collector": "one"}


async def test_who_takes_over_says_nothing_before_it_has_measured(fleet: Fleet) -> None:
    """However slow the source: a cycle without values would be taken for a fleet that nobody sees."""
    settings = CollectorSettings(profile=ProfileSettings(enabled=False))
    await fleet.begin("one", settings)
    await fleet.begin("two", settings)
    await fleet.advance(30)
    fleet.sources["two"].takes = 3.0
    await fleet.die("one")
    begun = len(fleet.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*"))
    await fleet.advance(60)
    cycles = fleet.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[begun:]
    assert cycles
    assert {cycle.fresh for cycle in cycles} == {COUNT}


async def test_a_fleet_that_is_divided_otherwise_is_expected_once(fleet: Fleet) -> None:
    """Else the cycles of before would wait for their nodes until the bus forgets them."""
    one = CollectorSettings(profile=ProfileSettings(enabled=False))
    await fleet.begin("one", one)
    await fleet.advance(20)
    assert fleet.cycles()["all"].expected == COUNT
    await fleet.die("one")
    await fleet.begin("two")
    await fleet.advance(40)
    cycles = fleet.cycles()
    assert cycles["all"].expected == 0
    assert sum(cycle.expected for cycle in cycles.values()) == COUNT
    await fleet.die("two")
    await fleet.begin("three", one)
    await fleet.advance(40)
    assert {shard: cycle.expected for shard, cycle in fleet.cycles().items() if cycle.expected} == {"all": COUNT}


async def test_what_an_earlier_division_says_at_last_is_dissolved_too(fleet: Fleet) -> None:
    """In a rolling update it speaks on for a while: a reader that starts anew has only its last word."""
    await fleet.begin("one", CollectorSettings(profile=ProfileSettings(enabled=False)))
    await fleet.advance(60)
    await fleet.begin("two")
    await fleet.advance(90)
    await fleet.die("one")
    await fleet.advance(60)
    assert {shard for shard, cycle in fleet.cycles().items() if cycle.expected} == {f"all-{i}" for i in range(SHARDS)}


async def test_a_silent_shard_is_missing_coverage_for_every_reader(fleet: Fleet) -> None:
    """Not a smaller fleet: its nodes are still expected, and nobody knows their load."""
    await shared(fleet)
    at = fleet.clock.now()
    cycles = list(fleet.cycles().values())
    silent = max(cycles, key=lambda cycle: cycle.expected)
    fresh = COUNT - silent.expected
    assert coverage_problem(cycles, known=COUNT, load=LOAD, use="score", now=at) == ""
    assert coverage_problem(cycles, known=COUNT, load=LOAD, use="eviction", now=at) == ""
    later = at + 200
    heard = [
        cycle if cycle is silent else UtilizationCycle(
            shard=cycle.shard, cycle=99, expected=cycle.expected, fresh=cycle.fresh, queried_at=later, epoch=cycle.epoch
        )
        for cycle in cycles
    ]  # fmt: skip
    stricter = LoadSettings(coverage=type(LOAD.coverage)(score=0.8))
    scores = coverage_problem(heard, known=fresh, load=stricter, use="score", now=later)
    assert f"of {fresh} of {COUNT} nodes" in scores
    assert silent.shard in coverage_problem(heard, known=fresh, load=LOAD, use="eviction", now=later)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (2, 4), (4, 2), (4, 1), (3, 4)])
async def test_a_rolling_update_to_another_division_silences_no_shard(fleet: Fleet, before: int, after: int) -> None:
    """Who is of the old division does not take the new one's for earlier ones; what it said last ends in time."""
    await fleet.begin("one", CollectorSettings(shards=before, profile=ProfileSettings(enabled=False)))
    await fleet.advance(60)
    await fleet.begin("two", CollectorSettings(shards=after, profile=ProfileSettings(enabled=False)))
    await fleet.advance(60)
    await fleet.die("one")
    await fleet.advance(LOAD.freshness.score + 60)
    believed: dict[str, UtilizationCycle] = {}
    for cycle in fleet.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*"):
        held = believed.get(cycle.shard)
        if held is None or (cycle.epoch, cycle.sequence) >= (held.epoch, held.sequence):
            believed[cycle.shard] = cycle
    assert sum(cycle.expected for cycle in believed.values()) == COUNT
    assert sum(cycle.fresh for cycle in believed.values()) == COUNT
    assert min(cycle.queried_at for cycle in believed.values() if cycle.expected) > fleet.clock.now() - 60


async def test_a_node_that_another_division_told_of_later_is_spoken_of_louder(fleet: Fleet) -> None:
    """It took shards once more while both were there: what we say of their nodes would be dropped while we lead."""
    await fleet.begin("one")
    await fleet.advance(60)
    await fleet.begin("two", CollectorSettings(profile=ProfileSettings(enabled=False)))
    await fleet.advance(60)
    await fleet.die("one")
    for number in range(COUNT):
        fleet.kube.put(PODS, a_pod(f"new-{number}", f"node-{number}"))
    await fleet.advance(330)
    loudest = {name: max(said.epoch for said in fleet.nodes() if said.node == name) for name in fleet.usage}
    placed = {said.node: said.epoch for said in fleet.bus.published(NodePlacement, "equipoise.placement.node.*")}
    assert {message.node: message.epoch for message in fleet.nodes()} == loudest
    assert placed == loudest
