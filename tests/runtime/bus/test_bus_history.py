"""What a stream holds, read from beginning to end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from bus_worlds import PATIENCE, NatsWorld, free_port

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.runtime.bus import BusError, BusUnavailable, connect
from equipoise.runtime.bus.nats.stream_reader import history
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock

ADVICE = next(stream for stream in STREAMS if stream.name == "EQUIPOISE_ADVICE")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    world = NatsWorld(tmp_path / "nats")
    await world.start()
    yield world
    await world.stop()


def a_review(hour: int, seen: float = 3_600.0) -> ClusterReview:
    return ClusterReview(since=hour * 3_600, until=(hour + 1) * 3_600, seen=seen, nodes=3)


async def read(settings: Nats, since: float, connect_timeout: float = PATIENCE) -> list[ClusterReview]:
    found = history(settings, "tap", ADVICE, since=since, clock=SystemClock(), connect_timeout=connect_timeout)
    return [msgspec.json.decode(payload, type=ClusterReview) async for _, payload in found]


async def test_messages_since_a_time_are_read_in_order(world: NatsWorld) -> None:
    """More than one batch; of a subject with several messages only the last; older ones are not read."""
    await setup_streams(world.settings, intent_max_age=60)
    before = SystemClock().now()
    async with connect(world.settings, "scorer") as bus:
        await bus.publish(subjects.cluster_review(0, 0), a_review(0, seen=1.0))
        for hour in range(300):
            await bus.publish(subjects.cluster_review(hour, hour * 3_600), a_review(hour))

    assert [int(each.since / 3_600) for each in await read(world.settings, before)] == list(range(300))
    assert {each.seen for each in await read(world.settings, before)} == {3_600.0}
    assert await read(world.settings, before + 60) == []


async def test_a_pattern_reads_only_its_subjects(world: NatsWorld) -> None:
    """A large stream need not be read completely."""
    await setup_streams(world.settings, intent_max_age=60)
    async with connect(world.settings, "scorer") as bus:
        for hour in range(3):
            await bus.publish(subjects.cluster_review(hour, hour * 3_600), a_review(hour))
    found = history(
        world.settings, "tap", ADVICE, since=0, clock=SystemClock(), pattern=subjects.cluster_review(1, 3_600)
    )

    assert [subject async for subject, _ in found] == [subjects.cluster_review(1, 3_600)]


async def test_an_empty_stream_has_no_history(world: NatsWorld) -> None:
    """A stream that does not exist is an error with the command that creates it."""
    with pytest.raises(BusError, match="equipoise setup"):
        await read(world.settings, 0)
    await setup_streams(world.settings, intent_max_age=60)

    assert await read(world.settings, 0) == []


async def test_a_bus_that_cannot_be_reached_is_an_error_after_a_short_time() -> None:
    """A person waits: unlike services, it does not wait without limit."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BusUnavailable, match="was not reached"):
            await read(Nats(url=f"nats://127.0.0.1:{free_port()}"), 0, connect_timeout=0.2)
