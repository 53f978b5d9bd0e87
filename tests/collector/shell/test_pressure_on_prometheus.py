"""The queries about pressure on a real Prometheus, which scrapes what node-exporter and cAdvisor export."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest
from builders import a_placed_pod
from collector.exporter import Exporter, prometheus
from collector.scraped_pages import exporter_job, kubelet_job

from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.pressure.pressure_readings import NEVER_WAITED
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.shell.pressure_measurement import PressureMeasurement
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.pressure import PressureStore
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries

EVERY_SCRAPE, WINDOW = 0.5, 5.0
ADDRESSES = {
    "exported": "10.0.0.1",
    "rooted": "10.0.0.2",
    "silent": "10.0.0.3",
    "scaled": "10.0.0.4",
    "bare": "10.0.0.5",
}
BEGUN = time.monotonic()


def counters(*shares: tuple[str, float], start: float = 1_000.0) -> Callable[[], str]:
    """A page of counters: each grows by its share of the time."""

    def text() -> str:
        lived = time.monotonic() - BEGUN
        return "".join(f"{name} {start * bool(share) + share * lived:.6f}\n" for name, share in shares)

    return text


def waiting(prefix: str, labels: str, cpu: float, memory: float, io: float) -> list[tuple[str, float]]:
    shares = {"cpu": cpu, "memory": memory, "io": io}
    return [(f"{prefix}_pressure_{name}_waiting_seconds_total{labels}", share) for name, share in shares.items()]


def pod(name: str, container: str = "") -> str:
    image = 'image="shop:1",name="1"' if container else 'image="",name=""'
    return f'{{namespace="shop",pod="{name}",container="{container}",id="/{name}/{container}",{image}}}'


@pytest.fixture(scope="module")
def url(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    exporter = Exporter()
    jobs = [exporter_job(exporter, node, ADDRESSES[node]) for node in ("exported", "silent", "scaled", "bare")]
    jobs += [kubelet_job(exporter, node, ADDRESSES[node]) for node in ("exported", "rooted")]
    for job in jobs:
        job.pop("metric_relabel_configs", None)  # this scrape keeps the root cgroup
    exporter.show("node-exporter/exported", counters(*waiting("node", "", 0.3, 0.0, 0.1)))
    exporter.show("node-exporter/silent", counters(*waiting("node", "", 0.0, 0.0, 0.0)))
    exporter.show("node-exporter/scaled", counters(*waiting("node", "", 300.0, 0.0, 0.0)))
    exporter.show("node-exporter/bare", lambda: "node_load1 1\n")
    exporter.show("cadvisor/rooted", counters(*waiting("container", '{id="/"}', 0.2, 0.05, 0.4)))
    limited = [("container_cpu_cfs_throttled_periods_total", 6.0), ("container_cpu_cfs_periods_total", 10.0)]
    disk = [("container_fs_reads_bytes_total", 3e6), ("container_fs_writes_bytes_total", 1e6)]
    exporter.show(
        "cadvisor/exported",
        counters(
            *waiting("container", '{id="/"}', 0.9, 0.9, 0.9),
            *waiting("container", pod("web"), 0.4, 0.0, 0.2),
            *waiting("container", pod("web", "main"), 0.35, 0.0, 0.2),
            *waiting("container", pod("calm"), 0.001, 0.0, 0.0),
            *((name + pod("web", "main"), share) for name, share in limited),
            *((name + pod("web", "main").replace("}", ',device="/dev/sda"}'), share) for name, share in disk),
        ),
    )
    with prometheus(
        testbed_binaries.prometheus, tmp_path_factory.mktemp("pressure"), jobs, every=EVERY_SCRAPE
    ) as opened:
        yield opened
    exporter.close()


async def measured(url: str, *, divided: bool = False) -> dict[str, NodePressure | None]:
    """The pressure of every node; `web` and `calm` run on `exported`. `divided`: by queries that name the nodes."""
    source = PrometheusSource(PrometheusSettings(url=url), memory="workingSet", clock=SystemClock())
    store = PressureStore(60.0)
    measurement = PressureMeasurement(source=source, enabled=True, store=store, load=LoadSettings())
    target = MeasurementTarget(since=0.0, capacity=Resources(), node="exported")
    pods = {("shop", "web"): target, ("shop", "calm"): target}
    try:
        at = await source.time()
        criteria = WindowCriteria(
            at=at, length=WINDOW, coverage=0.8, max_age=60.0, lookback=WINDOW,
            intervals=ScrapeIntervals(default=EVERY_SCRAPE),
            names=node_names({node: [address] for node, address in ADDRESSES.items()}),
        )  # fmt: skip
        nodes = dict.fromkeys(ADDRESSES, MeasurementTarget(since=0.0, capacity=Resources()))
        cluster = ADDRESSES if divided else None
        await measurement.measure_nodes(nodes, {node: node for node in nodes}, criteria, cluster)
        await measurement.measure_pods(pods, {name: name[1] for name in pods}, criteria, cluster)
        assert not measurement.undivided
        assert not measurement.warning.startswith("pressure of")
    finally:
        source.close()
    placed = [a_placed_pod(name, uid=name) for name in ("web", "calm")]
    return {node: store.message(node, placed if node == "exported" else [], at) for node in ADDRESSES}


def as_exported(found: Mapping[str, NodePressure | None]) -> bool:
    """Whether the window shows what `exported`, its pods, and `rooted` wait."""
    exported, rooted = found["exported"], found["rooted"]
    if exported is None or rooted is None or exported.pods.keys() != {"web"}:
        return False
    web = exported.pods["web"]
    near = partial(pytest.approx, abs=0.05)
    return (
        exported.waiting == Pressure(cpu=near(0.3), memory=near(0.0), io=near(0.1))
        and rooted.waiting == Pressure(cpu=near(0.2), memory=near(0.05), io=near(0.4))
        and (web.cpu, web.memory, web.io, web.throttled) == (near(0.4), None, near(0.2), near(0.6))
        and web.disk == pytest.approx(4e6, rel=0.1)
    )


async def test_pressure_is_measured_as_it_is_exported(url: str) -> None:
    """Takes seconds: a window has to be covered by samples. What cannot be true is unknown. Queries that name the
    nodes find the same."""
    async with asyncio.timeout(60):
        while not as_exported(found := await measured(url)):  # noqa: ASYNC110  Prometheus does not notify about scrapes
            await asyncio.sleep(EVERY_SCRAPE)
    assert as_exported(await measured(url, divided=True))
    silent, scaled = found["silent"], found["scaled"]

    assert silent is not None
    assert scaled is not None
    assert NEVER_WAITED == silent.unknown["cpu"]
    assert "its counters are not in seconds" in scaled.unknown["io"]
    assert found["bare"] is None
