"""The collector as a whole, on an in-memory bus, API server and source."""

import asyncio

from builders import GIB, NOW
from collector.collectors import (
    NO_PROFILE,
    NODE_USAGES,
    FakeHealth,
    World,
    a_pod,
    a_world,
    at,
    collecting,
)
from collector.sources_in_memory import FakeSource

from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS


async def test_the_first_round_publishes_every_node(world: World) -> None:
    """All windows, the pods' usage by UID, and the system usage."""
    node = world.nodes()["a"]

    assert {"5m", "15m", "1h", "1d"} == node.windows.keys()
    assert (2.0, 8 * GIB) == (node.windows["1d"].mean.cpu, node.windows["1d"].mean.memory)
    assert {"uid-db-0": (0.5, GIB)} == {uid: (used.cpu, used.memory) for uid, used in node.pods.items()}
    assert (1.5, 7 * GIB) == (node.system.cpu, node.system.memory)
    assert ("uid-a", 10.0) == (node.uid, node.base.cpu)
    assert 5.0 == node.queried_at - node.sampled_at
    assert world.health.warm


async def test_a_round_ends_with_a_cycle(world: World) -> None:
    """How many nodes are expected to have data, and how many have."""
    cycle = world.cycle()

    assert (2, 2, {}, "") == (cycle.expected, cycle.fresh, cycle.missing, cycle.problem)


async def test_each_window_has_its_own_refresh_period(world: World) -> None:
    """The shortest is measured every 15 s, the longest every half hour; all queries of a round have the same time."""
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
    times = {
        (query.length, query.at) for query in world.source.queries if query.aggregate in ("mean", "count", "newest")
    }
    assert sum(count.values()) == len(times)


async def test_a_source_runs_on_a_standby_too() -> None:
    """A source without retention has a history when the standby takes over."""
    world = a_world()
    held = LeaseSpec(holder_identity="another", lease_duration_seconds=3_600, acquire_time=at(NOW), renew_time=at(NOW))
    metadata = ObjectMeta(name="equipoise-collector", namespace="equipoise-system")
    world.kube.put(LEASES, Lease(metadata=metadata, spec=held))
    async with world.bus, collecting(world, CollectorSettings(profile=NO_PROFILE)):
        await world.advance(60)

        assert (False, True, []) == (world.health.leading, world.source.runs, world.source.queries)


async def test_a_standby_prunes_gone_pods_too() -> None:
    """It watches for weeks, and its first messages must not be too large."""
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


async def test_a_slow_source_gets_no_overlapping_rounds(world: World) -> None:
    """A round of a window begins when the previous one has ended."""
    world.source.takes = 40.0
    await world.advance(100)
    world.source.queries.clear()
    await world.advance(400)
    times = {query.at for query in world.source.queries if query.length == 300.0 and query.aggregate == "mean"}

    assert 3 <= len(times) <= 5
    assert 2 == world.cycle().fresh


async def test_only_the_leader_publishes() -> None:
    """A standby watches. When it takes over, its epoch is higher."""
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


async def test_a_new_leader_publishes_nodes_deleted_before_its_time() -> None:
    """The previous leader did not."""
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


async def one_collects(world: World, settings: CollectorSettings) -> None:
    async with collecting(world, settings):
        await asyncio.Event().wait()


def epochs(world: World) -> set[int]:
    return {message.epoch for message in world.bus.published(NodeUtilization, NODE_USAGES)}


def test_the_source_is_closed_with_the_service() -> None:
    """Its threads end."""

    async def run() -> World:
        world = a_world()
        async with world.bus, collecting(world, CollectorSettings(leader_election=False)):
            await world.advance(1)
        return world

    assert asyncio.run(run()).source.closed


async def test_why_the_installation_found_no_source_is_a_problem() -> None:
    """Else only the default URL is named, which nobody has chosen. A source that is configured or found needs no
    reason."""
    reason = "nothing is measured: no Service of the cluster is that of a Prometheus"
    for prometheus, problems in (
        (PrometheusSettings(), {"no source": reason}),
        (PrometheusSettings(url="http://mine:9090"), {}),
    ):
        world = a_world()
        async with collecting(world, CollectorSettings(prometheus=prometheus), discovery=reason):
            assert world.health.problems == problems
