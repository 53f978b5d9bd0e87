"""A descheduler that levels a fleet: Equipoise or the upstream descheduler, each on its own cluster."""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean

import aiohttp
import msgspec
import yaml

from bench.descheduler.initial_placement import create_fleet
from bench.descheduler.upstream_descheduler import build_descheduler, prometheus_policy, start_descheduler, usage_query
from bench.output import progress
from equipoise.cli.commands.setup import create_resources
from equipoise.cli.demo import figures
from equipoise.cli.demo.configuration import EXTENDER_TIMEOUT, compressed_document, scheduler_configuration
from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import EXCLUDED_NAMESPACE
from equipoise.cli.demo.node_loads import NodeLoads, trace_cores
from equipoise.cli.up.supervisor import Supervisor
from equipoise.contracts.bus.subjects import PREFIX, SERVICES, ServiceName
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.lab.model.trace import Trace
from equipoise.runtime.bus import Delivery, connect
from equipoise.runtime.configuration import Nats
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.placement import Document, Placement, all_pods, bind, placement

EQUIPOISE_INTERVAL = 120.0
DESCHEDULER_INTERVAL = 30.0
HIGHEST_LOAD = 0.95
"""Load of the most loaded node at the start. The usage of the example is scaled to it."""

FINAL_EVALUATIONS = 12
"""The result is the mean over the last evaluations of a run: evictions may go on until its end."""

IMPROVEMENT = 1.0
"""Points by which the spread must fall to count as lower."""

HOT = 10.0
"""Points above the mean of the fleet. Nodes above are hot."""

GRID = tuple(
    (name, low, high, deviation, per_node)
    for name, low, high, deviation in (
        ("mean ± 8", 8, 8, True),
        ("mean ± 15", 15, 15, True),
        ("20 to 50", 20, 50, False),
        ("45 to 65", 45, 65, False),
    )
    for per_node in (1, 2, 5)
)


LEVELING: tuple[Document, ...] = ({"name": "low_node_load"}, {"name": "level_day", "currentLoadWeight": 1.0})
"""A run is too short for a measured day, and its load is constant."""


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """One of the compared programs, with its configuration."""

    name: str
    services: tuple[ServiceName, ...] = ()
    """Services of Equipoise. With the scorer, kube-scheduler gets its extender entry."""

    strategies: tuple[Document, ...] = ()
    """The strategies of the descheduler; empty: the default."""

    settings: Document = {}
    """Further settings by section, instead of their defaults."""

    descheduler: tuple[str, float, float, bool, int] | None = None
    """A row of GRID."""

    @property
    def own_interval(self) -> float:
        """Uncompressed seconds between two evaluations."""
        return DESCHEDULER_INTERVAL if self.descheduler else EQUIPOISE_INTERVAL


def contenders() -> list[Contender]:
    """All contenders that do not depend on the results of others."""
    grid = [Contender(name=f"descheduler, {row[0]}, {row[4]} per node", descheduler=row) for row in GRID]
    return [
        Contender(name="Equipoise, the current load leveled", services=SERVICES, strategies=LEVELING),
        Contender(name="Equipoise, defaults", services=SERVICES),
        Contender(
            name="Equipoise, mean ± 8", services=SERVICES, strategies=({"name": "low_node_load", "deviation": {}},)
        ),
        *grid,
    ]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Loads are percent of a node's CPU; `after` is the mean over the last evaluations."""

    name: str
    spread_before: float
    spread_after: float
    deviation_before: float
    deviation_after: float
    hot_before: int
    hot_after: float
    hottest_after: float
    evictions: int
    refused: int
    """Evictions rejected because of a PodDisruptionBudget (429)."""

    returns: int
    """Evictions whose replacement was placed on the evicted node."""

    evaluations: int
    level_after_evaluations: int | None
    """Evaluations until the spread was at most half of the initial one for the rest of the run; None: never."""

    level_after_minutes: float | None
    """The same in uncompressed time."""

    spreads: tuple[float, ...]
    """The spread at every evaluation."""

    outcomes: dict[str, int]
    """Number of intents of Equipoise, by outcome."""

    failed_cycles: int
    """Cycles that the upstream descheduler ended with an error."""

    scrapes: float
    """Scrapes of the node with the fewest, as a share of the expected number."""

    @property
    def gained(self) -> float:
        return self.spread_before - self.spread_after

    @property
    def per_point(self) -> float | None:
        """Evictions per point by which the spread fell; None if it did not fall."""
        return self.evictions / self.gained if self.gained > 0 else None


def constant_trace(seed: int, nodes: int, start: Placement | None = None, *, honest: bool = False) -> Trace:
    """The trace of the demo with the usage of each workload constant, at its mean over the day.

    With `start`, usage is scaled so that the most loaded node is at HIGHEST_LOAD. `honest`: workloads request CPU in
    proportion to their usage, within a factor of two; otherwise requests and usage are unrelated.
    """
    trace, generator = example_trace(seed, nodes=nodes), random.Random(seed)
    means = trace.cpu_milli.mean(axis=1, keepdims=True)
    usage = dict(zip((workload.name for workload in trace.workloads), means[:, 0].tolist(), strict=True))
    estimate = {name: round(mean * generator.uniform(0.7, 1.4)) for name, mean in usage.items()}
    scale = 1.0
    if start is not None:
        used: defaultdict[str, float] = defaultdict(float)
        for name, nodes_of_pods in start.items():
            for node in nodes_of_pods:
                used[node] += usage[name.partition("/")[2]]
        scale = HIGHEST_LOAD / max(used[node.name] / node.cpu_milli for node in trace.nodes)
    workloads = tuple(
        msgspec.structs.replace(
            workload,
            request_cpu_milli=estimate[workload.name] if honest else workload.request_cpu_milli,
        )
        for workload in trace.workloads
    )
    memory = trace.memory_mib.mean(axis=1, keepdims=True)
    return msgspec.structs.replace(trace, workloads=workloads, cpu_milli=scale * means, memory_mib=memory)


class LevelingRun:
    """One contender on a cluster of its own."""

    def __init__(
        self,
        contender: Contender,
        trace: Trace,
        cluster: Cluster,
        api: Api,
        session: aiohttp.ClientSession,
        descheduler: Path | None,
        *,
        interval: float,
    ) -> None:
        self.contender = contender
        self.descheduler = descheduler
        self.interval = interval
        self.trace = trace
        self.cluster = cluster
        self.api = api
        self.session = session
        self.cores = {node.name: node.cpu_milli / 1000 for node in trace.nodes}
        self._node_loads = NodeLoads(session, cluster.prometheus_url, trace_cores(trace), interval)
        self.outcomes: Counter[str] = Counter()

    async def place(self, start: Placement) -> None:
        """Create all pods and bind them as in `start`."""
        await asyncio.to_thread(self.cluster.kill, "kube-scheduler")
        await create_fleet(self.cluster, self.api, self.trace)
        expected = len(self.trace.pods) + len(self.trace.nodes)
        await bind(self.api, await all_pods(self.api, expected), start)
        await asyncio.to_thread(self.cluster.restart_scheduler, {})
        if placement(await all_pods(self.api, expected, running=True)) != start:
            raise RuntimeError("the pods do not run on the nodes of the initial placement")

    async def loads(self) -> dict[str, float]:
        """Percent of each node's cores over the last interval, at most 100: fake nodes have no physical limit."""
        return {node: min(100.0, load) for node, load in (await self._node_loads.of_all()).items()}

    async def _fewest_scrapes(self, seconds: float) -> float:
        """Scrapes of the node with the fewest, within the last `seconds`."""
        query = f"min(count_over_time(node_cpu_usage_seconds_total[{seconds:.0f}s]))"
        async with self.session.get(f"{self.cluster.prometheus_url}/api/v1/query", params={"query": query}) as response:
            body = await response.json()
        return float(body["data"]["result"][0]["value"][1])

    async def level(self, *, max_seconds: float, patience: float) -> Result:
        """Runs the contender for `max_seconds`, or until the spread has not fallen for `patience` seconds."""
        await asyncio.sleep(2 * self.interval)
        before = await self.loads()
        measurements: list[Mapping[str, float]] = []
        lowest, since = figures.spread(before), 0.0
        async with self._contender():
            started, seconds = time.monotonic(), 0.0
            while seconds < max_seconds and seconds < since + patience:
                await asyncio.sleep(started + (len(measurements) + 1) * self.interval - time.monotonic())
                measurements.append(await self.loads())
                seconds = time.monotonic() - started
                if (spread := figures.spread(measurements[-1])) <= lowest - IMPROVEMENT:
                    lowest, since = spread, seconds
                if len(measurements) % 6 == 0:
                    evictions = len(figures.read_audit_log(self.cluster.audit_log).evictions)
                    progress(f"  {seconds:3.0f} s: spread {spread:.0f} points, {evictions} evictions")
        return self._result(before, measurements, await self._fewest_scrapes(seconds) / seconds)

    @asynccontextmanager
    async def _contender(self) -> AsyncIterator[None]:
        async with self.equipoise():
            if self.contender.descheduler:
                _, low, high, deviation, per_node = self.contender.descheduler
                policy = prometheus_policy(
                    prometheus_url=self.cluster.prometheus_url,
                    # Over the last interval, so that a cycle fully sees the effect of the previous one.
                    query=usage_query(self.cores, self.interval),
                    low=low,
                    high=high,
                    deviation=deviation,
                    evictions_per_node=per_node,
                    excluded_namespaces=["kube-system", EXCLUDED_NAMESPACE],
                )
                assert self.descheduler is not None, "built for contenders that use it"
                await start_descheduler(self.cluster, self.descheduler, policy, interval=self.interval)
            yield

    @asynccontextmanager
    async def equipoise(self) -> AsyncIterator[None]:
        """The services of the contender, as extender of kube-scheduler; without services nothing is started."""
        services, cluster = self.contender.services, self.cluster
        if not services:
            yield
            return
        ports = {name: cluster.free_port() for name in (*SERVICES, "extender")}
        file = cluster.directory / "equipoise.yaml"
        file.write_text(yaml.safe_dump(compressed_document(self._document(ports), EQUIPOISE_INTERVAL / self.interval)))
        await create_resources(file)
        health = {service: f"http://127.0.0.1:{ports[service]}" for service in services}
        async with Supervisor(
            configuration=file, directory=cluster.directory, health=health, services=services, report=progress
        ) as supervisor:
            for service in services:
                await supervisor.ready(service)
            extender = scheduler_configuration(f"http://127.0.0.1:{ports['extender']}", timeout=EXTENDER_TIMEOUT)
            await asyncio.to_thread(cluster.restart_scheduler, extender)
            async with connect(Nats(url=cluster.nats_url), "bench") as bus:
                await bus.subscribe(f"{PREFIX}.eviction.outcome.>", EvictionOutcome, self._on_outcome)
                watch = asyncio.create_task(supervisor.watch())
                try:
                    yield
                finally:
                    watch.cancel()

    async def _on_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        self.outcomes[delivery.message.outcome] += 1

    def _document(self, ports: Mapping[str, int]) -> Document:
        """Addresses, `evict: true`, and the strategy unless it is the default; everything else is default."""
        health = {service: {"health": f"127.0.0.1:{ports[service]}"} for service in SERVICES}
        chosen = self.contender.strategies
        strategies = {"strategies": list(chosen)} if chosen else {}
        excluded = ["kube-system", "kube-public", "kube-node-lease", "equipoise-system", EXCLUDED_NAMESPACE]
        document: Document = {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": self.cluster.nats_url},
            "kubernetes": {"kubeconfig": str(self.cluster.kubeconfig)},
            "namespaces": {"exclude": excluded},
            "collector": health["collector"] | {"prometheus": {"url": self.cluster.prometheus_url}},
            "annotator": health["annotator"],
            "scorer": health["scorer"] | {"listen": f"127.0.0.1:{ports['extender']}"},
            "descheduler": health["descheduler"] | strategies,
            "binder": health["binder"] | {"evict": True},
        }
        for section, settings in self.contender.settings.items():
            document[section] = document.get(section, {}) | settings
        return document

    def _failed_cycles(self) -> list[str]:
        """Log lines of the descheduler about cycles that ended with an error."""
        log = self.cluster.log("descheduler")
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        failed = [line for line in lines if "extension point failed" in line]
        for line in failed[:1]:
            progress(f"  {len(failed)} cycles failed, first: {line}")
        return failed

    def _result(
        self, before: Mapping[str, float], measurements: Sequence[Mapping[str, float]], scrapes: float
    ) -> Result:
        events, last = figures.read_audit_log(self.cluster.audit_log), measurements[-FINAL_EVALUATIONS:]
        spreads = [round(figures.spread(loads), 1) for loads in measurements]
        level_after = _level_after(spreads, figures.spread(before) / 2)
        minutes = None if level_after is None else level_after * self.contender.own_interval / 60
        failed = self._failed_cycles()
        return Result(
            name=self.contender.name,
            spread_before=round(figures.spread(before), 1),
            spread_after=round(fmean(map(figures.spread, last)), 1),
            deviation_before=round(figures.deviation(before), 1),
            deviation_after=round(fmean(map(figures.deviation, last)), 1),
            hot_before=_hot(before),
            hot_after=round(fmean(map(_hot, last)), 1),
            hottest_after=round(fmean(max(loads.values()) for loads in last), 1),
            evictions=len(events.evictions),
            refused=sum(eviction.code == 429 for eviction in self.cluster.evictions()),
            returns=events.same_node_returns(),
            evaluations=len(measurements),
            level_after_evaluations=level_after,
            level_after_minutes=minutes,
            spreads=tuple(spreads),
            outcomes=dict(sorted(self.outcomes.items())),
            failed_cycles=len(failed),
            scrapes=round(scrapes, 3),
        )


def _hot(loads: Mapping[str, float]) -> int:
    mean = fmean(loads.values())
    return sum(load > mean + HOT for load in loads.values())


def _level_after(spreads: Sequence[float], half: float) -> int | None:
    above = [number for number, spread in enumerate(spreads, 1) if spread > half]
    level = above[-1] + 1 if above else 1
    return level if level <= len(spreads) else None


async def run_contender(
    contender: Contender, trace: Trace, start: Placement, *, interval: float, max_seconds: float, patience: float
) -> Result:
    """Runs it on a cluster of its own, from the placement `start`."""
    descheduler = await asyncio.to_thread(build_descheduler) if contender.descheduler else None
    progress(f"{contender.name}: {len(trace.pods)} pods on {len(trace.nodes)} nodes")
    async with (
        Cluster(nats=True) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        cluster.api() as api,
    ):
        run = LevelingRun(contender, trace, cluster, api, session, descheduler, interval=interval)
        await run.place(start)
        return await run.level(max_seconds=max_seconds, patience=patience)
