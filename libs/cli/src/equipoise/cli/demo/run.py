"""The demo from an empty machine to its last line: cluster, pods, Equipoise, burst, figures."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from rich.console import Console
from rich.live import Live
from rich.table import Table

from equipoise.cli.demo import figures
from equipoise.cli.demo.configuration import (
    PATIENT,
    compressed_document,
    equipoise_document,
    limits_in_force,
    scheduler_configuration,
    window_limits,
)
from equipoise.cli.demo.example import STEPS, example_trace
from equipoise.cli.demo.live_view import Picture
from equipoise.cli.demo.manifests import (
    BURST_NAMESPACE,
    burst_document,
    namespace_documents,
    node_documents,
    workload_documents,
)
from equipoise.cli.demo.node_loads import NodeLoads
from equipoise.cli.demo.trace import Trace, load_slice
from equipoise.cli.setup.resources import create_resources
from equipoise.cli.up.supervisor import Supervisor
from equipoise.contracts.bus.subjects import PREFIX, SERVICES, ServiceName
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.runtime.bus import Delivery, connect
from equipoise.runtime.configuration import Nats
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import build
from equipoise.testbed.cluster import Cluster

LEAST_DAY = 0.5
"""Share of a day between Equipoise's joining and the look after: on a busy machine five services start slowly."""


class DemoOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is made of. The defaults are `make demo`."""

    trace_folder: Path | None = None
    seed: int = 1
    nodes: int = 40
    steps: int | None = None
    """Steps of the example's day; None: 96 quarters of an hour."""

    step_seconds: int = 4
    """Real seconds per step; with the trace's own step it gives the factor of time."""

    burst_pods: int = 100
    services: tuple[ServiceName, ...] = SERVICES
    neutral: bool = False
    """The scorer answers neutral scores only."""

    keep: bool = False


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of the demo. Spread and std are points of percent of node CPU load."""

    nodes: int
    pods: int
    workloads: int
    time_factor: float
    limits: dict[str, Any]
    spread_before: float
    spread_after: float
    std_before: float
    std_after: float
    burst_max_share: float
    evictions: int
    pods_moved_share: float
    same_node_returns: int
    outcomes: dict[str, int]
    rejected: int
    limit_violations: int
    protected_evictions: int
    seconds: float
    """Of the whole run; building the testbed is not in it."""


class Screen:
    """A live picture on a terminal; elsewhere a plain line now and then, on stderr."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._last_line = 0.0

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, table: Table) -> None:
        self._console.print(table)

    @asynccontextmanager
    async def showing(self, picture: Picture) -> AsyncIterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with Live(picture.render(), console=self._console, refresh_per_second=4, transient=False) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def refresh(self, picture: Picture) -> None:
        if self._live is not None:
            self._live.update(picture.render())
        elif picture.now and time.monotonic() - self._last_line > 15:
            self._last_line = time.monotonic()
            counts = ", ".join(f"{name} {count}" for name, count in sorted(picture.counts.items()))
            self.say(f"{picture.phase}: spread {figures.spread(picture.now):.0f} points, {counts or 'no outcome yet'}")


async def run_demo(options: DemoOptions, screen: Screen) -> Result:
    """The whole run. Raises what the cluster or a service raises when it does not start."""
    trace = _trace(options)
    binaries = await asyncio.to_thread(build)
    began = time.monotonic()
    async with (
        Cluster(binaries=binaries, nats=True) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        cluster.api() as api,
    ):
        demo = Demo(options, screen, trace, cluster, session, api)
        await demo.place()
        before = await demo.look_before()
        async with demo.equipoise(before) as supervisor:
            after = await demo.live(before, supervisor)
            result = demo.judge(before, after, time.monotonic() - began)
            screen.say("")
            demo.show(before, after, result)
            if options.keep:
                await demo.keep_running(result)
    return result


def encoded(result: Result) -> str:
    """One JSON object on one line."""
    return msgspec.json.encode(result).decode()


def _trace(options: DemoOptions) -> Trace:
    if options.trace_folder is not None:
        return load_slice(options.trace_folder, nodes=options.nodes, seed=options.seed)
    return example_trace(options.seed, nodes=options.nodes, steps=options.steps or STEPS)


class Demo:
    """One run on one cluster."""

    def __init__(
        self,
        options: DemoOptions,
        screen: Screen,
        trace: Trace,
        cluster: Cluster,
        session: aiohttp.ClientSession,
        api: Api,
    ) -> None:
        self.options = options
        self.screen = screen
        self.trace = trace
        self.cluster = cluster
        self.api = api
        self.factor = trace.seconds_per_step / options.step_seconds
        self.period = trace.steps * options.step_seconds
        # The pods take half a minute to run and to be measured: the first look then falls in the middle of the day.
        self.epoch = int(time.time()) + 30 - round(self.period * 0.54)  # noqa: TID251  kwok reads the same clock
        self.loads = NodeLoads(session, cluster.prometheus_url, trace, 2 * options.step_seconds)
        self.outcomes: Counter[str] = Counter()
        self.picture = Picture("Equipoise levels a real cluster", self.period)
        self.looked_at = 0.0
        """Unix second of the look before."""

        self.before_burst: dict[str, float] = {}

    async def place(self) -> None:
        """The stock scheduler alone places everything."""
        trace = self.trace
        self.screen.say(
            f"{trace.name}: {len(trace.nodes)} nodes, {len(trace.workloads)} workloads, {trace.pods} pods"
            + (f", slice seed {self.options.seed}; derived requests" if trace.derived_requests else "")
        )
        self.screen.say(
            f"time is compressed {self.factor:g} times: a day of the trace takes {self.period} s, "
            f"a scrape each second is one every {self.factor / 60:.1f} min"
        )
        await self.cluster.add_nodes(node_documents(trace))
        await self.api.apply(namespace_documents())
        await self.api.apply(workload_documents(trace, epoch=self.epoch, step_seconds=self.options.step_seconds))
        wanted = trace.pods + len(trace.nodes)
        running = await self._running(wanted)
        self.screen.say(f"the stock scheduler placed {running} of {wanted} pods (one of a DaemonSet on each node)")

    async def _running(self, wanted: int, namespace: str = "") -> int:
        """Wait until all run, or until no more do for 15 s (a trace's slice may not fit by its requests)."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        count, since = -1, time.monotonic()
        while True:
            pods = (await self.api.request("GET", f"{path}?resourceVersion=0"))["items"]
            running = [pod["status"].get("phase") for pod in pods].count("Running")
            if running >= wanted or (running == count and time.monotonic() - since > 15):
                return running
            if running != count:
                count, since = running, time.monotonic()
            await asyncio.sleep(0.5)

    async def look_before(self) -> dict[str, float]:
        """Loads once every window of the look is covered."""
        await asyncio.sleep(3 * self.options.step_seconds)
        self.looked_at = time.time()  # noqa: TID251  Prometheus scrapes with the same clock
        return await self._look(self.looked_at)

    async def _look(self, moment: float) -> dict[str, float]:
        await asyncio.sleep(max(0.0, moment + 1.2 - time.time()))  # noqa: TID251  until the scrape of it is in
        return await self.loads.of_all(moment)

    @asynccontextmanager
    async def equipoise(self, before: Mapping[str, float]) -> AsyncIterator[Supervisor]:
        """Streams, ledger, five services, and the scheduler's entry for the extender."""
        ports = {name: self.cluster.free_port() for name in (*SERVICES, "extender")}
        document = compressed_document(
            equipoise_document(
                kubeconfig=str(self.cluster.kubeconfig),
                prometheus_url=self.cluster.prometheus_url,
                nats_url=self.cluster.nats_url,
                ports=ports,
                neutral=self.options.neutral,
                sliced=self.options.trace_folder is not None,
            ),
            self.factor,
        )
        configuration = self.cluster.directory / "equipoise.yaml"
        configuration.write_text(yaml.safe_dump(document, sort_keys=False))
        self.limits = limits_in_force(document)
        self.screen.say(f"limits in force: {json.dumps(self.limits)}")
        await create_resources(configuration)
        health = {service: f"http://127.0.0.1:{ports[service]}" for service in SERVICES}
        async with Supervisor(
            configuration=configuration,
            directory=self.cluster.directory,
            health=health,
            services=self.options.services,
        ) as supervisor:
            async with asyncio.TaskGroup() as group:
                for service in self.options.services:
                    group.create_task(supervisor.ready(service))
            extender = scheduler_configuration(f"http://127.0.0.1:{ports['extender']}", timeout=PATIENT)
            await asyncio.to_thread(self.cluster.restart_scheduler, extender)
            self.screen.say("Equipoise has joined")
            yield supervisor

    async def live(self, before: dict[str, float], supervisor: Supervisor) -> dict[str, float]:
        """The loads at the same point of a later day: of the next one that leaves Equipoise time to level."""
        self.picture.before = before
        joined = time.time()  # noqa: TID251
        until = figures.same_point_after(joined + LEAST_DAY * self.period, self.looked_at, self.period)
        self.picture.seconds = until - self.looked_at
        async with connect(Nats(url=self.cluster.nats_url), "demo") as bus:
            await bus.subscribe(f"{PREFIX}.eviction.outcome.>", EvictionOutcome, self.on_outcome)
            async with self.screen.showing(self.picture):
                watch = asyncio.create_task(supervisor.watch())
                burst = asyncio.create_task(self._burst(until - self.period * 0.4))
                try:
                    while time.time() < until:  # noqa: TID251
                        await self._tick()
                        if watch.done():
                            watch.result()
                    await burst
                    return await self._look(until)
                finally:
                    watch.cancel()
                    burst.cancel()

    async def _tick(self) -> None:
        now = time.time()  # noqa: TID251
        self.picture.elapsed = now - self.looked_at
        self.picture.hour = (now - self.epoch) % self.period / self.period * 24
        self.picture.measured(await self.loads.at(now))
        self.screen.refresh(self.picture)
        await asyncio.sleep(1.0)

    async def _burst(self, moment: float) -> None:
        self.picture.phase = "levelling"
        await asyncio.sleep(max(0.0, moment - time.time()))  # noqa: TID251
        self.before_burst = dict(self.picture.now)
        pods = self.options.burst_pods
        self.picture.phase = f"a burst of {pods} new pods"
        self.picture.said(f"{pods} pods of a workload that was never measured arrive at once", "bold cyan")
        await self.api.apply([burst_document(self.trace, pods)])
        await self._running(pods, BURST_NAMESPACE)

    async def on_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        outcome = delivery.message
        self.outcomes[outcome.outcome] += 1
        self.picture.counts = dict(self.outcomes)
        if outcome.outcome is Outcome.EVICTED:
            reason = outcome.reason.removeprefix("node is overutilized, ")
            self.picture.said(f"{outcome.node} ⟶ {outcome.target or '?'}   {outcome.pod}   {reason}")

    def witness(self) -> figures.Witness:
        return figures.read_witness(self.cluster.audit_log)

    def burst(self, witness: figures.Witness) -> tuple[figures.AuditedBinding, ...]:
        return witness.burst(BURST_NAMESPACE, self.options.burst_pods)

    def judge(self, before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> Result:
        witness = self.witness()
        evictions = len(witness.evictions)
        return Result(
            nodes=len(self.trace.nodes),
            pods=self.trace.pods,
            workloads=len(self.trace.workloads),
            time_factor=self.factor,
            limits=self.limits,
            spread_before=round(figures.spread(before), 1),
            spread_after=round(figures.spread(after), 1),
            std_before=round(figures.deviation(before), 2),
            std_after=round(figures.deviation(after), 2),
            burst_max_share=round(figures.max_share(self.burst(witness)), 4),
            evictions=evictions,
            pods_moved_share=round(evictions / self.trace.pods, 4),
            same_node_returns=witness.same_node_returns(),
            outcomes=dict(sorted(self.outcomes.items())),
            rejected=sum(count for name, count in self.outcomes.items() if name.startswith("rejected")),
            limit_violations=figures.limit_violations(witness, window_limits(self.limits)),
            protected_evictions=witness.protected_evictions(),
            seconds=round(seconds, 1),
        )

    def show(self, before: Mapping[str, float], after: Mapping[str, float], result: Result) -> None:
        table = Table(title="CPU load of the nodes at the same point of the day, in percent of their cores")
        for column in ("", "before", "after"):
            table.add_column(column, justify="left" if not column else "right")
        rows = (
            ("hottest node", max(before.values()), max(after.values())),
            ("idlest node", min(before.values()), min(after.values())),
            ("spread (max − min)", result.spread_before, result.spread_after),
            ("standard deviation", result.std_before, result.std_after),
        )
        for name, left, right in rows:
            table.add_row(name, f"{left:.1f}", f"{right:.1f}")
        self.screen.show(table)
        burst, was = self.burst(self.witness()), self.before_burst
        if burst and was:
            nodes = figures.by_node(burst).most_common()
            most = ", ".join(f"{count} to {node} ({was.get(node, 0):.0f} %)" for node, count in nodes[:5])
            self.screen.say(
                f"the burst: {len(burst)} pods placed on {len(nodes)} nodes within {burst[-1].at - burst[0].at:.1f} s; "
                f"most went {most}; in brackets the load before, on average {sum(was.values()) / len(was):.0f} %"
            )

    async def keep_running(self, result: Result) -> None:
        """Until Ctrl-C."""
        self.screen.say(encoded(result))
        self.screen.say(
            f"""
still running; look around (Ctrl-C ends everything):
  export KUBECONFIG={self.cluster.kubeconfig}
  kubectl get nodes -o yaml | grep equipoise.dev/load
  equipoise tap --nats {self.cluster.nats_url}
  equipoise tap --nats {self.cluster.nats_url} 'eviction.outcome.>'
  Prometheus: {self.cluster.prometheus_url}    logs: {self.cluster.directory}"""
        )
        await asyncio.Event().wait()
