"""Annotators in memory, and a real cluster, for the annotator's tests."""

from collections.abc import AsyncIterator

import pytest
from annotator.worlds import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    for identity in list(world.running):
        await world.end(identity)
