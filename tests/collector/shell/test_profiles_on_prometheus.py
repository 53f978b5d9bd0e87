"""The query profiles on a real Prometheus that scrapes what kube-prometheus-stack scrapes, with its labels."""

import asyncio
import json
import operator
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import aiohttp
import pytest
from collector.exporter import Exporter, prometheus
from collector.scraped_pages import (
    NODES,
    cadvisor,
    exporter_job,
    kubelet_job,
    node_exporter,
    resource_page,
)

from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries, CustomQuery
from equipoise.collector.decisions.profiles.recording_rules import RULE_INTERVAL, WINDOWS, rule_file
from equipoise.collector.decisions.query import Aggregate, MetricQuery, ResourceName, Sample
from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.shell.divided_queries import DividedQueries
from equipoise.collector.shell.intervals import find_intervals, find_pod_intervals
from equipoise.collector.shell.rounds import PodRound, measure_nodes, measure_pods
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.placement import PodName
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries

EVERY_SCRAPE = 0.5
"""Seconds: there are a dozen targets, and a busy machine must not miss them."""

WINDOW = 5.0
YOUNG_DAY = 1_000.0
"""Seconds of a day in the compressed rules: far more than the age of the rules."""

ADDRESSES = NODES | {
    "moved": "10.0.0.3", "twin": "10.0.0.4", "stuck": "10.0.0.5", "gone": "10.0.0.6",
    "shared": "10.0.0.7", "older": "10.0.0.8",
}  # fmt: skip
NAMES = node_names({node: [address] for node, address in (ADDRESSES | {"before": "10.0.0.3"}).items()})

CAPACITY = Resources(cpu=16.0, memory=64e9)
KNOWN = {node: MeasurementTarget(since=0.0, capacity=CAPACITY) for node in ADDRESSES}
PODS = {"shop/web-0": 0.5, "kube-system/proxy": 0.1}
POD_TARGETS: dict[PodName, MeasurementTarget] = {
    ("shop", "web-0"): MeasurementTarget(since=0.0, capacity=CAPACITY, node="node-a"),
    ("kube-system", "proxy"): MeasurementTarget(since=0.0, capacity=CAPACITY, node="node-a"),
}
PODS_OF_NODES = {"node-a": list(POD_TARGETS)}
WORKING_SET = 16e9 - 9e9 - 2e9
HUGE_PAGES = {
    "MemTotal": 64e9, "MemFree": 22e9, "MemAvailable": 24e9, "Inactive_file": 2e9, "AnonPages": 7e9,
    "HugePages_Total": 16_000, "HugePages_Free": 16_000, "Hugepagesize": 2e6,
}  # fmt: skip
"""8e9 bytes are used; 32e9 are the pool of huge pages, so about 31e9 are allocatable."""


def compressed(rules: dict[str, Any]) -> dict[str, Any]:
    """The shipped rules, evaluated at every scrape and over seconds instead of minutes."""
    text = json.dumps(rules)
    for window in WINDOWS:
        seconds = YOUNG_DAY if window.name == "1d" else WINDOW
        text = text.replace(f"[{window.name}]", f"[{seconds:g}s]")
        text = text.replace(f"* {RULE_INTERVAL:g} / {window.length:g},", f"* {EVERY_SCRAPE:g} / {seconds:g},")
    made: dict[str, Any] = json.loads(text)
    for group in made["groups"]:
        group["interval"] = f"{EVERY_SCRAPE * 1000:.0f}ms"
    return made


def stamped(stamp: Callable[[], float]) -> Callable[[], str]:
    """The page of an exporter with timestamps."""
    page = node_exporter(busy=1.5)

    def text() -> str:
        end = f" {int(stamp() * 1000)}\n"
        return "".join(line if line.startswith("#") else line.rstrip() + end for line in page().splitlines(True))

    return text


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    opened = Exporter()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(exporter: Exporter, testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two usual nodes, one with the address of another, one scraped twice, and two that tests break."""
    jobs = [exporter_job(exporter, node, address) for node, address in ADDRESSES.items()]
    jobs.append(exporter_job(exporter, "twin", ADDRESSES["twin"]) | {"job_name": "twin-again"})
    jobs[-1]["static_configs"][0]["labels"]["pod"] = "exporter-again"  # type: ignore[index]
    for node in ADDRESSES:
        exporter.show(f"node-exporter/{node}", node_exporter(busy=3.0 if node == "node-b" else 1.5))
    exporter.show("node-exporter/stuck", stamped(time.time))  # noqa: TID251
    for node, memory in (("shared", HUGE_PAGES | {"Hugetlb": 32e9}), ("older", HUGE_PAGES)):
        exporter.show(f"node-exporter/{node}", node_exporter(busy=0.346, cores=2, stolen=1.318, memory=memory))
    exporter.show("cadvisor/node-a", cadvisor(PODS))
    exporter.show("resource/node-a", resource_page(PODS))
    jobs += [kubelet_job(exporter, "node-a", NODES["node-a"], path) for path in ("cadvisor", "resource")]
    folder = tmp_path_factory.mktemp("stack")
    with prometheus(testbed_binaries.prometheus, folder, jobs, compressed(rule_file()), EVERY_SCRAPE) as opened:
        yield opened


Open = Callable[..., PrometheusSource]


@pytest.fixture
async def source(url: str) -> AsyncIterator[Open]:
    opened: list[PrometheusSource] = []

    def open_source(profile: str, memory: str = "workingSet", **settings: object) -> PrometheusSource:
        published = PrometheusSettings(url=url, profile=profile, **settings)  # type: ignore[arg-type]
        opened.append(PrometheusSource(published, memory=memory, clock=SystemClock()))  # type: ignore[arg-type]
        return opened[-1]

    yield open_source
    for one in opened:
        one.close()


async def read(source: PrometheusSource, node: str, resource: ResourceName = "cpu") -> NodeReading:
    at = await source.time()
    intervals = await find_intervals(source, WINDOW, at, NAMES)
    criteria = WindowCriteria(
        at=at, length=WINDOW, coverage=0.8, max_age=60.0, lookback=WINDOW, intervals=intervals, names=NAMES
    )
    found = await measure_nodes(source, KNOWN, criteria, ["p95", "max", "deviation"])

    assert {} == found.failed
    return found.readings[resource][node]


async def until(measure: Callable[[], Awaitable[Any]], wanted: Callable[[Any], object]) -> Any:
    async with asyncio.timeout(60):
        while not wanted(found := await measure()):  # noqa: ASYNC110  Prometheus does not notify about scrapes
            await asyncio.sleep(EVERY_SCRAPE / 2)
        return found


async def query(
    source: PrometheusSource, aggregate: Aggregate, length: float = WINDOW, **fields: object
) -> list[Sample]:
    defaults: dict[str, object] = {"subject": "node", "resource": "cpu", "step": 1.0, "at": await source.time()}
    return await source.query(MetricQuery(aggregate=aggregate, length=length, **(defaults | fields)))  # type: ignore[arg-type]


@pytest.mark.parametrize("profile", ["kube-prometheus", "recording-rules"])
@pytest.mark.parametrize(("node", "cores"), [("node-a", 1.5), ("node-b", 3.0)])
async def test_a_node_is_measured(source: Open, profile: str, node: str, cores: float) -> None:
    """Busy modes of all cores, without guests twice; the address of its status names it."""
    opened = source(profile)

    def right(found: NodeReading) -> bool:
        new = found.sampled_at == pytest.approx(time.time(), abs=5 * EVERY_SCRAPE)  # noqa: TID251
        return new and found.mean == pytest.approx(cores, rel=0.05)

    await until(lambda: read(opened, node), right)
    memory = await until(lambda: read(opened, node, "memory"), lambda found: found.mean is not None)
    assert WORKING_SET == memory.mean


@pytest.mark.parametrize("profile", ["kube-prometheus", "recording-rules"])
@pytest.mark.parametrize("node", ["shared", "older"])
async def test_stolen_time_is_used_and_the_pool_of_huge_pages_is_not(source: Open, profile: str, node: str) -> None:
    """As a share of what is allocatable: 83 % of the cores, and 26 % of the memory. Once it read 17 % and 129 %."""
    opened = source(profile)

    def right(found: NodeReading) -> bool:
        return found.mean == pytest.approx(0.346 + 1.318, rel=0.05)

    await until(lambda: read(opened, node), right)
    memory = await until(lambda: read(opened, node, "memory"), lambda found: found.mean is not None)
    assert 8e9 == memory.mean


@pytest.mark.parametrize("profile", ["kube-prometheus", "recording-rules"])
async def test_statistics_are_measured(source: Open, profile: str) -> None:
    """For both resources."""
    opened = source(profile)
    await until(lambda: read(opened, "node-a"), lambda found: found.mean is not None)
    for resource, expected in (("cpu", 1.5), ("memory", WORKING_SET)):
        for aggregate, value in (("p95", expected), ("max", expected), ("deviation", 0.0)):
            wanted = [pytest.approx(value, abs=0.15 * expected)]
            found = await until(partial(_of_node_a, opened, aggregate, WINDOW, resource), partial(operator.eq, wanted))

            assert wanted == found


@pytest.mark.parametrize("profile", ["kube-prometheus", "recording-rules"])
async def test_pods_are_measured_once(source: Open, profile: str) -> None:
    """Neither the containers nor the sandbox nor the kubelet's other page are added to the cgroup of the pod."""
    opened = source(profile)

    async def measured() -> Any:
        at = await opened.time()
        intervals = await find_pod_intervals(opened, WINDOW, at, NAMES, PODS_OF_NODES)
        criteria = WindowCriteria(
            at=at, length=WINDOW, coverage=0.8, max_age=60.0, lookback=WINDOW, intervals=intervals, names=NAMES
        )
        return await measure_pods(opened, POD_TARGETS, criteria)

    cpu = {("shop", "web-0"): pytest.approx(0.5, rel=0.1), ("kube-system", "proxy"): pytest.approx(0.1, rel=0.1)}

    def whole(found: PodRound) -> bool:
        # A window with four fifths of its samples reads a fifth too low.
        known = all(used.memory is not None for used in found.usage.values())
        return known and {name: used.cpu for name, used in found.usage.items()} == cpu

    usage = (await until(measured, whole)).usage

    assert {name: used.memory for name, used in usage.items()} == {
        ("shop", "web-0"): 5e8, ("kube-system", "proxy"): 1e8
    }  # fmt: skip


@pytest.mark.parametrize("profile", ["kube-prometheus", "recording-rules"])
async def test_queries_about_some_nodes_have_the_results_of_those_about_all(source: Open, profile: str) -> None:
    """Of the same time, for each node and pod. Series of other nodes are not in them."""
    opened = source(profile)
    await until(lambda: read(opened, "node-b"), lambda found: found.mean is not None)
    await until(lambda: query(opened, "mean", subject="pod"), bool)
    divided = DividedQueries(source=opened, length=WINDOW, period=60.0)
    at = await opened.time()
    await until(opened.time, lambda now: now > at + 4 * EVERY_SCRAPE)  # all samples up to `at` are stored
    await divided.refresh(at, KNOWN, NAMES, KNOWN, {"node": {}, "pod": {}})
    assert "" == divided.problem
    for subject, nodes in (("node", ["node-b", "twin"]), ("pod", ["node-a"])):
        matcher, jobs = divided.matcher(subject, nodes)  # type: ignore[arg-type]
        assert matcher is not None
        for resource in ("cpu", "memory"):
            for aggregate in ("mean", "count", "newest", "last"):
                about = partial(
                    query, opened, aggregate, subject=subject, resource=resource, at=at, jobs=jobs, pod_series="any"
                )
                some = {sample.series: sample.value for sample in await about(nodes=matcher)}
                whole = {sample.series: sample.value for sample in await about() if NAMES.of(sample.node) in nodes}
                named = {NAMES.of(sample.node) for sample in await about(nodes=matcher)}
                assert whole.items() <= some.items()
                assert named <= {*nodes, ""}  # an address of two nodes names neither


async def test_the_spacing_of_pods_is_that_of_their_own_samples(source: Open) -> None:
    """The kubelet may be scraped less often than node-exporter."""
    opened = source("kube-prometheus")
    intervals = await until(
        lambda: _pod_intervals(opened), lambda found: found.of("node-a") == pytest.approx(EVERY_SCRAPE, abs=0.05)
    )

    assert {"node-a"} == intervals.by_node.keys()


async def _pod_intervals(source: PrometheusSource) -> Any:
    return await find_pod_intervals(source, WINDOW, await source.time(), NAMES, PODS_OF_NODES)


async def test_anonymous_memory_is_measured(source: Open) -> None:
    """The same kind for nodes and pods."""
    opened = source("kube-prometheus", "anonymous")
    reading = await until(lambda: read(opened, "node-a", "memory"), lambda found: found.mean is not None)
    pods = await until(lambda: query(opened, "mean", subject="pod", resource="memory"), bool)

    assert 3e9 == reading.mean
    assert 2e8 == next(sample.value for sample in pods if sample.pod == "web-0")


@pytest.mark.parametrize("profile", ["kube-prometheus", "recording-rules"])
async def test_an_address_of_two_nodes_names_neither(source: Open, profile: str) -> None:
    """Both are unknown, and the reason names the other."""
    opened = source(profile)
    await until(lambda: read(opened, "node-a"), lambda found: found.mean is not None)
    reading = await read(opened, "moved")

    why = "cpu: no sample names it alone: 10.0.0.3 is also of node before"
    assert (None, why) == (reading.mean, reading.why)


@pytest.mark.parametrize("profile", ["kube-prometheus", "recording-rules"])
async def test_a_node_that_is_scraped_twice_is_unknown(source: Open, profile: str) -> None:
    """Its two series are not added up."""
    opened = source(profile)
    reading = await until(lambda: read(opened, "twin"), lambda found: found.why.startswith("cpu: 2 series"))

    assert (None, "cpu: 2 series claim to be this node") == (reading.mean, reading.why)


async def test_a_recorded_window_ages_when_its_source_dies(source: Open, exporter: Exporter) -> None:
    """The age is that of the raw sample, though the rule is still evaluated."""
    opened = source("recording-rules")
    await until(lambda: read(opened, "gone"), lambda found: found.mean is not None)
    exporter.hide("node-exporter/gone")
    gone_at = await opened.time()
    reading = await until(lambda: read(opened, "gone"), lambda found: found.mean is None)

    assert reading.sampled_at is not None
    assert reading.sampled_at <= gone_at + EVERY_SCRAPE


async def test_a_recorded_window_ages_when_its_samples_have_a_fixed_time(source: Open, exporter: Exporter) -> None:
    """Prometheus returns such a sample for minutes, and the rule records it each time."""
    opened = source("recording-rules")
    await until(lambda: read(opened, "stuck"), lambda found: found.mean is not None)
    stamp = time.time()  # noqa: TID251
    exporter.show("node-exporter/stuck", stamped(lambda: stamp))
    await until(opened.time, lambda now: now > stamp + WINDOW)
    reading = await until(lambda: read(opened, "stuck"), lambda found: found.mean is None)
    newest = [sample.value for sample in await query(opened, "newest") if NAMES.of(sample.node) == "stuck"]

    assert [pytest.approx(stamp, abs=2 * EVERY_SCRAPE)] == newest
    assert reading.sampled_at == pytest.approx(stamp, abs=2 * EVERY_SCRAPE)


@pytest.mark.parametrize("resource", ["cpu", "memory"])
async def test_each_recorded_window_is_looked_up(source: Open, resource: ResourceName) -> None:
    """Mean, count of raw samples and time of the newest one, from rules alone."""
    opened = source("recording-rules")
    expected = {"cpu": 1.5, "memory": WORKING_SET}[resource]
    await until(lambda: read(opened, "node-a"), lambda found: found.mean is not None)
    for window in WINDOWS[:3]:
        of_window = partial(_of_node_a, opened, length=window.length, resource=resource)
        await until(partial(of_window, "mean"), partial(operator.eq, [pytest.approx(expected, rel=0.05)]))
        [count] = await until(partial(of_window, "count"), lambda found: found[0] >= 0.7 * WINDOW / EVERY_SCRAPE)
        await until(partial(_age_of_node_a, opened, window.length, resource), lambda age: age <= 5 * EVERY_SCRAPE)

        assert count <= WINDOW / EVERY_SCRAPE + 1


async def test_a_recorded_window_costs_one_sample_per_node(source: Open, url: str) -> None:
    """By Prometheus' own count of loaded samples. A scraped window loads every core and mode."""
    opened = source("recording-rules")
    await until(lambda: _of_node_a(opened, "mean", 300.0, "cpu"), bool)
    loaded = {}
    async with aiohttp.ClientSession() as session:
        for name, length in (("recording-rules", 300.0), ("kube-prometheus", WINDOW)):
            query = MetricQuery(subject="node", resource="cpu", aggregate="mean", length=length, at=0.0)
            promql = PROFILES[name](CustomQueries()).cpu["node"].promql(query, {})
            async with session.get(f"{url}/api/v1/query", params={"query": promql or "", "stats": "all"}) as response:
                data = (await response.json())["data"]
            loaded[name] = data["stats"]["samples"]["totalQueryableSamples"] / len(data["result"])

    assert loaded["recording-rules"] == 1
    assert loaded["kube-prometheus"] > 2 * WINDOW / EVERY_SCRAPE


async def test_a_window_longer_than_the_age_of_the_rules_is_not_covered(source: Open) -> None:
    """Though there are enough raw samples."""
    opened = source("recording-rules")
    [count] = await until(lambda: _of_node_a(opened, "count", 86_400.0, "cpu"), bool)
    [raw] = await _of_node_a(source("kube-prometheus"), "count", YOUNG_DAY, "cpu")

    assert count < 0.2 * raw


async def _of_node_a(
    source: PrometheusSource, aggregate: Aggregate, length: float, resource: ResourceName
) -> list[float]:
    return [
        sample.value
        for sample in await query(source, aggregate, length, resource=resource)
        if NAMES.of(sample.node) == "node-a"
    ]


async def _age_of_node_a(source: PrometheusSource, length: float, resource: ResourceName) -> float:
    [newest] = await _of_node_a(source, "newest", length, resource)
    return await source.time() - newest


async def test_a_custom_profile_measures_nodes(source: Open) -> None:
    """Mean and raw samples have different labels and are matched by the node's name."""
    promql = CustomQuery(
        mean='sum by (instance) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[$window]))',
        samples='node_cpu_seconds_total{cpu="1",mode="idle"}',
    )
    opened = source("custom", custom=CustomQueries(node_cpu=promql))
    targets = {"node-a": MeasurementTarget(since=0.0, capacity=CAPACITY)}

    async def measured() -> Any:
        at = await opened.time()
        intervals = await find_intervals(opened, WINDOW, at, NAMES)
        criteria = WindowCriteria(
            at=at, length=WINDOW, coverage=0.8, max_age=60.0, lookback=WINDOW, intervals=intervals, names=NAMES
        )
        return await measure_nodes(opened, targets, criteria, ["p95"])

    found = await until(measured, lambda found: found.readings["cpu"]["node-a"].mean == pytest.approx(1.5, rel=0.05))

    assert {} == found.failed
    assert "memory: profile custom does not measure the mean of memory of nodes" == (
        found.readings["memory"]["node-a"].why
    )


async def test_a_custom_profile_measures_pods(source: Open) -> None:
    """Mean and raw samples have different labels; a pod with too few samples is left out."""
    promql = CustomQuery(
        mean='sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{image="",pod!=""}[$window]))',
        samples='container_cpu_usage_seconds_total{container="",image="",name="",pod!=""}',
    )
    opened = source("custom", custom=CustomQueries(node_cpu=promql, pod_cpu=promql))

    async def published(min_samples: float) -> set[str]:
        query = MetricQuery(
            subject="pod", resource="cpu", aggregate="mean", length=WINDOW, at=await opened.time(),
            min_samples=min_samples,
        )  # fmt: skip
        return {sample.pod for sample in await opened.query(query)}

    assert {"web-0", "proxy"} <= await until(lambda: published(2.0), bool)
    assert set() == await published(1_000.0)


def test_prometheus_accepts_the_shipped_rules(
    testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It would not start with a rule that it cannot parse."""
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("rules"), [], rule_file()) as opened:
        assert opened
