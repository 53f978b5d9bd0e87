"""Why the load of a node is unknown: on a real Prometheus that scrapes faulty metrics."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from collector.exporter import SCRAPE_INTERVAL, Exporter, a_job, a_node, prometheus

from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.collector.state.utilization import unknown_summary
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Coverage, Freshness, LoadSettings, Window
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, NodeStatus, Taint
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec, PodStatus
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries

SETTLING = 4.0
LOAD = LoadSettings(
    windows=(
        Window(name="5m", length=Duration(2), refresh_period=Duration(0.5)),
        Window(name="1d", length=Duration(600), refresh_period=Duration(30)),
    ),
    freshness=Freshness(eviction=Duration(10), score=Duration(20)),
    coverage=Coverage(node_settling_period=Duration(SETTLING)),
)
LONG_AGO = 1_000_000.0
GROWN = [f"grown-{number}" for number in range(13)]
ZEROS = [f"zero-{number}" for number in range(6)]
STEADY = ("well", "gap", "twin", "again", *GROWN[:10], *ZEROS)


class Machines:
    """Many nodes on one page, each with a label that names it."""

    def __init__(self) -> None:
        self._pages: dict[str, Callable[[], str]] = {}

    def show(self, node: str, text: Callable[[], str]) -> None:
        self._pages[node] = text

    def hide(self, node: str) -> None:
        del self._pages[node]

    def names(self) -> list[str]:
        return list(self._pages)

    def page(self) -> str:
        lines = [(node, line) for node, text in list(self._pages.items()) for line in text().splitlines()]
        return "".join(f'{line.partition(" ")[0]}{{node="{node}"}} {line.partition(" ")[2]}\n' for node, line in lines)


class World:
    """Nodes that a test creates, measured on a real Prometheus."""

    def __init__(self, machines: Machines, source: PrometheusSource, selector: dict[str, str]) -> None:
        self.machines = machines
        self.clock = SystemClock()
        self.placement = ClusterPlacement(
            windows=[2.0], start_timeout=600.0, owner_retention=60.0, owner_of=lambda _: None, selector=selector
        )
        settings = CollectorSettings(node_selector=selector)
        # The nodes of the other tests belong to the same cluster.
        self.measurement = Measurement(
            settings=settings, load=LOAD, source=source, placement=self.placement, clock=self.clock,
            known_nodes=machines.names,
        )  # fmt: skip

    def put(self, *names: str, age: float = LONG_AGO, uid: str = "", pods: bool = False, **node: Any) -> None:
        """Ready nodes of this age; with `pods` each has one that ran throughout."""
        now = self.clock.now()
        for name in names:
            metadata = ObjectMeta(
                name=name,
                uid=uid or f"uid-{name}",
                labels=node.get("labels", {}),
                creation_timestamp=datetime.fromtimestamp(now - age, UTC),
            )
            status = NodeStatus(
                capacity={"cpu": "16", "memory": "64G"},
                allocatable={"cpu": "16", "memory": "64G"},
                conditions=[Condition(type="Ready", status="True")],
            )
            spec = NodeSpec(taints=node.get("taints", []))
            self.placement.on_node(None, Node(metadata=metadata, spec=spec, status=status))
            if pods:
                self.start_pod(name, now - LONG_AGO)

    def start_pod(self, node: str, since: float) -> None:
        pod = Pod(
            metadata=ObjectMeta(name=f"pod-{node}", namespace="shop", uid=f"uid-pod-{node}-{since}"),
            spec=PodSpec(node_name=node),
            status=PodStatus(phase="Running", start_time=datetime.fromtimestamp(since, UTC)),
        )
        self.placement.on_pod(None, pod, self.clock.now())

    async def cycle(self) -> UtilizationCycle:
        """Measure the shortest window and end the round."""
        await self.measurement.round(LOAD.shortest)
        cycle, self.reasons = await self.measurement.cycle(self.placement.nodes, shard="all", number=1)
        return cycle

    async def until(self, wanted: Callable[[UtilizationCycle], bool]) -> UtilizationCycle:
        async with asyncio.timeout(60):
            while not wanted(cycle := await self.cycle()):  # noqa: ASYNC110  Prometheus does not notify about scrapes
                await asyncio.sleep(SCRAPE_INTERVAL / 2)
            return cycle

    async def until_known(self) -> UtilizationCycle:
        return await self.until(lambda cycle: cycle.fresh == cycle.expected)

    async def unknown(self, reason: str) -> str:
        """Wait until the one node is unknown for this reason; returns its text."""
        cycle = await self.until(lambda cycle: cycle.reasons == {reason: 1})
        [why] = cycle.missing.values()
        assert f"unknown load: {reason} (1 node: {next(iter(cycle.missing))})" == unknown_summary(self.reasons)
        return why

    def message(self, name: str) -> NodeUtilization | None:
        """What is published of a node."""
        messages = self.measurement.node_messages(self.placement.nodes, epoch=1, sequence=1)
        return next((message for message in messages if message.node == name), None)

    def usage(self, name: str, window: str = "5m") -> WindowUsage | None:
        """As it is published."""
        message = self.message(name)
        return None if message is None else message.windows.get(window)


@pytest.fixture(scope="module")
def machines() -> Machines:
    made = Machines()
    for node in STEADY:
        made.show(node, a_node(2.0))
    return made


@pytest.fixture(scope="module")
def exporter(machines: Machines) -> Iterator[Exporter]:
    opened = Exporter()
    opened.show("machines", machines.page)
    opened.show("single", a_node(2.0))
    opened.show("forged", a_node(9.0))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(exporter: Exporter, testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jobs = [
        a_job("machines", exporter, "machines"),
        a_job("twin", exporter, "forged", node="twin"),
        a_job("pair-1", exporter, "single", node="pair"),
        a_job("pair-2", exporter, "single", node="pair"),
        a_job("joined", exporter, "single", node="joined", instance="neighbour"),
    ]
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("truth"), jobs) as opened:
        yield opened


@pytest.fixture
async def start(machines: Machines, url: str) -> AsyncIterator[Callable[..., World]]:
    source = PrometheusSource(PrometheusSettings(url=url), memory="workingSet", clock=SystemClock())
    yield lambda **selector: World(machines, source, selector)
    source.close()


async def test_a_node_with_valid_metrics_is_known(start: Callable[..., World]) -> None:
    """Its usage has the time of its newest sample."""
    world = start()
    world.put("well", pods=True)

    def right(_: UtilizationCycle) -> bool:
        usage = world.usage("well")
        if usage is None or usage.mean.cpu != pytest.approx(2.0, rel=0.1):
            return False
        return 0.0 <= world.measurement.source_now() - usage.sampled_at < 5 * SCRAPE_INTERVAL

    cycle = await world.until(right)
    assert (cycle.expected, cycle.reasons, unknown_summary(world.reasons)) == (1, {}, "")


async def test_a_node_with_new_pods_has_the_usage_of_its_last_scrapes(start: Callable[..., World]) -> None:
    """Over three of them, with the time of the newest one. A node without new pods has none."""
    world = start()
    world.put("well", "again", pods=True)

    def right(_: UtilizationCycle) -> bool:
        message = world.message("well")
        world.start_pod("well", world.clock.now())
        if message is None or message.recent is None or message.recent.mean.cpu != pytest.approx(2.0, rel=0.1):
            return False
        assert 0.0 < message.recent.length < LOAD.shortest.length
        return message.recent.mean.memory == 1e9 and message.recent.sampled_at == message.sampled_at

    await world.until(right)
    other = world.message("again")
    assert other is not None
    assert other.recent is None


async def test_a_node_without_samples_is_unknown(start: Callable[..., World]) -> None:
    """It never reads as 0."""
    world = start()
    world.put("unscraped", "well")
    cycle = await world.until(lambda cycle: cycle.reasons == {"no sample": 1})
    assert cycle.missing == {"unscraped": "cpu: no sample"}
    assert world.usage("unscraped") is None


async def test_a_node_with_a_gap_is_unknown(start: Callable[..., World]) -> None:
    """When scrapes failed for more than a fifth of the window, until it is covered again."""
    world = start()
    world.put("gap")
    await world.until_known()
    world.machines.hide("gap")
    why = await world.unknown("gap")
    world.machines.show("gap", a_node(2.0))
    assert "samples cover" in why
    assert world.usage("gap") is None
    await world.until_known()


@pytest.mark.parametrize(
    ("page", "text", "reason", "word"),
    [
        ("nan", "node_cpu_usage_seconds_total NaN\nnode_memory_working_set_bytes NaN\n", "invalid", "value is nan"),
        ("negative", "", "invalid", "value is -5"),
        ("excess", "", "excess", "where the machine has 16"),
    ],
)
async def test_impossible_values_are_unknown(
    start: Callable[..., World], page: str, text: str, reason: str, word: str
) -> None:
    """No number, negative, above 105 % of the capacity: neither capped nor 0."""
    world = start()
    world.put(page, "well")
    begun = time.monotonic()

    def shown() -> str:
        # What a gauge does: a falling counter is a reset to rate(), which knows no negative.
        cores = 40.0 if page == "excess" else 1.0
        return text or (
            f"node_cpu_usage_seconds_total {cores * (time.monotonic() - begun):.6f}\n"
            f"node_memory_working_set_bytes {-5 if page == 'negative' else 1e12}\n"
        )

    world.machines.show(page, shown)
    if page == "negative":
        await world.until(lambda _: (usage := world.usage(page)) is not None and (usage.mean.cpu or 0.0) > 0.5)
        usage = world.usage(page)
        assert usage is not None
        assert usage.mean.memory is None
        return
    cycle = await world.until(lambda cycle: cycle.reasons == {reason: 1})
    assert word in cycle.missing[page]
    assert world.usage(page) is None


async def test_a_node_that_two_equal_jobs_scrape_is_unknown(start: Callable[..., World]) -> None:
    """It is not known which one is right."""
    world = start()
    world.put("pair", "well")
    cycle = await world.until(lambda cycle: cycle.reasons == {"duplicate": 1})
    assert cycle.missing == {"pair": "cpu: 2 series claim to be this node"}


async def test_a_node_is_measured_by_the_job_of_the_other_nodes(start: Callable[..., World]) -> None:
    """Whoever is scraped can write series with the name of a node."""
    world = start()
    world.put("twin", "well")
    await world.until(lambda cycle: cycle.reasons == {} and cycle.fresh == 2)
    usage = world.usage("twin")
    assert usage is not None
    assert usage.mean.cpu == pytest.approx(2.0, rel=0.2)


async def test_samples_from_the_future_are_unknown(start: Callable[..., World]) -> None:
    """The clock of this machine is 30 s ahead: its samples of 30 s ago must not appear new."""
    world = start()
    world.put("future")
    begun = time.monotonic()

    def text() -> str:
        stamp = int((time.time() + 30.0) * 1_000)  # noqa: TID251
        used = 2 * (time.monotonic() - begun)
        return f"node_cpu_usage_seconds_total {used:.6f} {stamp}\nnode_memory_working_set_bytes 1e9 {stamp}\n"

    world.machines.show("future", text)
    assert "s in the future" in await world.unknown("future")
    assert world.usage("future") is None


async def test_a_repeated_page_is_unknown(start: Callable[..., World]) -> None:
    """Its scrapes succeed, and rate() reads the machine as idle."""
    world = start()
    world.put("frozen", "well", pods=True)
    live = a_node(2.0)
    world.machines.show("frozen", live)
    await world.until_known()
    page = live()
    world.machines.show("frozen", lambda: page)
    cycle = await world.until(lambda cycle: cycle.reasons == {"frozen": 1})
    assert "does not change while memory is in use" in cycle.missing["frozen"]
    assert world.usage("frozen") is None


async def test_zeros_of_half_of_all_nodes_are_unknown(start: Callable[..., World]) -> None:
    """The metrics path is broken, and the coverage is too low for any eviction."""
    world = start()
    world.put(*ZEROS, pods=True)
    await world.until_known()
    for page in ZEROS[:3]:
        world.machines.show(page, a_node(0.0, 0.0))
    cycle = await world.until(lambda cycle: cycle.reasons == {"zeros": 3})
    assert set(cycle.missing) == set(ZEROS[:3])
    assert "3 of 6 nodes with pods read exactly 0" in cycle.missing["zero-0"]
    assert (cycle.fresh, cycle.expected) == (3, 6)
    assert world.usage("zero-0") is None
    assert world.usage("zero-5") is not None


async def test_nodes_without_pods_may_read_zero(start: Callable[..., World]) -> None:
    """An idle cluster is no fault."""
    world = start()
    world.put(*ZEROS)
    for page in ZEROS[:3]:
        world.machines.show(page, a_node(0.0, 0.0))

    def latest(cycle: UtilizationCycle) -> bool:
        usage = world.usage("zero-0")
        return usage is not None and usage.mean.memory == 0.0 and cycle.reasons == {}

    await world.until(latest)


async def test_long_windows_of_a_young_prometheus_are_unknown(start: Callable[..., World]) -> None:
    """The short window is known, and so is the node."""
    world = start()
    world.put("well")
    await world.until_known()
    assert await world.measurement.round(LOAD.longest)
    assert world.usage("well", "1d") is None
    assert world.usage("well", "5m") is not None
    await world.until_known()


async def test_a_restarted_prometheus_has_a_gap(
    testbed_binaries: Binaries, machines: Machines, exporter: Exporter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nodes are unknown until the window is covered again."""
    folder = tmp_path_factory.mktemp("again")
    jobs = [a_job("well", exporter, "single", node="well")]
    for run in range(2):
        with prometheus(testbed_binaries.prometheus, folder, jobs) as url:
            source = PrometheusSource(PrometheusSettings(url=url), memory="workingSet", clock=SystemClock())
            world = World(machines, source, {})
            world.put("well")
            if run:
                assert (await world.cycle()).fresh == 0
            await world.until_known()
            source.close()
        await asyncio.sleep(1.5 * (1 - run))  # the hole


async def test_virtual_and_filtered_nodes_are_not_expected(start: Callable[..., World]) -> None:
    """Windows nodes only when they have data."""
    world = start(pool="ours")
    ours = {"pool": "ours"}
    world.put("well", labels=ours)
    world.put("cloud", labels={**ours, "type": "virtual-kubelet"})
    world.put("edge", labels=ours, taints=[Taint(key="virtual-kubelet.io/provider", effect="NoSchedule")])
    world.put("panes", labels={**ours, "kubernetes.io/os": "windows"})
    world.put("foreign", labels={"pool": "theirs"})
    cycle = await world.until_known()
    assert (cycle.expected, cycle.missing) == (1, {})
    world.put("grown-0", labels={**ours, "kubernetes.io/os": "windows"})
    cycle = await world.until(lambda cycle: cycle.fresh == 2)
    assert (cycle.expected, cycle.missing) == (2, {})


async def test_new_nodes_do_not_lower_the_coverage_while_they_settle(start: Callable[..., World]) -> None:
    """Then they count, those without data too."""
    world = start()
    world.put(*GROWN[:10])
    await world.until_known()
    world.put(*GROWN[10:], age=0.0)
    for page in GROWN[10:12]:
        world.machines.show(page, a_node(2.0))
    seen = []

    def grown(cycle: UtilizationCycle) -> bool:
        seen.append(cycle)
        return cycle.expected == 13 and cycle.fresh == 12

    last = await world.until(grown)
    settling = [cycle for cycle in seen if cycle.expected == 10]
    assert any(cycle.fresh == 10 for cycle in settling)
    assert not any(cycle.missing.keys() & GROWN[10:] for cycle in settling)
    assert (last.missing, last.reasons) == ({"grown-12": "cpu: no sample"}, {"no sample": 1})


async def test_only_the_first_node_label_counts(start: Callable[..., World]) -> None:
    """A series with another node's name in `instance` is not that node's."""
    world = start()
    world.put("joined", "neighbour")
    cycle = await world.until(lambda cycle: cycle.fresh == 1)
    assert cycle.missing == {"neighbour": "cpu: no sample"}


async def test_a_recreated_node_is_unknown_until_its_own_samples_cover_the_window(start: Callable[..., World]) -> None:
    """The samples of its predecessor do not count."""
    world = start()
    world.put("again")
    await world.until_known()
    world.put("again", uid="uid-of-another", age=-SETTLING)
    assert (await world.cycle()).expected == 0
    assert world.usage("again") is None
    [message] = world.measurement.node_messages(world.placement.nodes, epoch=1, sequence=1) or [None]
    assert message is None or message.uid == "uid-of-another"
    made = world.clock.now()
    world.put("again", uid="uid-of-a-third", age=0.0)
    await world.until(lambda _: world.usage("again") is not None)
    assert world.clock.now() - made >= LOAD.coverage.window * LOAD.shortest.length
