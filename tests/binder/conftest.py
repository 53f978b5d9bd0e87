"""A small cluster for each test that uses one."""

from collections.abc import AsyncIterator

import pytest
from binder.worlds import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.populate()
    yield world
    await world.stop()
