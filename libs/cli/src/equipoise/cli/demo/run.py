"""A run of the demo: cluster, pods, Equipoise, a burst of new pods, and the result."""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import yaml

from equipoise.cli.commands.setup import create_resources
from equipoise.cli.demo import figures
from equipoise.cli.demo.colocation.queue import NAMESPACE as BATCH_NAMESPACE
from equipoise.cli.demo.colocation.run import Colocation
from equipoise.cli.demo.configuration import (
    EXTENDER_TIMEOUT,
    RECLAIM_LIMIT,
    Placement,
    compressed_document,
    differences,
    equipoise_document,
    scheduler_configuration,
    services_scrape,
    window_limits,
)
from equipoise.cli.demo.connecting import how_to_connect
from equipoise.cli.demo.figures import DemoResult, load_table, result_sentences
from equipoise.cli.demo.live_view import LiveView, Screen
from equipoise.cli.demo.manifests import (
    BURST_NAMESPACE,
    burst_document,
    namespace_documents,
    node_documents,
    workload_documents,
)
from equipoise.cli.demo.node_loads import NodeLoads, trace_cores
from equipoise.cli.demo.options import DemoOptions, demo_trace
from equipoise.cli.demo.surge.run import Surge
from equipoise.cli.up.supervisor import Supervisor
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import PREFIX, SERVICES, ServiceName
from equipoise.contracts.hints.definition import GROUP, KIND, VERSION, definition
from equipoise.contracts.hints.policy import binding, policy
from equipoise.contracts.kubernetes.mutating_policy import API_VERSIONS
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.lab.model.trace import Trace
from equipoise.runtime.bus import Delivery, connect
from equipoise.runtime.configuration import Nats
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import WITHOUT_METRICS, BuildError, build
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.processes.command_lines import PROMETHEUS
from equipoise.testbed.processes.configuration import PrometheusConfiguration
from equipoise.testbed.running_clusters import listed

PROMETHEUS_SECONDS = 60
"""Seconds that the build of Prometheus takes on two cores beside a cluster, after the build of the control plane, with
which it shares packages."""

MIN_DAYS = 0.5
"""The shortest time between the start of Equipoise and the second measurement, in days of the trace.

On a busy machine five services start slowly.
"""

_PLACEMENT: Mapping[Placement, str] = {
    "extender": "kube-scheduler requests scores (an extender)",
    "hints": "kube-scheduler is the stock one: new pods get placement hints from a policy of the API server",
}


async def run_demo(
    options: DemoOptions, screen: Screen, *, at_end: Callable[["Demo"], Awaitable[None]] | None = None
) -> DemoResult:
    """Run the demo and return its result. `at_end` is called before the cluster and the services are stopped.

    Raises InvalidInput for an invalid trace, and the errors of a cluster or service that does not start.
    """
    began = time.monotonic()
    async with started_demo(options, screen) as demo:
        await demo.start()
        before = await demo.measure_before()
        async with demo.equipoise() as supervisor:
            after = await demo.level(before, supervisor)
            result = await demo.result(before, after, time.monotonic() - began)
            demo.print_result(before, after, result)
            if at_end is not None:
                await at_end(demo)
            if options.keep:
                await demo.keep_running(result.encoded())
    return result


@asynccontextmanager
async def started_demo(options: DemoOptions, screen: Screen) -> AsyncIterator["Demo"]:
    """A demo on a new cluster, which has no nodes yet. Raises InvalidInput for an invalid trace."""
    trace = demo_trace(options)
    binaries = await asyncio.to_thread(build, WITHOUT_METRICS)
    screen.print("starting a control plane of Kubernetes, Prometheus and nats-server on this machine")
    async with (
        Cluster(binaries=binaries, nats=True) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        cluster.api() as api,
    ):
        with listed(f"demo-{os.getpid()}", cluster, nats=True):
            yield Demo(options, screen, trace, cluster, session, api, metrics_built=binaries.prometheus.exists())


@dataclass
class Demo:
    """One run of the demo on one cluster."""

    options: DemoOptions
    screen: Screen
    trace: Trace
    cluster: Cluster
    session: aiohttp.ClientSession
    api: Api
    metrics_built: bool
    """Whether Prometheus was already built, and therefore runs from the start."""

    def __post_init__(self) -> None:
        options, trace = self.options, self.trace
        self.factor = trace.seconds_per_step / options.step_seconds
        self.period = trace.steps * options.step_seconds
        # The day of the trace begins at `epoch`. Pods take half a minute to run and to be measured: 0.54 of the day has
        # passed at the first measurement, which is then at 13:00.
        seconds = 30 if self.metrics_built else 30 + PROMETHEUS_SECONDS
        self.epoch = int(time.time()) + seconds - round(self.period * 0.54)  # noqa: TID251  kwok reads the same clock
        self.loads = NodeLoads(self.session, self.cluster.prometheus_url, trace_cores(trace), 2 * options.step_seconds)
        self.outcomes: Counter[str] = Counter()
        self.replacements: Counter[str] = Counter()
        self.view = LiveView("Equipoise levels a real cluster", self.period)
        self.measured_at = 0.0
        """Unix second of the first measurement, before Equipoise starts."""

        self.running_since = 0.0
        """Unix second at which all services were ready."""

        self.until = 0.0
        """Unix second of the second measurement."""

        self.before_burst: dict[str, float] = {}
        self.colocation: Colocation | None = None
        self.services = options.services
        if options.colocation:
            self.services = (*options.services, "reclaimer")
            self.colocation = Colocation(
                cluster=self.cluster,
                api=self.api,
                session=self.session,
                trace=trace,
                step_seconds=options.step_seconds,
                epoch=self.epoch,
                pod_hours=options.batch_hours,
            )
        self.surge: Surge | None = None
        if options.surge:
            self.surge = Surge(cluster=self.cluster, api=self.api, trace=trace, burst_pods=options.burst_pods)

    async def start(self) -> None:
        """Places all pods, and starts Prometheus."""
        build_pid = None if self.metrics_built else self.build_prometheus()
        await self.place()
        if build_pid is not None:
            await self.start_prometheus(build_pid)

    async def place(self) -> None:
        """The stock scheduler alone places all pods."""
        trace = self.trace
        self.screen.print(
            f"{trace.name}: {len(trace.nodes)} nodes, {len(trace.workloads)} workloads, {len(trace.pods)} pods"
        )
        for note in trace.notes:
            self.screen.print(f"note: {note}")
        self.screen.print(
            f"time is compressed {self.factor:g} times: a day of the trace takes {self.period} s. "
            "All durations are compressed; only clock skew, network timeouts and Leases keep their values"
        )
        await self.cluster.add_nodes(node_documents(trace))
        await self.api.apply(namespace_documents())
        if self.surge is not None:
            await self.surge.add_services()
        await self.api.apply(
            workload_documents(
                trace,
                epoch=self.epoch,
                step_seconds=self.options.step_seconds,
                max_unavailable=1 if self.surge is None else 0,
            )
        )
        total = len(trace.pods) + len(trace.nodes)
        running = await self.all_run(total)
        self.screen.print(f"the stock scheduler placed {running} of {total} pods, with one of a DaemonSet on each node")

    def build_prometheus(self) -> int:
        """Start to build Prometheus while pods are placed. Returns the ID of the process."""
        self.screen.print("building Prometheus meanwhile, once: pods are placed without it")
        program = [sys.executable, "-c", "from equipoise.cli.main import main; main()", "testbed", "build"]
        return self.cluster.guard.start(program, log=self.cluster.log("build"))

    async def start_prometheus(self, build_pid: int) -> None:
        """Wait until Prometheus is built, then start it."""
        self.screen.print(f"waiting until Prometheus is built, about {PROMETHEUS_SECONDS} s after the start")
        while (code := self.cluster.guard.exit_code(build_pid)) is None:  # noqa: ASYNC110  the guard is another process
            await asyncio.sleep(0.2)
        if code != 0:
            raise BuildError(self.cluster.log("build").read_text(errors="replace").strip())
        await asyncio.to_thread(self.cluster.restart, PROMETHEUS)

    async def all_run(self, total: int, namespace: str = "") -> int:
        """Wait until all pods run, or the number does not grow for 15 s (a part of a trace may request too much)."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        number, since = -1, time.monotonic()
        while True:
            pods = (await self.api.request("GET", f"{path}?resourceVersion=0"))["items"]
            running = [pod["status"].get("phase") for pod in pods].count("Running")
            if running >= total or (running == number and time.monotonic() - since > 15):
                return running
            if running != number:
                number, since = running, time.monotonic()
            await asyncio.sleep(0.5)

    async def measure_before(self) -> dict[str, float]:
        """The load of each node before Equipoise starts, after samples cover the window of the measurement."""
        await asyncio.sleep(3 * self.options.step_seconds)
        if self.colocation is not None:
            await self.colocation.remember_placement()
        self.measured_at = time.time()  # noqa: TID251  Prometheus scrapes with the same clock
        return await self._measure(self.measured_at)

    async def measure_after_moves(self) -> dict[str, float]:
        """The load of each node, after samples without the pods that have just left cover the window."""
        await asyncio.sleep(3 * self.options.step_seconds)
        return await self._measure(time.time())  # noqa: TID251  Prometheus scrapes with the same clock

    async def _measure(self, at: float) -> dict[str, float]:
        await asyncio.sleep(max(0.0, at + 1.2 - time.time()))  # noqa: TID251  until it is scraped
        return await self.loads.of_all(at)

    @asynccontextmanager
    async def equipoise(self) -> AsyncIterator[Supervisor]:
        """Create the streams and the ledger, run the services, and connect kube-scheduler to the scores."""
        ports = {name: self.cluster.free_port() for name in (*dict.fromkeys((*SERVICES, *self.services)), "extender")}
        differing = differences(
            self.options.placement,
            sliced=self.options.trace_folder is not None,
            colocation=self.colocation is not None,
            surge=self.surge is not None,
            rebalance=self.options.rebalance,
        )
        document = equipoise_document(
            kubeconfig=str(self.cluster.kubeconfig),
            prometheus_url=self.cluster.prometheus_url,
            nats_url=self.cluster.nats_url,
            ports=ports,
            neutral=self.options.neutral,
            differences=differing,
        )
        self.document = compressed_document(document, self.factor)
        self.screen.print("the configuration is the default one, except (durations in the time of the trace):")
        for difference in differing:
            self.screen.print(f"  {difference.settings}: {difference.reason}")
        self.screen.print("the limits of evictions are the defaults in compressed time; the last line has them")
        configuration = self.cluster.directory / "equipoise.yaml"
        configuration.write_text(yaml.safe_dump(self.document, sort_keys=False))
        self.cluster.configure_prometheus(PrometheusConfiguration(scrape_configs=[services_scrape(ports)]))
        await create_resources(configuration)
        if self.options.placement == "hints":
            await self._add_hint_policy()
        variables: dict[ServiceName, dict[str, str]] = {}
        if self.colocation is not None:
            variables |= await self.colocation.add_account()
        if self.surge is not None:
            variables |= await self.surge.add_accounts()
        health = {service: f"http://127.0.0.1:{ports[service]}" for service in self.services}
        async with Supervisor(
            configuration=configuration,
            directory=self.cluster.directory,
            health=health,
            services=self.services,
            variables=lambda service: variables.get(service, {}),
        ) as supervisor:
            async with asyncio.TaskGroup() as group:
                for service in self.services:
                    group.create_task(supervisor.ready(service))
            if self.options.placement == "extender":
                extender = scheduler_configuration(f"http://127.0.0.1:{ports['extender']}", timeout=EXTENDER_TIMEOUT)
                await asyncio.to_thread(self.cluster.restart_scheduler, extender)
            self.screen.print(f"Equipoise runs. {_PLACEMENT[self.options.placement]}")
            if self.colocation is not None:
                await self.colocation.start_queue()
                self.screen.print(self.colocation.description())
            self.running_since = time.time()  # noqa: TID251  Prometheus scrapes with the same clock
            yield supervisor

    async def _add_hint_policy(self) -> None:
        """Apply the kind, the policy and its binding. The services have all permissions, as with `equipoise up`."""
        newest = API_VERSIONS[0]
        await self.api.apply([definition(), policy(newest), binding(newest)])
        await self.api.wait(
            f"/apis/{GROUP}/{VERSION}", lambda found: bool(found["resources"]), what=f"{KIND} are served"
        )

    async def level(self, before: dict[str, float], supervisor: Supervisor) -> dict[str, float]:
        """The loads at the same time of a later day: the next one that is at least MIN_DAYS away."""
        self.view.before = before
        started = time.time()  # noqa: TID251
        until = figures.same_time_of_day(started + MIN_DAYS * self.period, self.measured_at, self.period)
        self.view.seconds = until - self.measured_at
        self.screen.print(f"in {until - started:.0f} s it is the same time of day again: then both loads are compared")
        async with self.following():
            watch = asyncio.create_task(supervisor.watch())
            burst = asyncio.create_task(self._burst(until - self.period * 0.4))
            try:
                while time.time() < until:  # noqa: TID251
                    await self.tick()
                    if watch.done():
                        watch.result()
                await burst
                self.until = until
                return await self._measure(until)
            finally:
                watch.cancel()
                burst.cancel()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Counts the outcomes of evictions, and shows the live view."""
        async with connect(Nats(url=self.cluster.nats_url), "demo") as bus:
            await bus.subscribe(f"{PREFIX}.eviction.outcome.>", EvictionOutcome, self.on_outcome)
            await bus.subscribe(subjects.decision("descheduler", "*"), DescheduleDecision, self.on_decision)
            async with self.screen.showing(self.view):
                yield

    async def tick(self) -> None:
        """Shows the loads of now, and waits for a second."""
        now = time.time()  # noqa: TID251
        self.view.elapsed = now - self.measured_at
        self.view.hour = (now - self.epoch) % self.period / self.period * 24
        self.view.add_loads(await self.loads.at(now))
        if self.colocation is not None:
            self.view.batch = await self.colocation.progress(now)
        self.screen.refresh(self.view)
        await asyncio.sleep(1.0)

    async def _burst(self, at: float) -> None:
        self.view.phase = "leveling"
        await asyncio.sleep(max(0.0, at - time.time()))  # noqa: TID251
        self.before_burst = dict(self.view.now)
        pods = self.options.burst_pods
        self.view.phase = f"a burst of {pods} new pods"
        self.view.add_line(f"{pods} pods of a new workload without any measurement", "bold cyan")
        await self.api.apply([burst_document(self.trace, pods)])
        await self.all_run(pods, BURST_NAMESPACE)

    async def on_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        outcome = delivery.message
        self.outcomes[outcome.outcome] += 1
        self.view.counts = dict(self.outcomes)
        if outcome.outcome is Outcome.EVICTED:
            reason = outcome.reason.removeprefix("node is hot: ")
            self.view.add_line(f"{outcome.node} ⟶ {outcome.target or '?'}   {outcome.pod}   {reason}")

    async def on_decision(self, delivery: Delivery[DescheduleDecision]) -> None:
        self.replacements.update(replacement.result for replacement in delivery.message.replacements)

    async def result(self, before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> DemoResult:
        left_over = 0 if self.surge is None else await self.surge.left_over()
        events = figures.read_audit_log(self.cluster.audit_log)
        batch_evictions = events.evictions_in(BATCH_NAMESPACE)
        evictions, pods = len(events.evictions) - batch_evictions, len(self.trace.pods)
        batch = None
        if self.colocation is not None:
            batch = await self.colocation.result(
                self.running_since, self.until, limit=RECLAIM_LIMIT, evictions=batch_evictions
            )
        surge = None
        if self.surge is not None:
            surge = self.surge.result(self.document["surge"]["mode"], events, left_over)
        return DemoResult(
            nodes=len(self.trace.nodes),
            pods=pods,
            workloads=len(self.trace.workloads),
            placement=self.options.placement,
            time_factor=self.factor,
            limits=self.document["binder"]["limits"],
            spread_before=round(figures.spread(before), 1),
            spread_after=round(figures.spread(after), 1),
            std_before=round(figures.deviation(before), 2),
            std_after=round(figures.deviation(after), 2),
            burst_max_share=round(figures.max_share(events.burst(BURST_NAMESPACE, self.options.burst_pods)), 4),
            evictions=evictions,
            pods_moved_share=round(evictions / pods, 4),
            same_node_returns=events.same_node_returns(),
            replacements=dict(sorted(self.replacements.items())),
            outcomes=dict(sorted(self.outcomes.items())),
            rejected=sum(count for name, count in self.outcomes.items() if name.startswith("rejected")),
            limit_violations=figures.limit_violations(events, window_limits(self.document)),
            protected_evictions=events.protected_evictions(),
            seconds=round(seconds, 1),
            colocation=batch,
            surge=surge,
        )

    def print_result(self, before: Mapping[str, float], after: Mapping[str, float], result: DemoResult) -> None:
        self.screen.print("")
        self.screen.print(load_table(before, after))
        burst = figures.read_audit_log(self.cluster.audit_log).burst(BURST_NAMESPACE, self.options.burst_pods)
        for sentence in result_sentences(result, burst, self.before_burst):
            self.screen.print(sentence)

    async def keep_running(self, result: str) -> None:
        """Keeps the cluster and the services running until Ctrl-C. `result`: the last line of the output."""
        self.screen.print(result)
        self.screen.print(how_to_connect(self.cluster))
        await asyncio.Event().wait()
