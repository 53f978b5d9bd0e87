"""Annotators in memory, and a real cluster, for the annotator's tests."""

from collections.abc import AsyncIterator

import pytest
from annotator.worlds import World

from equipoise.testbed.pytest_fixture import pytest_collection_finish, start_cluster, testbed_binaries

__all__ = ["pytest_collection_finish", "start_cluster", "testbed_binaries", "world"]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    for identity in list(world.running):
        await world.end(identity)
