"""Fixtures for tests on a real cluster: a conftest imports all three names.

The build of a cold cache takes longer than any test may, so it runs before the first test, with its progress shown.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from equipoise.testbed.binaries.build import build
from equipoise.testbed.binaries.paths import Binaries
from equipoise.testbed.cluster import Cluster

__all__ = ["pytest_collection_finish", "start_cluster", "testbed_binaries"]

StartCluster = Callable[..., Cluster]


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any(testbed_binaries.__name__ in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        assert capture is not None
        with capture.global_and_fixture_disabled():
            build()


@pytest.fixture(scope="session")
def testbed_binaries() -> Binaries:
    return build()


@pytest.fixture(scope="module")
def start_cluster(testbed_binaries: Binaries) -> Iterator[StartCluster]:
    """Starts clusters with the arguments of `Cluster`; they live as long as the test file's tests run."""
    with ExitStack() as clusters:

        def start(**arguments: Any) -> Cluster:
            return clusters.enter_context(Cluster(binaries=testbed_binaries, **arguments))

        yield start
