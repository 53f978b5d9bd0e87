"""Fixtures for tests on a real cluster; a conftest imports them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from programs import program

from equipoise.contracts.kubernetes.mutating_policy import POLICY_KIND, REQUIREMENT
from equipoise.contracts.kubernetes.supported_versions import OLDEST_WITH_MUTATING_POLICIES, minor_versions
from equipoise.testbed.binaries.build import HELM, Binaries, build
from equipoise.testbed.cluster import Cluster

StartCluster = Callable[..., Cluster]


@pytest.fixture(scope="session")
def testbed_binaries(pytestconfig: pytest.Config) -> Binaries:
    return build(kubernetes=pytestconfig.getoption("kubernetes"))


@pytest.fixture(scope="session")
def mutating_policies(pytestconfig: pytest.Config) -> None:
    """Skips what needs MutatingAdmissionPolicies, where the API server of `--kubernetes` has none."""
    if reason := why_no_mutating_policies(pytestconfig.getoption("kubernetes")):
        pytest.skip(reason)


def why_no_mutating_policies(kubernetes: str) -> str:
    """Why the API server of a minor version does not have them; "" if it does. An empty version is the newest."""
    if not kubernetes or kubernetes in minor_versions(OLDEST_WITH_MUTATING_POLICIES):
        return ""
    return f"Kubernetes {kubernetes} has no {POLICY_KIND}: it needs {REQUIREMENT}"


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
