"""Usage of batch pods and of the others, from a real Prometheus."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import numpy as np
import pytest
from collector.exporter import Exporter, a_job, prometheus

from equipoise.cli.demo.colocation.figures import UsageByNode
from equipoise.cli.demo.colocation.usage import PodUsage
from equipoise.lab.model.trace import Trace, TraceNode
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries

NODES = ("mixed", "ordinary", "silent")
WINDOW = 4.0


def pods(**cores: float) -> Callable[[], str]:
    """What the kubelet shows of one pod in each of these namespaces."""
    begun = time.monotonic()

    def text() -> str:
        seconds = time.monotonic() - begun
        return "".join(
            f'pod_cpu_usage_seconds_total{{namespace="{name}",pod="{name}-1"}} {used * seconds:.6f}\n'
            for name, used in cores.items()
        )

    return text


@pytest.fixture(scope="module")
def url(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    exporter = Exporter()
    exporter.show("mixed", pods(shop=3.0, launch=1.0, batch=2.0))
    exporter.show("ordinary", pods(shop=1.5))
    jobs = [a_job(name, exporter, name, node=name) for name in NODES]
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("usage"), jobs) as opened:
        yield opened
    exporter.close()


@pytest.fixture
async def usage(url: str) -> AsyncIterator[PodUsage]:
    nodes = tuple(TraceNode(name=name, cpu_milli=8_000, memory_mib=1) for name in NODES)
    empty = np.zeros((0, 1))
    trace = Trace(
        name="three", nodes=nodes, workloads=(), pods=(), cpu_milli=empty, memory_mib=empty, seconds_per_step=1
    )
    async with aiohttp.ClientSession() as session:
        yield PodUsage(session, url, trace, WINDOW)


async def measured(usage: PodUsage, of_others: float, row: int) -> UsageByNode:
    """Twice, as soon as this node has samples of a whole window, and scrapes that were late no longer count."""
    clock = SystemClock()
    async with asyncio.timeout(60):
        while True:
            now = clock.now()
            found = await usage.between([now - 0.5, now])
            if np.allclose(found.high_priority[row], of_others, atol=0.3):
                return found
            await asyncio.sleep(0.1)


async def test_batch_pods_are_apart_from_all_others(usage: PodUsage) -> None:
    """By node, in cores, at each time."""
    found = await measured(usage, 4.0, row=0)

    np.testing.assert_allclose(found.batch[0], [2.0, 2.0], atol=0.3)
    assert await usage.batch_now(SystemClock().now()) == pytest.approx(2.0, abs=0.3)


async def test_a_node_without_batch_pods_runs_none_of_them(usage: PodUsage) -> None:
    """But a node without samples is unknown, not idle."""
    found = await measured(usage, 1.5, row=1)

    assert found.batch[1].tolist() == [0.0, 0.0]
    assert np.isnan(found.high_priority[2]).all()
    assert np.isnan(found.batch[2]).all()


async def test_nothing_was_measured_before_the_first_sample(usage: PodUsage) -> None:
    assert await usage.batch_now(SystemClock().now() - 3_600) is None
