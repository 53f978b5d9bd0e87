"""Placements and cycles on the bus."""

import math
from collections.abc import Callable, Sequence

import msgspec
from builders import NOW, a_placement
from collector.collectors import NO_PROFILE, PLACEMENTS, World, a_node, a_pod, a_world, collecting

from equipoise.collector.decisions.sharding import shard_of
from equipoise.collector.settings import CollectorSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.runtime.kubernetes.client import NODES, PODS
from equipoise.testbed.memory.bus import MemoryBus


async def test_changes_within_the_batch_period_are_one_message(world: World) -> None:
    """Nothing is published when nothing has changed."""
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


async def test_placements_are_published_again_every_resync_period(world: World) -> None:
    """With a higher sequence."""
    before = world.placements()["a"]
    await world.advance(301)
    after = world.placements()["a"]

    assert (before.epoch, True) == (after.epoch, after.sequence > before.sequence)


async def test_an_evicted_pod_is_listed_as_gone_with_its_usage(world: World) -> None:
    """Subscribers subtract it from the means."""
    world.kube.remove(PODS, "db-0", "shop")
    await world.advance(1)
    (gone,) = world.placements()["a"].gone

    assert ("uid-db-0", 0.5) == (gone.uid, gone.usage.cpu)


async def test_a_deleted_node_is_published(world: World) -> None:
    """And again with every resync."""
    world.kube.remove(NODES, "b")
    await world.advance(1)
    once = [published for published in world.bus.published(NodePlacement, PLACEMENTS) if published.removed]
    await world.advance(301)
    again = [published for published in world.bus.published(NodePlacement, PLACEMENTS) if published.removed]

    assert world.placements()["b"].removed
    assert (1, 2) == (len(once), len(again))


async def test_messages_lost_during_an_outage_of_the_bus_are_published_later(world: World) -> None:
    """Placements and utilization."""
    world.bus.disconnect()
    world.kube.put(PODS, a_pod("late", "a", age=-1))
    await world.advance(5)
    count = len(world.nodes())
    await world.bus.reconnect()
    await world.advance(3)

    assert "late" in {pod.name for pod in world.placements()["a"].pods}
    assert count == len(world.nodes())


async def test_all_placements_are_published_at_once_after_a_long_outage_of_the_bus(world: World) -> None:
    """A server that lost its streams has none of them."""
    world.bus.disconnect()
    world.kube.put(PODS, a_pod("late", "a", age=-1))
    await world.advance(600)
    before = len(world.bus.published(NodePlacement, PLACEMENTS))
    await world.bus.reconnect()
    await world.advance(3)

    assert {"a", "b"} == {published.node for published in world.bus.published(NodePlacement, PLACEMENTS)[before:]}
    assert "late" in {pod.name for pod in world.placements()["a"].pods}


async def test_a_placement_that_the_bus_never_keeps_does_not_delay_others(world: World) -> None:
    """It is retried with backoff."""
    vast = a_node("a")
    labels = {f"label-{number}": "x" * 1_000 for number in range(1_100)}
    world.kube.put(NODES, msgspec.structs.replace(vast, metadata=msgspec.structs.replace(vast.metadata, labels=labels)))
    await world.advance(240)
    world.kube.put(PODS, a_pod("late", "b", age=-1))
    await world.advance(1)

    assert "late" in {pod.name for pod in world.placements()["b"].pods}


async def test_a_failed_placement_of_a_released_shard_is_not_retried() -> None:
    """The new holder of the shard publishes the node."""
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


async def test_a_placement_lost_in_a_very_short_outage_is_published_again(world: World) -> None:
    """Even when the bus is back before the next check."""
    world.bus.disconnect()
    world.kube.put(PODS, a_pod("late", "a", age=-1))
    await world.clock.advance(0.1)
    await world.bus.reconnect()
    await world.advance(3)

    assert "late" in {pod.name for pod in world.placements()["a"].pods}


async def test_a_node_deleted_while_no_collector_watched_is_published_as_removed() -> None:
    """The collector knows it from the bus."""
    world = a_world()
    async with world.bus:
        for name in ("a", "ghost"):
            await world.bus.publish(subjects.node_placement(name), a_placement(name, epoch=1))
        async with collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
            await world.advance(1)

            ghost = world.placements()["ghost"]
            assert (True, "uid-ghost", NOW - 90_000) == (ghost.removed, ghost.uid, ghost.created_at)
            assert not world.placements()["a"].removed


async def test_a_node_of_another_selector_is_not_published_as_removed() -> None:
    """Its own collector does that."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=NO_PROFILE, node_selector={"pool": "mine"})
    async with world.bus:
        for name in ("a", "ghost"):
            await world.bus.publish(subjects.node_placement(name), a_placement(name, epoch=1, labels={"pool": "other"}))
        async with collecting(world, settings):
            await world.advance(1)

            assert {"a": False, "ghost": False} == {
                name: published.removed for name, published in world.placements().items()
            }


async def test_an_epoch_is_higher_than_every_previous_one() -> None:
    """Even when the clock of the predecessor was ahead."""
    world = a_world()
    ahead = int((NOW + 3_600) * 1000)
    async with world.bus:
        await world.bus.publish(subjects.node_placement("a"), a_placement("a", epoch=ahead))
        async with collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
            await world.advance(1)

            assert world.placements()["a"].epoch > ahead


class LosingBus(MemoryBus):
    """Calls `lost` while it keeps the last cycle of an obsolete shard."""

    lost: Callable[[], None] | None = None

    async def publish_many(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> int:
        count = await super().publish_many(messages)
        if self.lost is not None and any(subject.endswith("cycle.all-0") for subject, _ in messages):
            self.lost()
        return count


async def test_a_shard_may_be_released_while_obsolete_shards_are_ended() -> None:
    """The collector continues as a standby."""
    world = a_world()
    world.bus = bus = LosingBus(world.clock)
    async with bus:
        for shard in ("all-0", "all-1"):
            published = UtilizationCycle(shard=shard, cycle=1, expected=1, fresh=1, queried_at=NOW, epoch=1)
            await bus.publish(subjects.utilization_cycle(shard), published)
        async with collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)) as collector:
            bus.lost = lambda: collector._shards.release(0)
            await world.advance(10)
    assert not world.health.leading
