"""Every test of a shell gets its own small cluster."""

from collections.abc import AsyncIterator

import pytest
from binder.worlds import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.populate()
    yield world
    await world.stop()
