"""The bus when there is much on it, when it lost everything, and when something on it does not work: seen soon."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import nats
import pytest
from builders import a_node_utilization, an_intent
from bus_worlds import INTENT_LIFETIME, NatsWorld, Received, eventually, nats_world
from nats.js.api import DiscardPolicy
from prometheus_client import CollectorRegistry
from runtime.bus.test_bus_nats import NODES, signal_server

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import Bus, BusUnavailable, Delivery
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.bus.permissions import USERS, permission_file
from equipoise.runtime.bus.setup import setup_streams, stream_config
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health, serving_health

FLEET = 600
"""Nodes: more than one batch."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    async with nats_world(tmp_path) as world:
        yield world


async def say_round(bus: Bus, number: int, nodes: int = FLEET) -> None:
    messages = [(subjects.node_utilization(f"n{n}"), a_node_utilization(f"n{n}", cpu=number)) for n in range(nodes)]
    assert await bus.publish_many(messages) == nodes


def newest(deliveries: list[Delivery[NodeUtilization]]) -> dict[str, float | None]:
    return {each.message.node: each.message.windows["5m"].mean.cpu for each in deliveries}


async def test_a_restarted_consumer_gets_the_last_value_of_every_subject(world: NatsWorld) -> None:
    """A restarted service gets each node once, with its current value."""
    async with world.another("annotator") as before:
        await before.subscribe_latest(NODES, NodeUtilization, Received())
        await say_round(world.bus, 1)
    await say_round(world.bus, 2)
    await say_round(world.bus, 3)
    received: Received[NodeUtilization] = Received()
    async with world.another("annotator") as after:
        await after.subscribe_latest(NODES, NodeUtilization, received)

        assert len(received.deliveries) == FLEET
        assert newest(received.deliveries) == {f"n{n}": 3 for n in range(FLEET)}


async def test_a_consumer_that_fell_behind_catches_up_to_the_newest(world: NatsWorld) -> None:
    """While its handler hangs, twenty rounds are published: it gets the last one, and few of those before."""
    received: Received[NodeUtilization] = Received()
    free = asyncio.Event()

    async def on_utilization(delivery: Delivery[NodeUtilization]) -> None:
        await free.wait()
        await received(delivery)

    async with world.another("scorer") as bus:
        await bus.subscribe_latest(NODES, NodeUtilization, on_utilization)
        for number in range(1, 21):
            await say_round(world.bus, number)
        free.set()
        await received.until(lambda deliveries: newest(deliveries) == {f"n{n}": 20 for n in range(FLEET)})

    # What it had requested before, and the last of each node: not 20 × 600.
    assert len(received.deliveries) <= 256 + FLEET


async def test_a_bus_without_its_streams_is_reported_and_recovers_after_the_setup(world: NatsWorld) -> None:
    """A NATS with a new disk has no streams: all clients report it, and continue after the setup has run."""
    followed: Received[NodeUtilization] = Received()
    worked: Received[EvictionIntent] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, followed)
    working = asyncio.create_task(world.bus.work(EvictionIntent, worked))
    await say_round(world.bus, 1, nodes=3)
    await followed.until(3)
    await world.disconnect()
    shutil.rmtree(world.directory / "jetstream")
    await world.reconnect()
    with pytest.raises(BusUnavailable, match="equipoise setup"):
        await world.bus.publish(subjects.node_utilization("n0"), a_node_utilization("n0"))
    for words in (
        "cannot follow equipoise.utilization.node",
        "cannot take work",
        "EQUIPOISE_UTILIZATION does not take",
    ):
        await eventually(lambda words=words: any(words in problem for problem in world.bus.problems))  # type: ignore[misc]

    await setup_streams(world.settings, intent_max_age=INTENT_LIFETIME)
    await say_round(world.bus, 2, nodes=3)
    await world.bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent())
    await followed.until(lambda deliveries: newest(deliveries) == {"n0": 2, "n1": 2, "n2": 2})
    await worked.until(1)
    await eventually(lambda: list(world.bus.problems) == [])
    working.cancel()


class Shown:
    """What a process with this bus shows of itself."""

    def __init__(self, bus: Bus, metrics: CollectorRegistry) -> None:
        self.health = Health(configuration_hash="", metrics=metrics)
        self.health.include_problems(lambda: bus.problems)
        self.metrics = metrics

    async def pages(self) -> tuple[list[str], str]:
        """The problems of /readyz, and /metrics."""
        async with (
            serving_health("127.0.0.1:0", self.health, self.metrics, "1") as address,
            aiohttp.ClientSession(f"http://{address}") as session,
        ):
            async with session.get("/readyz") as response:
                report = await response.json()
            async with session.get("/metrics") as response:
                return report["problems"], await response.text()


async def test_a_full_stream_is_shown_in_readyz_and_in_the_metrics(world: NatsWorld) -> None:
    """With the very next message that it does not take; and no more once it takes one."""
    metrics = CollectorRegistry()
    outcomes = next(stream for stream in STREAMS if stream.name == "EQUIPOISE_OUTCOME")
    full = stream_config(outcomes).evolve(max_bytes=100, discard=DiscardPolicy.NEW)
    subject = subjects.eviction_outcome("shop", "web-1")
    async with (
        open_bus(world.settings, "binder", SystemClock(), metrics) as bus,
        await nats.connect(world.settings.url) as client,
    ):
        shown = Shown(bus, metrics)
        await client.jetstream().update_stream(full)
        with pytest.raises(BusUnavailable):
            await bus.publish(subject, an_intent())
        problems, page = await shown.pages()

        assert ["EQUIPOISE_OUTCOME does not take messages" in problem for problem in problems] == [True]
        assert 'equipoise_bus_problems{kind="stream"} 1.0' in page
        assert 'equipoise_bus_errors_total{kind="stream"} 1.0' in page
        await client.jetstream().update_stream(full.evolve(max_bytes=10_000))
        await bus.publish(subject, an_intent())
        problems, page = await shown.pages()
        assert problems == []
        assert 'equipoise_bus_problems{kind="stream"} 0.0' in page


async def test_a_revoked_permission_is_shown_in_readyz_and_in_the_metrics(tmp_path: Path) -> None:
    """Of a running service, by a reload of the server: the subject is reported as long as it is forbidden."""
    rights = permission_file(dict.fromkeys(USERS, "secret"))
    world = NatsWorld(tmp_path / "nats", rights)
    await world.start()
    (tmp_path / "password").write_text("secret")
    password = str(tmp_path / "password")
    await setup_streams(Nats(url=world.settings.url, user="setup", password_file=password), intent_max_age=60)
    settings, metrics = Nats(url=world.settings.url, user="scorer", password_file=password), CollectorRegistry()
    intents = f"{subjects.PREFIX}.eviction.intent.*.*"
    async with open_bus(settings, "scorer", SystemClock(), metrics, reconnect_pause=0.1) as bus:
        shown = Shown(bus, metrics)
        await bus.subscribe(intents, EvictionIntent, Received())
        assert (await shown.pages())[0] == []
        scorer = rights.index("user: scorer")
        fewer = rights[:scorer] + rights[scorer:].replace(f'          "{intents}"\n', "", 1)
        assert fewer != rights
        (world.directory / "nats-server.conf").write_text(fewer)
        signal_server(world, signal.SIGHUP)
        await eventually(lambda: any("not permitted the subscription" in problem for problem in bus.problems))
        problems, page = await shown.pages()
        assert any(intents in problem for problem in problems)
        assert 'equipoise_bus_problems{kind="permission"} 1.0' in page

        (world.directory / "nats-server.conf").write_text(rights)
        signal_server(world, signal.SIGHUP)
        await world.stop()
        await world.start()
        await eventually(lambda: bus.connected and list(bus.problems) == [])
    await world.stop()
