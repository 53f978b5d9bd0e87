"""Fixtures for tests on a real cluster; a conftest imports them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from equipoise.testbed.binaries.build import (
    HELM,
    Binaries,
    BuildError,
    Module,
    build,
    build_module,
    default_cache,
    installed_programs,
)
from equipoise.testbed.binaries.toolchain import NoGoError, Progress
from equipoise.testbed.cluster import Cluster

StartCluster = Callable[..., Cluster]


@pytest.fixture(scope="session")
def testbed_binaries() -> Binaries:
    return build()


@pytest.fixture(scope="session")
def helm_program() -> Path:
    """helm 4. Its first build takes minutes, for which only the tests that use it wait."""
    return installed_programs(HELM, os.environ).get("helm") or built_helm(HELM)


def built_helm(module: Module) -> Path:
    with Progress() as progress:
        try:
            return build_module(module, cache=default_cache(), progress=progress) / "helm"
        except (BuildError, NoGoError) as error:
            pytest.skip(f"{module.name} cannot be built: {error}")


@pytest.fixture(scope="module")
def start_cluster(testbed_binaries: Binaries) -> Iterator[StartCluster]:
    """Starts clusters with the arguments of `Cluster`; they live as long as the test file's tests run."""
    with ExitStack() as clusters:

        def start(**arguments: Any) -> Cluster:
            return clusters.enter_context(Cluster(binaries=testbed_binaries, **arguments))

        yield start
