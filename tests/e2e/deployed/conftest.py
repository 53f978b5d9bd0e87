"""One cluster with k8s/base for all tests of this folder."""

from collections.abc import AsyncIterator

import pytest
from deployment.installation import DeployedCluster, Installation, deployed_cluster, running_installation
from deployment.restarts import RunResult, kill_each_service

from equipoise.testbed.binaries.build import Binaries


@pytest.fixture(scope="package")
async def deployed(
    testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DeployedCluster]:
    async with deployed_cluster(testbed_binaries, tmp_path_factory.mktemp("deployed")) as deployed:
        yield deployed


@pytest.fixture(scope="package")
async def installation(deployed: DeployedCluster) -> AsyncIterator[Installation]:
    async with running_installation(deployed) as installation:
        yield installation


@pytest.fixture(scope="package")
async def result(installation: Installation) -> RunResult:
    return await kill_each_service(installation)
