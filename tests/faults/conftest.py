"""One cluster for all faults."""

from collections.abc import AsyncIterator

import pytest

from equipoise.testbed.binaries.build import Binaries
from faults.rig import Rig, rig


@pytest.fixture(scope="package")
async def shared_rig(testbed_binaries: Binaries) -> AsyncIterator[Rig]:
    async with rig(testbed_binaries) as started:
        yield started
