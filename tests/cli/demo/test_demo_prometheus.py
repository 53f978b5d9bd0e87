"""The demo starts a cluster before Prometheus is built."""

import dataclasses
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.options import DemoOptions
from equipoise.cli.demo.run import Demo
from equipoise.testbed.binaries.build import Binaries, BuildError
from equipoise.testbed.cluster import Cluster

OPTIONS = DemoOptions(nodes=3, steps=8)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the build puts Prometheus."""
    return tmp_path_factory.mktemp("programs") / "prometheus"


@pytest.fixture(scope="module")
def cluster(testbed_binaries: Binaries, program: Path) -> Iterator[Cluster]:
    with Cluster(binaries=dataclasses.replace(testbed_binaries, prometheus=program)) as cluster:
        yield cluster


@pytest.fixture
async def demo(cluster: Cluster) -> AsyncIterator[Demo]:
    trace = example_trace(OPTIONS.seed, nodes=OPTIONS.nodes, steps=8)
    screen = Screen(Console(file=io.StringIO()))
    async with aiohttp.ClientSession() as session, cluster.api() as api:
        yield Demo(OPTIONS, screen, trace, cluster, session, api, metrics_built=False)


def building(demo: Demo, script: str) -> int:
    return demo.cluster.guard.start(["sh", "-c", script], log=demo.cluster.log("build"))


async def test_prometheus_runs_once_it_is_built(demo: Demo, program: Path, testbed_binaries: Binaries) -> None:
    await demo.start_prometheus(building(demo, f"ln -s {testbed_binaries.prometheus} {program}"))

    async with demo.session.get(f"{demo.cluster.prometheus_url}/-/ready") as response:
        assert response.status == 200


async def test_the_error_of_a_failed_build_of_prometheus_contains_its_output(demo: Demo) -> None:
    """As that of a build which the cluster waits for."""
    with pytest.raises(BuildError, match="no Go here"):
        await demo.start_prometheus(building(demo, "echo no Go here; exit 1"))


def test_the_first_measurement_waits_for_the_build(demo: Demo) -> None:
    """It is in the middle of the day either way."""
    built = Demo(OPTIONS, demo.screen, demo.trace, demo.cluster, demo.session, demo.api, metrics_built=True)

    assert demo.epoch - built.epoch == pytest.approx(60, abs=5)
