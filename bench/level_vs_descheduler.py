"""Equipoise and the upstream descheduler level the same fleet in turn: same start, same load, same Prometheus.

The stock scheduler places a fleet whose requests say little about its usage; that placement is repeated pod by pod
before every run. The load is constant, as the descheduler knows no days. Time is shortened: everybody evaluates every
5 s (`--interval`), which stands for the descheduler's 30 s (6 times) and for Equipoise's 120 s (24 times, with every
window, cool-down and limit). A run ends after its time, or when the spread has not got lower for a while.

With `--results FILE` the lines go to a file, too, and runs that it already holds are not repeated.
"""

import argparse
import asyncio
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import aiohttp
import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from bench.line import progress, say
from equipoise.cli.demo import figures
from equipoise.cli.demo.configuration import EXTENDER_TIMEOUT, compressed_document, scheduler_configuration
from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import EXCLUDED_NAMESPACE, namespace_documents, node_documents, workload_documents
from equipoise.cli.demo.node_loads import NodeLoads
from equipoise.cli.setup.resources import create_resources
from equipoise.cli.up.supervisor import Supervisor
from equipoise.contracts.bus.subjects import PREFIX, SERVICES, ServiceName
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.lab.model.trace import Trace
from equipoise.runtime.bus import Delivery, connect
from equipoise.runtime.configuration import Nats
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.descheduler import build_descheduler, prometheus_policy, start_descheduler

Document = dict[str, Any]
Placement = dict[str, list[str]]
"""The nodes of each workload's pods, by `namespace/workload`."""

EQUIPOISE_INTERVAL = 120.0
DESCHEDULER_INTERVAL = 30.0
FULLEST = 0.95
"""Load of the fullest node at the start; the example's usage is scaled so."""

STEADY_LOOKS = 12
"""Looks at the end of a run whose mean is its result: a fleet that is never left alone does not stand still."""

BETTER = 1.0
"""Points by which the spread must fall to count as lower."""

LEAST_SCRAPES = 0.95
"""Share of the scrapes that were due below which the machine was too busy for a result."""

HOT = 10.0
"""Points above the fleet's mean from which a node counts as hot."""

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


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """Who levels, and how."""

    name: str
    services: tuple[ServiceName, ...] = ()
    """Of Equipoise; with the scorer among them kube-scheduler asks it."""

    strategy: Document = {}
    """Equipoise's low_node_load, alone; empty: every default, the strategies' too."""

    descheduler: tuple[str, float, float, bool, int] | None = None
    """A row of GRID."""

    @property
    def own_interval(self) -> float:
        """Seconds that one evaluation stands for."""
        return DESCHEDULER_INTERVAL if self.descheduler else EQUIPOISE_INTERVAL


def contenders() -> list[Contender]:
    """Everybody whose settings are known beforehand."""
    grid = [Contender(name=f"descheduler, {row[0]}, {row[4]} per node", descheduler=row) for row in GRID]
    return [
        Contender(name="Equipoise, defaults", services=SERVICES),
        Contender(name="Equipoise, mean ± 8", services=SERVICES, strategy={"deviation": {}}),
        *grid,
    ]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Loads are percent of a node's CPU; `after` is the mean of the last minute."""

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
    """Evictions that a disruption budget held (429)."""

    returns: int
    """Evictions whose replacement went to the node that the pod had left."""

    evaluations: int
    level_after_evaluations: int | None
    """Until the spread was half of that before, and stayed so; None: never."""

    level_after_minutes: float | None
    """The same in the contender's own, unshortened time."""

    spreads: tuple[float, ...]
    """At every evaluation."""

    outcomes: dict[str, int]
    """What Equipoise's binder made of its intents."""

    failed_cycles: int
    """Cycles that the descheduler gave up with an error."""

    scrapes: float
    """Scrapes of the worst node as a share of those that were due."""

    @property
    def gained(self) -> float:
        return self.spread_before - self.spread_after

    @property
    def per_point(self) -> float | None:
        """Evictions per point of spread gained; None where nothing was."""
        return self.evictions / self.gained if self.gained > 0 else None


def constant_trace(seed: int, nodes: int, start: Placement | None = None, *, honest: bool = False) -> Trace:
    """The demo's example, every workload at the mean of its day; with a start scaled so that its fullest node fits.

    `honest`: workloads request CPU in proportion to their usage, within a factor of two, instead of whatever they like.
    """
    trace, chooser = example_trace(seed, nodes=nodes), random.Random(seed)
    means = trace.cpu_milli.mean(axis=1, keepdims=True)
    usage = dict(zip((workload.name for workload in trace.workloads), means[:, 0].tolist(), strict=True))
    estimate = {name: round(mean * chooser.uniform(0.7, 1.4)) for name, mean in usage.items()}
    scale = 1.0
    if start is not None:
        used: defaultdict[str, float] = defaultdict(float)
        for name, places in start.items():
            for node in places:
                used[node] += usage[name.partition("/")[2]]
        scale = FULLEST / max(used[node.name] / node.cpu_milli for node in trace.nodes)
    workloads = tuple(
        msgspec.structs.replace(
            workload,
            request_cpu_milli=estimate[workload.name] if honest else workload.request_cpu_milli,
        )
        for workload in trace.workloads
    )
    memory = trace.memory_mib.mean(axis=1, keepdims=True)
    return msgspec.structs.replace(trace, workloads=workloads, cpu_milli=scale * means, memory_mib=memory)


class Run:
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
        self._node_loads = NodeLoads(session, cluster.prometheus_url, trace, interval)
        self.outcomes: Counter[str] = Counter()

    async def place(self, start: Placement) -> None:
        """Everything runs where `start` says."""
        await asyncio.to_thread(self.cluster.kill, "kube-scheduler")
        await _create(self.cluster, self.api, self.trace)
        wanted = len(self.trace.pods) + len(self.trace.nodes)
        await self._bind(await _pods(self.api, wanted), start)
        await asyncio.to_thread(self.cluster.restart_scheduler, {})
        if _placement(await _pods(self.api, wanted, running=True)) != start:
            raise RuntimeError("the pods do not run where this run was to begin")

    async def _bind(self, pods: Sequence[Document], start: Placement) -> None:
        left = {workload: list(nodes) for workload, nodes in start.items()}
        for pod in pods:
            # A DaemonSet's pods know where they belong.
            if (workload := _workload(pod)) in left:
                metadata = pod["metadata"]
                await self.api.request(
                    "POST",
                    f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding",
                    {
                        "apiVersion": "v1",
                        "kind": "Binding",
                        "metadata": {"name": metadata["name"]},
                        "target": {"apiVersion": "v1", "kind": "Node", "name": left[workload].pop()},
                    },
                )

    async def loads(self) -> dict[str, float]:
        """Percent of each node's cores over the last interval. Fake nodes give more than they have: cut off at 100."""
        return {node: min(100.0, load) for node, load in (await self._node_loads.of_all()).items()}

    async def _least_scrapes(self, seconds: float) -> float:
        """Of the last so many seconds, of the node that has the fewest."""
        query = f"min(count_over_time(node_cpu_usage_seconds_total[{seconds:.0f}s]))"
        async with self.session.get(f"{self.cluster.prometheus_url}/api/v1/query", params={"query": query}) as response:
            answer = await response.json()
        return float(answer["data"]["result"][0]["value"][1])

    async def level(self, *, most_seconds: float, patience: float) -> Result:
        """From the contender's start until its time is over or the fleet gets no leveller."""
        await asyncio.sleep(2 * self.interval)
        before = await self.loads()
        looks: list[Mapping[str, float]] = []
        lowest, since = figures.spread(before), 0.0
        async with self._contender():
            began, seconds = time.monotonic(), 0.0
            while seconds < most_seconds and seconds < since + patience:
                await asyncio.sleep(began + (len(looks) + 1) * self.interval - time.monotonic())
                looks.append(await self.loads())
                seconds = time.monotonic() - began
                if (spread := figures.spread(looks[-1])) <= lowest - BETTER:
                    lowest, since = spread, seconds
                if len(looks) % 6 == 0:
                    evictions = len(figures.read_audit_log(self.cluster.audit_log).evictions)
                    progress(f"  {seconds:3.0f} s: spread {spread:.0f} points, {evictions} evictions")
        return self._judge(before, looks, await self._least_scrapes(seconds) / seconds)

    @asynccontextmanager
    async def _contender(self) -> AsyncIterator[None]:
        async with self._equipoise():
            if self.contender.descheduler:
                _, low, high, deviation, per_node = self.contender.descheduler
                policy = prometheus_policy(
                    prometheus_url=self.cluster.prometheus_url,
                    query=self._descheduler_query(),
                    low=low,
                    high=high,
                    deviation=deviation,
                    evictions_per_node=per_node,
                    excluded_namespaces=["kube-system", EXCLUDED_NAMESPACE],
                )
                assert self.descheduler is not None, "built when it is needed"
                await start_descheduler(self.cluster, self.descheduler, policy, interval=self.interval)
            yield

    def _descheduler_query(self) -> str:
        """The load over the last interval: its next cycle sees all of what the last one did.

        One sample above 1 ends a cycle of the descheduler with an error, so there is none.
        """
        nodes: dict[float, list[str]] = defaultdict(list)
        for name, cores in self.cores.items():
            nodes[cores].append(name)
        parts = (
            f'rate(node_cpu_usage_seconds_total{{instance=~"{"|".join(names)}"}}[{self.interval:g}s]) / {cores:g}'
            for cores, names in nodes.items()
        )
        return f"clamp_max({' or '.join(parts)}, 1)"

    @asynccontextmanager
    async def _equipoise(self) -> AsyncIterator[None]:
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
        """Nothing but addresses, permission to evict, and the strategy where it is not the default."""
        health = {service: {"health": f"127.0.0.1:{ports[service]}"} for service in SERVICES}
        strategy = self.contender.strategy
        chosen = {"strategies": [{"name": "low_node_load", **strategy}]} if strategy else {}
        excluded = ["kube-system", "kube-public", "kube-node-lease", "equipoise-system", EXCLUDED_NAMESPACE]
        return {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": self.cluster.nats_url},
            "kubernetes": {"kubeconfig": str(self.cluster.kubeconfig)},
            "namespaces": {"exclude": excluded},
            "collector": health["collector"] | {"prometheus": {"url": self.cluster.prometheus_url}},
            "annotator": health["annotator"],
            "scorer": health["scorer"] | {"listen": f"127.0.0.1:{ports['extender']}"},
            "descheduler": health["descheduler"] | chosen,
            "binder": health["binder"] | {"evict": True},
        }

    def _failed_cycles(self) -> list[str]:
        """What the descheduler said of cycles that it gave up."""
        log = self.cluster.log("descheduler")
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        failed = [line for line in lines if "extension point failed" in line]
        for line in failed[:1]:
            progress(f"  {len(failed)} cycles failed, first: {line}")
        return failed

    def _judge(self, before: Mapping[str, float], looks: Sequence[Mapping[str, float]], scrapes: float) -> Result:
        events, last = figures.read_audit_log(self.cluster.audit_log), looks[-STEADY_LOOKS:]
        spreads = [round(figures.spread(look), 1) for look in looks]
        level = _level_after(spreads, figures.spread(before) / 2)
        minutes = None if level is None else level * self.contender.own_interval / 60
        failed = self._failed_cycles()
        return Result(
            name=self.contender.name,
            spread_before=round(figures.spread(before), 1),
            spread_after=round(fmean(map(figures.spread, last)), 1),
            deviation_before=round(figures.deviation(before), 1),
            deviation_after=round(fmean(map(figures.deviation, last)), 1),
            hot_before=_hot(before),
            hot_after=round(fmean(map(_hot, last)), 1),
            hottest_after=round(fmean(max(look.values()) for look in last), 1),
            evictions=len(events.evictions),
            refused=sum(eviction.code == 429 for eviction in self.cluster.evictions()),
            returns=events.same_node_returns(),
            evaluations=len(looks),
            level_after_evaluations=level,
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


def _workload(pod: Document) -> str:
    """`namespace/deployment`, or "" for a DaemonSet's pod."""
    metadata = pod["metadata"]
    of_daemon_set = any(owner["kind"] == "DaemonSet" for owner in metadata["ownerReferences"])
    return "" if of_daemon_set else f"{metadata['namespace']}/{metadata['labels']['app']}"


def _placement(pods: Sequence[Document]) -> Placement:
    placement: Placement = defaultdict(list)
    for pod in pods:
        if workload := _workload(pod):
            placement[workload].append(pod["spec"]["nodeName"])
    return {workload: sorted(nodes) for workload, nodes in sorted(placement.items())}


async def _create(cluster: Cluster, api: Api, trace: Trace) -> None:
    await cluster.add_nodes(node_documents(trace))
    await api.apply(namespace_documents())
    await api.apply(workload_documents(trace, epoch=0, step_seconds=60))


async def _pods(api: Api, wanted: int, *, running: bool = False) -> list[Document]:
    """All pods, once there are as many as wanted, or as many run."""

    def there(seen: Any) -> bool:
        return sum(1 for pod in seen["items"] if not running or pod["status"].get("phase") == "Running") >= wanted

    seen = await api.wait("/api/v1/pods", there, timeout=120, what=f"{wanted} pods {'run' if running else 'exist'}")
    pods: list[Document] = seen["items"]
    return pods


async def stock_placement(trace: Trace) -> Placement:
    """Where the stock scheduler puts the fleet's pods; it draws among equals, so never twice alike."""
    async with Cluster() as cluster, cluster.api() as api:
        await _create(cluster, api, trace)
        return _placement(await _pods(api, len(trace.pods) + len(trace.nodes), running=True))


class Results:
    """What was measured so far, and where everything begins; in a file if there is one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.start: Placement | None = None
        self.runs: dict[str, Result] = {}
        for line in file.read_text().splitlines() if file is not None and file.exists() else ():
            self._take(line)

    def _take(self, line: str) -> None:
        if line.startswith('{"start"'):
            self.start = msgspec.json.decode(line, type=dict[str, Placement])["start"]
        else:
            result = msgspec.json.decode(line, type=Result)
            self.runs[result.name] = result

    def begin(self, start: Placement) -> None:
        self.start = start
        self._keep(msgspec.json.encode({"start": start}).decode())

    def add(self, result: Result) -> None:
        self.runs[result.name] = result
        line = msgspec.json.encode(result).decode()
        self._keep(line)
        print(line, flush=True)

    def _keep(self, line: str) -> None:
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(line + "\n")

    def best_of_grid(self) -> Result | None:
        """The descheduler's run with the least spread in the end, once all are there."""
        grid = [f"descheduler, {row[0]}, {row[4]} per node" for row in GRID]
        if any(name not in self.runs for name in grid):
            return None
        return min((self.runs[name] for name in grid), key=lambda result: result.spread_after)


async def one_run(
    contender: Contender, trace: Trace, results: Results, *, interval: float, most_seconds: float, patience: float
) -> None:
    """Adds its result."""
    descheduler = await asyncio.to_thread(build_descheduler) if contender.descheduler else None
    progress(f"{contender.name}: {len(trace.pods)} pods on {len(trace.nodes)} nodes")
    async with (
        Cluster(nats=True) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        cluster.api() as api,
    ):
        run = Run(contender, trace, cluster, api, session, descheduler, interval=interval)
        assert results.start is not None, "made before any run"
        await run.place(results.start)
        results.add(await run.level(most_seconds=most_seconds, patience=patience))


def show(results: Results) -> None:
    """The table, and the aims once every run is there."""
    table = Table(title="Levelling one fleet from the same start, CPU load of its nodes in percent", box=None)
    columns = ("spread", "std", "hot nodes", "hottest", "evictions", "per point", "returns", "minutes to level")
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for result in results.runs.values():
        per_point, minutes = result.per_point, result.level_after_minutes
        table.add_row(
            result.name + (" (disturbed: run it again)" if result.scrapes < LEAST_SCRAPES else ""),
            f"{result.spread_before:.0f} → {result.spread_after:.0f}",
            f"{result.deviation_before:.1f} → {result.deviation_after:.1f}",
            f"{result.hot_before} → {result.hot_after:g}",
            f"{result.hottest_after:.0f}",
            f"{result.evictions}",
            "-" if per_point is None else f"{per_point:.2f}",
            f"{result.returns}",
            "never" if minutes is None else f"{minutes:.0f}",
        )
    console = Console(file=sys.stderr)
    console.width = max(console.width, 180)
    console.print(table)


def say_aims(results: Results, best: Result) -> None:
    """Equipoise against the best the descheduler reached."""
    for contender in contenders():
        if contender.descheduler or contender.name not in results.runs:
            continue
        ours = results.runs[contender.name]
        say("level_vs_descheduler/spread", ours.spread_after, "points", target=("<=", 0.5), baseline=best.spread_after,
            run=ours.name, against=best.name)  # fmt: skip
        if ours.per_point is not None:
            # Where the descheduler gained nothing there is nothing to hold it against.
            target = ("<=", 1.0) if best.per_point is not None else None
            say("level_vs_descheduler/evictions_per_point", ours.per_point, "evictions", target=target,
                baseline=best.per_point, run=ours.name, against=best.name)  # fmt: skip
        if ours.evictions:
            say("level_vs_descheduler/same_node_returns", ours.returns / ours.evictions, "share", target=("<=", 0.02),
                run=ours.name)  # fmt: skip


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", type=int, default=24)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--honest", action="store_true", help="requests follow usage, within a factor of two")
    arguments.add_argument("--interval", type=float, default=5.0, help="real seconds between evaluations, of everybody")
    arguments.add_argument("--evaluations", type=int, default=120, help="as many in a run, at most")
    arguments.add_argument("--patience", type=int, default=24, help="evaluations without a lower spread that end a run")
    arguments.add_argument("--results", type=Path, help="keeps the lines, and spares the runs it holds")
    arguments.add_argument("--only", default="", help="a regular expression of the runs that are wanted")
    given = arguments.parse_args()
    results = Results(given.results)
    if results.start is None:
        results.begin(await stock_placement(constant_trace(given.seed, given.nodes, honest=given.honest)))
    trace = constant_trace(given.seed, given.nodes, results.start, honest=given.honest)
    times = {
        "interval": given.interval,
        "most_seconds": given.interval * given.evaluations,
        "patience": given.interval * given.patience,
    }

    for contender in contenders():
        if contender.name not in results.runs and re.search(given.only, contender.name):
            await one_run(contender, trace, results, **times)
    if best := results.best_of_grid():
        row = next(contender for contender in contenders() if contender.name == best.name).descheduler
        both = Contender(
            name=f"{best.name}, beside Equipoise's scorer", services=("collector", "scorer"), descheduler=row
        )
        if both.name not in results.runs and re.search(given.only, both.name):
            await one_run(both, trace, results, **times)
    show(results)
    if best:
        say_aims(results, best)


if __name__ == "__main__":
    asyncio.run(main())
