"""One cluster for everything here, and one run of k8s/base on it; it ends with this folder's tests."""

from collections.abc import AsyncIterator

import pytest
from deployment.judging import Judged, killed_in_turn
from deployment.worlds import Run, World, placed_world, running_base

from equipoise.testbed.binaries.build import Binaries


@pytest.fixture(scope="package")
async def world(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with placed_world(testbed_binaries, tmp_path_factory.mktemp("deployed")) as world:
        yield world


@pytest.fixture(scope="package")
async def run(world: World) -> AsyncIterator[Run]:
    async with running_base(world) as run:
        yield run


@pytest.fixture(scope="package")
async def judged(run: Run) -> Judged:
    return await killed_in_turn(run)
