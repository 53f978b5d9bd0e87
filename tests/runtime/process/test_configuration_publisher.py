"""What a process runs with is on the bus, also for a command that is started later."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from equipoise.binder.settings import BinderSettings
from equipoise.collector.settings import CollectorSettings
from equipoise.contracts.messages.health import CONFIGURATION_KEPT, CONFIGURATION_PERIOD, EffectiveConfiguration
from equipoise.runtime.bus import Delivery
from equipoise.runtime.configuration import load_configuration
from equipoise.runtime.process.configuration_publisher import CHECK_PERIOD, RETRY_PERIOD, ConfigurationPublisher
from equipoise.runtime.process.health import Health
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock, settle

PATTERN = "equipoise.configuration.*.*"


class World:
    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.clock = ManualClock()
        self.bus = MemoryBus(self.clock)
        self.configuration = load_configuration(None, "binder", BinderSettings, environment or {})
        self.health = Health(configuration_hash=self.configuration.hash, metrics=CollectorRegistry())
        self.publisher = ConfigurationPublisher("binder", "b-1", "9.9.9", self.configuration, self.health, self.clock)

    async def latest(self) -> list[EffectiveConfiguration]:
        """What a command reads that connects now."""
        found: list[EffectiveConfiguration] = []

        async def on_message(delivery: Delivery[EffectiveConfiguration]) -> None:
            found.append(delivery.message)

        await self.bus.subscribe_latest(PATTERN, EffectiveConfiguration, on_message)
        return found


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World({"EQUIPOISE_BINDER__LIMITS__STARTUP_GRACE_PERIOD": "0s"})
    task = asyncio.create_task(world.publisher.run(world.bus))
    await settle()
    yield world
    task.cancel()


async def test_a_command_that_is_started_later_reads_what_is_in_effect(world: World) -> None:
    """It reads what the process has read, environment variables included, not the defaults or a file."""
    (found,) = await world.latest()
    assert (found.service, found.id, found.version, found.hash) == ("binder", "b-1", "9.9.9", world.configuration.hash)
    assert found.settings["binder"]["limits"]["startupGracePeriod"] == "0s"
    assert found.settings["binder"]["evict"] is False
    assert found.settings["thresholds"]["high"]["cpu"] == 65
    assert set(found.settings) & {"collector", "scorer", "descheduler"} == set()


async def test_a_change_of_state_is_published_at_once(world: World) -> None:
    world.health.evictions = "dry run"
    await world.clock.advance(CHECK_PERIOD)
    assert [each.evictions for each in await world.latest()] == ["dry run"]


async def test_it_is_published_again_so_that_its_age_shows_whether_the_process_runs(world: World) -> None:
    await world.clock.advance(CONFIGURATION_PERIOD)
    assert [each.at - each.started_at for each in await world.latest()] == [CONFIGURATION_PERIOD]
    assert len(world.bus.published(EffectiveConfiguration, PATTERN)) == 2


async def test_a_bus_that_was_away_gets_it_later(world: World) -> None:
    world.bus.disconnect()
    world.health.evictions = "real"
    await world.clock.advance(CHECK_PERIOD)
    await world.bus.reconnect()
    await world.clock.advance(RETRY_PERIOD)
    assert [each.evictions for each in await world.latest()] == ["real"]


async def test_a_process_that_ends_in_order_states_it() -> None:
    """Its successor has another id: the last value of this one must not be taken for a running process."""
    world = World()
    task = asyncio.create_task(world.publisher.run(world.bus))
    await settle()
    task.cancel()
    await asyncio.wait([task])
    assert [each.stopped for each in await world.latest()] == [True]
    await world.clock.advance(CONFIGURATION_KEPT + 1)
    assert await world.latest() == []


async def test_secrets_are_not_published(tmp_path: Path) -> None:
    """A header may authenticate; a URL with a password is refused, and would not be shown."""
    clock = ManualClock()
    bus = MemoryBus(clock)
    file = tmp_path / "equipoise.yaml"
    file.write_text(
        "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
        "collector:\n  prometheus:\n    headers: {Authorization: Basic hunter2}\n"
    )
    configuration = load_configuration(file, "collector", CollectorSettings, {})
    health = Health(configuration_hash=configuration.hash, metrics=CollectorRegistry())
    task = asyncio.create_task(ConfigurationPublisher("collector", "c-1", "1", configuration, health, clock).run(bus))
    await settle()
    (message,) = bus.published(EffectiveConfiguration, PATTERN)
    assert "hunter2" not in str(message.settings)
    assert message.settings["collector"]["prometheus"]["url"] == "http://prometheus:9090"
    task.cancel()
