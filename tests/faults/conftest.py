"""One cluster for all faults; it ends with this folder's tests."""

from collections.abc import AsyncIterator

import pytest

from equipoise.testbed.binaries.paths import Binaries
from equipoise.testbed.pytest_fixture import pytest_collection_finish, testbed_binaries
from faults.rig import Rig, rig

__all__ = ["pytest_collection_finish", "testbed_binaries"]


@pytest.fixture(scope="package")
async def world(testbed_binaries: Binaries) -> AsyncIterator[Rig]:
    async with rig(testbed_binaries) as made:
        yield made
