"""Real parts for the program's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bus_worlds import NatsWorld
from cli.buses import Bus
from cli.http_clusters import HttpCluster, http_cluster

from equipoise.runtime.bus.permissions import USERS, permission_file
from equipoise.runtime.bus.setup import setup_streams


@pytest.fixture(scope="module")
async def bus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bus]:
    """A real nats-server with our users and streams."""
    directory = tmp_path_factory.mktemp("bus")
    world = NatsWorld(directory / "nats", permission_file({user: f"secret of {user}" for user in USERS}))
    await world.start()
    bus = Bus(directory, world.settings.url)
    await setup_streams(bus.settings("setup"), intent_max_age=60)
    yield bus
    await world.stop()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HttpCluster]:
    """An API server without objects."""
    async with http_cluster(tmp_path) as cluster:
        yield cluster
