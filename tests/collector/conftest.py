"""A collector in memory, for the collector's tests."""

from collections.abc import AsyncIterator

import pytest
from collector.collectors import NO_PROFILE, World, a_world, collecting

from equipoise.collector.settings import CollectorSettings


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = a_world()
    async with made.bus, collecting(made, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await made.advance(1)
        yield made
