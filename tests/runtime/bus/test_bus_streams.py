"""The setup of streams: right the first time, harmless the second, and by nobody who may not."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from builders import a_node_utilization, a_placement, an_intent
from bus_worlds import PATIENCE, NatsWorld, eventually
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.messages.message import Message
from equipoise.runtime.bus import AlreadyQueued, Bus, BusError, connect
from equipoise.runtime.bus.permissions import USERS, permission_file
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    world = NatsWorld(tmp_path / "nats")
    await world.start()
    yield world
    await world.stop()


async def test_the_streams_are_as_the_table_says(world: NatsWorld) -> None:
    """Every stream is kept in files; last values one per subject, intents as a queue that refuses a second one."""
    await setup_streams(world.settings, intent_max_age=180)
    async with await nats.connect(world.settings.url) as client:
        streams = {info.config.name: info.config for info in await client.jetstream().streams_info()}
        binder = await client.jetstream().consumer_info("EQUIPOISE_INTENT", "binder")
    assert set(streams) == {stream.name for stream in STREAMS}
    assert {config.storage for config in streams.values()} == {StorageType.FILE}
    intents = streams["EQUIPOISE_INTENT"]
    assert (intents.retention, intents.discard) == (RetentionPolicy.WORK_QUEUE, DiscardPolicy.NEW)
    assert (intents.max_msgs_per_subject, intents.discard_new_per_subject, intents.max_age) == (1, True, 180)
    assert streams["EQUIPOISE_UTILIZATION"].max_msgs_per_subject == 1
    assert streams["EQUIPOISE_UTILIZATION"].max_age == 1_800
    assert streams["EQUIPOISE_PLACEMENT"].max_age == 0
    assert streams["EQUIPOISE_OUTCOME"].max_bytes == 256 * 2**20
    assert (binder.config.ack_wait, binder.config.max_deliver) == (60, 10)
    assert not binder.config.backoff


def test_every_stream_has_a_maximum_size() -> None:
    """Or one could fill the disk of all."""
    assert [stream.name for stream in STREAMS if not 0 < stream.max_bytes <= 512 * 2**20] == []


async def test_running_it_again_changes_what_changed_and_loses_nothing(world: NatsWorld) -> None:
    """A second setup with another lifetime of intents updates the stream; messages and the consumer remain."""
    await setup_streams(world.settings, intent_max_age=180)
    async with connect(world.settings, "collector") as bus:
        await bus.publish(subjects.node_utilization("a"), a_node_utilization("a"))
    await setup_streams(world.settings, intent_max_age=180)
    await setup_streams(world.settings, intent_max_age=0.8)
    async with await nats.connect(world.settings.url) as client:
        intents = await client.jetstream().stream_info("EQUIPOISE_INTENT")
        utilization = await client.jetstream().stream_info("EQUIPOISE_UTILIZATION")
    assert intents.config.max_age == pytest.approx(0.8)
    assert intents.config.duplicate_window == pytest.approx(0.8)
    assert intents.state.consumer_count == 1
    assert utilization.state.messages == 1


async def test_an_intent_that_no_worker_took_expires(world: NatsWorld) -> None:
    """After it has expired its pod may get another one, even with the same message id."""
    await setup_streams(world.settings, intent_max_age=0.2)
    subject = subjects.eviction_intent("shop", "web-1")
    async with connect(world.settings, "descheduler") as bus:
        await bus.publish(subject, an_intent(), message_id="one")
        async with asyncio.timeout(PATIENCE):
            while not await _stored_again(bus, subject):  # noqa: ASYNC110  there is no event when a message expires
                await asyncio.sleep(0.02)


async def _stored_again(bus: Bus, subject: str) -> bool:
    try:
        return not (await bus.publish(subject, an_intent(), message_id="one")).duplicate
    except AlreadyQueued:
        return False


async def test_it_waits_for_nats(tmp_path: Path) -> None:
    """Setup that begins before NATS is there makes the streams once it is."""
    world = NatsWorld(tmp_path)
    setting_up = asyncio.create_task(setup_streams(world.settings, intent_max_age=60))
    await asyncio.wait([setting_up], timeout=0.1)
    await world.start()
    async with asyncio.timeout(PATIENCE):
        await setting_up
    await world.stop()


async def test_a_user_without_permission_to_create_streams_gets_an_error(tmp_path: Path) -> None:
    """Setup as a service's user fails at once with what is not permitted."""
    world = NatsWorld(tmp_path / "nats", permission_file(dict.fromkeys(USERS, "secret")))
    await world.start()
    (tmp_path / "password").write_text("secret")
    settings = Nats(url=world.settings.url, user="collector", password_file=str(tmp_path / "password"))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BusError, match="not permitted"):
            await setup_streams(settings, intent_max_age=60)
    await world.stop()


async def test_a_stream_that_cannot_become_ours_is_an_error(world: NatsWorld) -> None:
    """A foreign stream with the same subjects is an error with its name, instead of waiting without end."""
    async with await nats.connect(world.settings.url) as client:
        await client.jetstream().add_stream(name="FOREIGN", subjects=["equipoise.>"])
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BusError, match=r"EQUIPOISE_UTILIZATION: .*overlap"):
            await setup_streams(world.settings, intent_max_age=60)


async def test_a_bus_closes_quickly_whatever_its_handlers_do(world: NatsWorld) -> None:
    """Closing waits for handlers, but not for ever."""
    await setup_streams(world.settings, intent_max_age=60)
    begun = asyncio.Event()

    async def never_ends(delivery: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE):
        async with connect(world.settings, "scorer") as bus:
            await bus.subscribe("equipoise.utilization.node.*", type(a_node_utilization()), never_ends)
            await bus.publish(subjects.node_utilization("a"), a_node_utilization("a"))
            await eventually(begun.is_set)


class ShortLived(Message, frozen=True):
    """A message with a maximum age of its own."""

    @property
    def max_age(self) -> float:
        return 1.0


async def test_a_message_with_a_maximum_age_leaves_its_stream(world: NatsWorld) -> None:
    """The stream keeps the others. The removal of a node has a maximum age, its placement has none."""
    assert a_placement("node-a", removed=True).max_age == 86_400
    assert a_placement("node-a").max_age is None
    await setup_streams(world.settings, intent_max_age=60)
    async with connect(world.settings, "collector") as bus:
        await bus.publish(subjects.node_placement("gone"), ShortLived())
        await bus.publish(subjects.node_placement("node-a"), a_placement("node-a"))
    async with await nats.connect(world.settings.url) as client:

        async def stored() -> int:
            return (await client.jetstream().stream_info("EQUIPOISE_PLACEMENT")).state.messages

        assert await stored() == 2
        deadline = time.monotonic() + PATIENCE
        while await stored() == 2:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        assert await stored() == 1
