"""Fixtures for tests on a real cluster; a conftest imports them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from programs import program

from equipoise.testbed.binaries.build import HELM, Binaries, build
from equipoise.testbed.cluster import Cluster

StartCluster = Callable[..., Cluster]


@pytest.fixture(scope="session")
def testbed_binaries(pytestconfig: pytest.Config) -> Binaries:
    return build(kubernetes=pytestconfig.getoption("kubernetes"))


@pytest.fixture(scope="session")
def helm_program() -> Path:
    """helm 4."""
    return program(HELM)


@pytest.fixture(scope="module")
def start_cluster(testbed_binaries: Binaries) -> Iterator[StartCluster]:
    """Starts clusters with the arguments of `Cluster`; they live as long as the test file's tests run."""
    with ExitStack() as clusters:

        def start(**arguments: Any) -> Cluster:
            return clusters.enter_context(Cluster(binaries=testbed_binaries, **arguments))

        yield start
