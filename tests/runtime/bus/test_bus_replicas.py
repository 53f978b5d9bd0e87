"""Streams with replicas on three real nats-servers, and streams that are missing, lost or foreign."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import nats
import pytest
from builders import a_node_utilization, an_intent
from bus_worlds import PATIENCE, NatsWorld, Received, eventually, nats_world
from nats_servers import SERVERS, NatsServers, nats_servers

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.streams import STREAMS, WORKERS
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import Bus, BusError, BusUnavailable, Delivery
from equipoise.runtime.bus.inspection import inspecting
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock

NODES = f"{subjects.PREFIX}.utilization.node.*"
INTENTS = next(stream for stream in STREAMS if stream.work_queue)
SUBJECT = subjects.eviction_intent("shop", "web-1")

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    async with nats_world(tmp_path) as world:
        yield world


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[NatsServers]:
    async with nats_servers(tmp_path) as servers:
        yield servers


async def stored(bus: Bus, node: str) -> None:
    """Publish until a stream takes the message."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await bus.publish(subjects.node_utilization(node), a_node_utilization(node))
                return
            except BusUnavailable:
                await asyncio.sleep(0.1)


@pytest.mark.weekly  # 40 s; the campaign also kills and separates servers
async def test_more_replicas_keep_the_messages_and_survive_the_loss_of_any_server(servers: NatsServers) -> None:
    """One replica becomes three; then the leader of a stream is killed, and the same connection continues."""
    settings = Nats(url=servers.url)
    await setup_streams(settings, intent_max_age=60)
    async with open_bus(settings, "scorer", SystemClock(), None, reconnect_pause=0.1) as bus:
        await bus.publish(SUBJECT, an_intent())
        await bus.publish(subjects.node_utilization("a"), a_node_utilization("a"))
        settings = msgspec.structs.replace(settings, replicas=3)
        await setup_streams(settings, intent_max_age=60)
        await servers.healthy()
        async with servers.client() as client:
            streams = {info.config.name: info for info in await client.jetstream().streams_info()}
            binder = await client.jetstream().consumer_info(INTENTS.name, WORKERS)
        assert {info.config.num_replicas for info in streams.values()} == {3}
        assert len(streams) == len(STREAMS)
        assert binder.cluster is not None
        assert {binder.cluster.leader, *(peer.name for peer in binder.cluster.replicas or ())} == set(SERVERS)
        async with inspecting(settings, "tap", SystemClock()) as inspection:
            assert (await _inspected(inspection.stream(INTENTS))) == {}
        async with inspecting(Nats(url=servers.url), "tap", SystemClock()) as inspection:
            assert (await _inspected(inspection.stream(INTENTS))) == {"num_replicas": ("3", "1")}
        await servers.kill(await servers.leader("EQUIPOISE_UTILIZATION"))
        await stored(bus, "b")
        received: Received[NodeUtilization] = Received()
        async with asyncio.timeout(PATIENCE):
            await bus.subscribe_latest(NODES, NodeUtilization, received)
        worked: Received[EvictionIntent] = Received()
        working = asyncio.create_task(bus.work(EvictionIntent, worked))
        await worked.until(1)
        working.cancel()
    assert {message.node for message in received.messages} == {"a", "b"}


async def _inspected(state: object) -> dict[str, tuple[str, str]]:
    found = await state  # type: ignore[misc]  # a coroutine of the inspection
    differences: dict[str, tuple[str, str]] = found.differences
    return differences


async def test_replicas_without_a_cluster_are_an_error_that_names_the_setting(world: NatsWorld) -> None:
    """Also for streams that exist with one replica."""
    settings = msgspec.structs.replace(world.settings, replicas=3)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BusError, match=r"EQUIPOISE_UTILIZATION: .*nats\.replicas is 3"):
            await setup_streams(settings, intent_max_age=60)


async def test_replicas_on_too_few_servers_are_an_error_that_names_the_setting(servers: NatsServers) -> None:
    """Takes seconds: no server responds for 5 s while they elect a leader, and setup tries again 3 s later."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BusError, match=r"EQUIPOISE_UTILIZATION: .*nats\.replicas is 5"):
            await setup_streams(Nats(url=servers.url, replicas=5), intent_max_age=60)


async def test_a_stream_of_someone_else_that_takes_the_message_is_a_problem(world: NatsWorld) -> None:
    """The publisher gets an acknowledgement, but no subscriber the message."""
    async with await nats.connect(world.settings.url) as client:
        streams = client.jetstream()
        await streams.delete_stream(INTENTS.name)
        await streams.add_stream(name="FOREIGN", subjects=["equipoise.eviction.intent.>"])
        with pytest.raises(BusUnavailable, match="FOREIGN"):
            await world.bus.publish(SUBJECT, an_intent())
        assert any(INTENTS.name in problem and "FOREIGN" in problem for problem in world.bus.problems)
        with pytest.raises(BusError, match=r"EQUIPOISE_INTENT: .*overlap"):
            await setup_streams(world.settings, intent_max_age=60)
        await streams.delete_stream("FOREIGN")
    await setup_streams(world.settings, intent_max_age=60)
    await world.bus.publish(SUBJECT, an_intent())
    assert list(world.bus.problems) == []


@pytest.mark.parametrize("lost", ["stream", "consumer"])
async def test_a_lost_queue_is_named_and_used_again_once_setup_has_created_it(world: NatsWorld, lost: str) -> None:
    """While a binder waits for work: no restart is necessary."""
    worked: Received[EvictionIntent] = Received()
    working = asyncio.create_task(world.bus.work(EvictionIntent, worked))
    await world.bus.publish(SUBJECT, an_intent())
    await worked.until(1)
    async with await nats.connect(world.settings.url) as client:
        if lost == "stream":
            await client.jetstream().delete_stream(INTENTS.name)
        else:
            await client.jetstream().delete_consumer(INTENTS.name, WORKERS)
    await eventually(lambda: any(INTENTS.name in problem and "setup" in problem for problem in world.bus.problems))
    await setup_streams(world.settings, intent_max_age=60)
    await world.bus.publish(subjects.eviction_intent("shop", "web-2"), an_intent())
    await worked.until(2)
    await eventually(lambda: not world.bus.problems)
    working.cancel()


async def test_a_queue_that_lost_messages_is_named_and_delivers_again_after_setup(world: NatsWorld) -> None:
    """As after a power failure: nats-server uses the numbers of lost messages again, and its consumer skips them."""
    worked: Received[EvictionIntent] = Received()

    async def work(delivery: Delivery[EvictionIntent]) -> None:
        await worked(delivery)
        if len(worked.deliveries) == 1:  # so the consumer waits for an acknowledgement of the first message
            await asyncio.Event().wait()

    working = asyncio.create_task(world.bus.work(EvictionIntent, work, concurrency=2))
    for number in range(3):
        await world.bus.publish(subjects.eviction_intent("shop", f"web-{number}"), an_intent())
        await worked.until(number + 1)
    await world.disconnect()  # the server has written the state of the consumer
    for file in [*world.directory.rglob(f"{INTENTS.name}/msgs/*")]:
        file.unlink()
    await world.reconnect()
    await eventually(lambda: any("skips the next 3" in problem for problem in world.bus.problems))
    await world.bus.publish(subjects.eviction_intent("shop", "web-4"), an_intent())
    assert len(worked.deliveries) == 3
    await setup_streams(world.settings, intent_max_age=60)
    await worked.until(4)
    await eventually(lambda: not world.bus.problems)
    working.cancel()


async def test_setup_names_what_to_do_about_damaged_files(world: NatsWorld) -> None:
    """nats-server keeps such a stream offline."""
    await world.disconnect()
    [file] = world.directory.rglob(f"{INTENTS.name}/obs/{WORKERS}/meta.inf")
    file.write_bytes(file.read_bytes().replace(b'"metadata"', b'"metadati"'))
    await world.reconnect()
    with pytest.raises(BusError, match=rf"{INTENTS.name}: .*offline.*nats stream rm"):
        await setup_streams(world.settings, intent_max_age=60)
    async with await nats.connect(world.settings.url) as client:
        await client.jetstream().delete_stream(INTENTS.name)
    await setup_streams(world.settings, intent_max_age=60)
    await world.bus.publish(SUBJECT, an_intent())


async def test_a_lost_stream_is_named_and_followed_again_once_setup_has_created_it(world: NatsWorld) -> None:
    """By the subscriber, before any message is published; no restart is necessary."""
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    async with await nats.connect(world.settings.url) as client:
        await client.jetstream().delete_stream("EQUIPOISE_UTILIZATION")
    await eventually(lambda: any("EQUIPOISE_UTILIZATION" in problem for problem in world.bus.problems))
    await setup_streams(world.settings, intent_max_age=60)
    await stored(world.bus, "a")
    await received.until(1)
    await eventually(lambda: not world.bus.problems)
