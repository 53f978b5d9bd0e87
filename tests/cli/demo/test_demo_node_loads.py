"""Loads of nodes from a real Prometheus."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import aiohttp
import numpy as np
import pytest
from collector.exporter import Exporter, a_job, a_node, prometheus

from equipoise.cli.demo.node_loads import NodeLoads, trace_cores
from equipoise.lab.model.trace import Trace, TraceNode
from equipoise.testbed.binaries.build import Binaries

WINDOW = 6.0


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    """Of one node that uses 3 of its 4 cores, and one that is added later."""
    exporter = Exporter()
    exporter.show("busy", a_node(3))
    yield exporter
    exporter.close()


@pytest.fixture(scope="module")
def url(exporter: Exporter, testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jobs = [a_job(page, exporter, page, node=page) for page in ("busy", "late")]
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("loads"), jobs) as opened:
        yield opened


@pytest.fixture
async def node_loads(url: str) -> AsyncIterator[NodeLoads]:
    nodes = tuple(TraceNode(name=name, cpu_milli=4_000, memory_mib=1) for name in ("busy", "late"))
    usage = np.zeros((0, 1))
    trace = Trace(name="two", nodes=nodes, workloads=(), pods=(), cpu_milli=usage, memory_mib=usage, seconds_per_step=1)
    async with aiohttp.ClientSession() as session:
        yield NodeLoads(session, url, trace_cores(trace), WINDOW)


async def measured(node_loads: NodeLoads, url: str) -> float:
    """The time of the busy node's newest sample, once a whole window before it has samples.

    Not the current time: when scrapes are late, the newest sample may be older than what a test takes from the window.
    """
    async with asyncio.timeout(60):
        while True:
            moment = await newest_sample(url)
            if "busy" in await node_loads.at(moment):
                return moment
            await asyncio.sleep(0.1)


async def newest_sample(url: str) -> float:
    """Unix time; 0 without samples."""
    parameters = {"query": 'timestamp(node_cpu_usage_seconds_total{node="busy"})'}
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/query", params=parameters) as response:
        rows = (await response.json())["data"]["result"]
    return float(rows[0]["value"][1]) if rows else 0.0


async def test_late_scrapes_do_not_make_a_busy_node_idle(node_loads: NodeLoads, url: str) -> None:
    """Three quarters of the window have no sample yet: only the covered part counts."""
    moment = await measured(node_loads, url)

    loads = await node_loads.at(moment + 0.75 * WINDOW)

    assert loads["busy"] == pytest.approx(75, abs=8)


async def test_a_node_without_samples_in_the_window_is_unknown(node_loads: NodeLoads, url: str) -> None:
    """Neither 0 nor the last value."""
    moment = await measured(node_loads, url)

    assert await node_loads.at(moment + 10 * WINDOW) == {}


async def test_it_waits_until_all_nodes_are_known(node_loads: NodeLoads, url: str, exporter: Exporter) -> None:
    """The spread of the other nodes would be too low; the error names the unknown nodes."""
    await measured(node_loads, url)
    with pytest.raises(TimeoutError, match="no usage in Prometheus within 0 s for nodes late"):
        await node_loads.of_all(timeout=0)

    exporter.show("late", a_node(1))

    assert (await node_loads.of_all()).keys() == {"busy", "late"}
