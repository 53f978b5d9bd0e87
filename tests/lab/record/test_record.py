"""Recording a trace from a real cluster and a real Prometheus, with interruptions and with failing servers."""

import asyncio
import gzip
import io
import itertools
import math
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import numpy as np
import pytest
from aiohttp import web
from cluster_fixtures import StartCluster
from collector.exporter import Exporter, a_job
from rich.console import Console

from equipoise.cli.certificates.issue import make_certificates
from equipoise.cli.certificates.purposes import EXTENDER
from equipoise.collector.settings import PrometheusSettings
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod, Toleration
from equipoise.lab.formats import load_trace
from equipoise.lab.model.trace import (
    AntiAffinity,
    Trace,
    TraceBudget,
    TraceNode,
    TracePod,
    TraceSpreadConstraint,
    TraceTaint,
    TraceWorkload,
)
from equipoise.lab.record import RecordError, RecordOptions, Summary, record
from equipoise.lab.record.aggregation import Aggregation, ValueCounts
from equipoise.lab.record.checkpoint import Checkpoint, RecordingPlan, write_trace
from equipoise.lab.record.inventory import Inventory, inventory, owner_keys
from equipoise.lab.record.owners import NO_WORKLOAD, WorkloadIndex, owners_of
from equipoise.lab.record.progress import progress_on
from equipoise.lab.record.prometheus import connect_prometheus, matrix_of
from equipoise.lab.record.queries import METRICS, Series, min_samples
from equipoise.lab.record.recorder import SCALES
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import (
    constant_usage_annotations,
    daemon_set,
    deployment,
    namespace,
    node,
    pod,
    pod_template,
    stateful_set,
)
from equipoise.testbed.processes.configuration import PrometheusConfiguration

pytestmark = pytest.mark.timeout(300)

SCRAPE = 0.25
STEP = 2
"""Seconds."""

MIB = 2**20
MANY_DAYS = 7.0
A_FEW_STEPS = 3 * STEP / 86_400


def no_sleep() -> SystemClock:
    """The real clock, but sleeps end at once."""

    class NoSleep(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    return NoSleep()


# a proxy in front of Prometheus


class Relay:
    """Forwards queries unless `intercept` returns a response. Its time() is constant. Records the usage queries."""

    def __init__(self, target: str, at: float) -> None:
        self._target = target
        self._at = at
        self.usage: list[tuple[str, str]] = []
        """Query and start."""

        self.intercept: Callable[[str, int], Awaitable[web.Response | None]] = forward

    async def respond(self, request: web.BaseRequest) -> web.Response:
        query, steps = request.query["query"], 1
        if query == "time()":
            constant = {"status": "success", "data": {"resultType": "scalar", "result": [self._at, f"{self._at:.3f}"]}}
            return web.json_response(constant)
        if "start" in request.query:
            start, end, step = (float(request.query[name]) for name in ("start", "end", "step"))
            steps = round((end - start) / step) + 1
        if (response := await self.intercept(query, steps)) is not None:
            return response
        if is_usage(query):
            self.usage.append((query, request.query["start"]))
        async with aiohttp.ClientSession() as session, session.get(f"{self._target}{request.path_qs}") as found:
            return web.Response(status=found.status, body=await found.read(), content_type="application/json")


async def forward(query: str, steps: int) -> web.Response | None:
    return None


def is_usage(query: str) -> bool:
    return " and " in query and " >= " in query


@asynccontextmanager
async def serving(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Run a server with this handler; yields its URL."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


# the recorded cluster


def deleted_pods() -> Callable[[], str]:
    """Series of deleted pods: two of `web` (by name and by kube-state-metrics), one without owner, two invalid."""
    started = time.monotonic()
    usage = {"web-5d4f8c7b9-x2x4z": 0.5, "ghost": 0.5, "unowned": 1.0, "web-5d4f8c7b9-twtwt": 9.0}

    def text() -> str:
        past = time.monotonic() - started
        lines = [
            'kube_pod_owner{namespace="default",pod="ghost",owner_kind="ReplicaSet",owner_name="older"} 1',
            'kube_replicaset_owner{namespace="default",replicaset="older",owner_kind="Deployment",owner_name="web"} 1',
            'pod_cpu_usage_seconds_total{namespace="default",pod="web-5d4f8c7b9-nnnnn"} NaN',
            'pod_memory_working_set_bytes{namespace="default",pod="web-5d4f8c7b9-nnnnn"} -1',
        ]
        for name, cores in usage.items():
            labels = f'{{namespace="default",pod="{name}"}}'
            lines.append(f"pod_cpu_usage_seconds_total{labels} {cores * past:.6f}")
            lines.append(f"pod_memory_working_set_bytes{labels} {256 * MIB}")
        return "\n".join(lines) + "\n"

    return text


SLOW = """pod_cpu_usage_seconds_total{namespace="slow",pod="slow"} 5
pod_memory_working_set_bytes{namespace="slow",pod="slow"} 5
"""


def restarted_container() -> Callable[[], str]:
    """cAdvisor series of a container that restarts at the tenth scrape, and of cgroups that are not containers."""
    scrapes = itertools.count()

    def text() -> str:
        number = next(scrapes)
        instance, used = ("one", number) if number < 10 else ("two", number - 10)
        rows = {f'container="main",id="{instance}"': used, 'container="POD",id="pause"': 9, 'container="",id="pod"': 9}
        return "".join(
            f'container_cpu_usage_seconds_total{{namespace="restarted",pod="p",{labels}}} {used}\n'
            f'container_memory_working_set_bytes{{namespace="restarted",pod="p",{labels}}} {256 * MIB}\n'
            for labels, used in rows.items()
        )

    return text


def duplicate_series() -> str:
    """A second series of a pod, from another job."""
    return 'pod_cpu_usage_seconds_total{namespace="default",pod="web-5d4f8c7b9-twtwt"} 5\n'


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Iterator[Cluster]:
    exporter = Exporter()
    exporter.show("deleted", deleted_pods())
    exporter.show("duplicate", duplicate_series)
    exporter.show("restarted", restarted_container())
    exporter.show("slow", lambda: SLOW)
    jobs = [a_job(name, exporter, name) for name in ("deleted", "duplicate", "restarted")]
    jobs.append({**a_job("slow", exporter, "slow"), "scrape_interval": "2s", "scrape_timeout": "1s"})
    yield start_cluster(prometheus=PrometheusConfiguration(scrape_interval=SCRAPE, scrape_configs=jobs))
    exporter.close()


def a_container(name: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "500m", "memory": "1Gi"}}
    return {"name": name, "image": "fake", "resources": resources}


MANIFESTS = [
    namespace("other"),
    deployment(
        "web",
        pod_template(
            "web",
            cpu="250m",
            memory="512Mi",
            annotations=constant_usage_annotations(500, 256),
            spec={
                "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                "nodeSelector": {"pool": "main"},
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 2,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "matchLabelKeys": ["pod-template-hash"],
                    }
                ],
            },
        ),
        replicas=4,
    ),
    deployment(
        "web", pod_template("web", annotations=constant_usage_annotations(300, 100)), replicas=1, namespace="other"
    ),
    stateful_set(
        "store",
        pod_template(
            "store",
            annotations=constant_usage_annotations(100, 512),
            spec={
                "containers": [a_container("main"), a_container("side")],
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {"matchLabels": {"app": "store"}},
                                "topologyKey": "kubernetes.io/hostname",
                            }
                        ]
                    }
                },
            },
        ),
        replicas=2,
    ),
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "store", "namespace": "default"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "store"}}},
    },
    daemon_set("agent", pod_template("agent", annotations=constant_usage_annotations(50, 64))),
    pod("single", pod_template("single", annotations=constant_usage_annotations(80, 32))),
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once", "namespace": "default"},
        "spec": {
            "template": {
                "metadata": {"annotations": {"pod-complete.stage.kwok.x-k8s.io/delay": "10ms"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "fake"}]},
            }
        },
    },
]


def all_settled(seen: Any) -> bool:
    phases = [item["status"]["phase"] for item in seen["items"]]
    return len(phases) == 11 and phases.count("Running") == 10 and phases.count("Succeeded") == 1


SETTLED_SECONDS = 10


class RecordedCluster(msgspec.Struct):
    """A cluster, and a time before which Prometheus has all samples: later scrapes of this process may be missed
    while it records.
    """

    cluster: Cluster
    at: float
    url: str


@pytest.fixture(scope="module")
async def world(cluster: Cluster) -> AsyncIterator[RecordedCluster]:
    taint = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
    main = {"pool": "main"}
    await cluster.add_nodes(
        [
            node("alpha", cpu=8, memory="16Gi", pods=50, labels={**main, "topology.kubernetes.io/zone": "a"}),
            node("beta", cpu=4, labels={**main, "topology.kubernetes.io/zone": "b"}),
            node("gamma", taints=[taint]),
        ]
    )
    await cluster.apply(MANIFESTS)
    await cluster.wait("/api/v1/pods", all_settled)  # kwok reports no usage before
    counts = (
        f'count_over_time(pod_cpu_usage_seconds_total{{namespace=~"default|other",pod!~"once.*"}}[{SETTLED_SECONDS}s])'
    )
    whole = f"min({counts}) >= {SETTLED_SECONDS / SCRAPE - 1} and vector(time()) > {time.time() + SETTLED_SECONDS}"  # noqa: TID251
    async with aiohttp.ClientSession() as session, asyncio.timeout(200):
        while True:
            async with session.get(f"{cluster.prometheus_url}/api/v1/query", params={"query": whole}) as response:
                if found := (await response.json())["data"]["result"]:
                    break
            await asyncio.sleep(SCRAPE)  # Prometheus has no notification of scrapes
    at = found[0]["value"][0]
    async with serving(Relay(cluster.prometheus_url, at).respond) as url:
        yield RecordedCluster(cluster, at, url)


def options(
    world: RecordedCluster, out: Path, *, url: str = "", days: float = MANY_DAYS, **fields: Any
) -> RecordOptions:
    settings = PrometheusSettings(url=url or world.url, concurrency=fields.pop("concurrency", 4))
    kubernetes = fields.pop("kubernetes", Kubernetes(kubeconfig=str(world.cluster.kubeconfig)))
    return RecordOptions(prometheus=settings, kubernetes=kubernetes, out=out, days=days, step=STEP, **fields)


def string_console() -> Console:
    return Console(file=io.StringIO())


def output(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Recorded(msgspec.Struct):
    summary: Summary
    trace: Trace
    output: str


@pytest.fixture(scope="module")
async def recorded(world: RecordedCluster, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    console, out = string_console(), tmp_path_factory.mktemp("recorded") / "shop"
    summary = await record(options(world, out), console, no_sleep())
    return Recorded(summary, load_trace(out), output(console))


def workload(trace: Trace, name: str, space: str = "default") -> int:
    found = [place for place, item in enumerate(trace.workloads) if (item.name, item.namespace) == (name, space)]
    assert len(found) == 1
    return found[0]


def assert_usage(trace: Trace) -> None:
    """As annotated in the last steps; at most that in the first ones, when the pods had just started.

    kwok evaluates counters up to tenths of a second after the time of the scrape, which is 20 % of a step. What one
    step has too much the next one lacks, so the mean of three steps is closer.
    """
    expected = {("web", "default"): (500, 256), ("web", "other"): (300, 100), ("store", "default"): (200, 1024),
                ("agent", "default"): (50, 64), ("single", "default"): (80, 32)}  # fmt: skip
    for (name, space), (cpu, memory) in expected.items():
        index = workload(trace, name, space)

        last = trace.cpu_milli[index][-3:]
        assert [cpu] * 3 == pytest.approx(last.tolist(), rel=0.2)
        assert cpu == pytest.approx(last.mean(), rel=0.1)
        assert [memory] * 3 == pytest.approx(trace.memory_mib[index][-3:].tolist(), rel=0.03)
        # The pods may have no usage yet in the first step.
        assert (trace.cpu_milli[index][1:] > 0).all(), trace.cpu_milli[index]
        assert (trace.cpu_milli[index] < 1.4 * cpu).all(), trace.cpu_milli[index]
    assert len(expected) == len(trace.workloads)


def test_the_usage_of_each_workload_is_the_mean_of_its_pods(recorded: Recorded) -> None:
    """NaN, negative and duplicate values are ignored."""
    assert_usage(recorded.trace)


def test_nodes_are_recorded_with_their_allocatable_and_taints(recorded: Recorded) -> None:
    found = {item.name: (item.cpu_milli, item.memory_mib, item.pods, item.taints) for item in recorded.trace.nodes}
    taint = TraceTaint(key="dedicated", value="training", effect="NoSchedule")

    assert {
        "alpha": (8_000, 16_384, 50, ()),
        "beta": (4_000, 65_536, 110, ()),
        "gamma": (16_000, 65_536, 110, (taint,)),
    } == found


def test_zones_topology_spread_and_disruption_budgets_are_recorded(recorded: Recorded) -> None:
    """As the API server has them: it adds keys of labels to selectors."""
    trace = recorded.trace
    constraint = TraceSpreadConstraint(
        topology_key="topology.kubernetes.io/zone", max_skew=2, match_label_keys=["pod-template-hash"]
    )

    assert {"alpha": "a", "beta": "b", "gamma": ""} == {item.name: item.zone for item in trace.nodes}
    assert (constraint,) == trace.workloads[workload(trace, "web")].topology_spread
    assert (TraceBudget(name="store", workloads=(workload(trace, "store"),), max_unavailable="50%"),) == trace.budgets


def test_workloads_are_recorded(recorded: Recorded) -> None:
    """With the top-level owner, the sum of requests and limits over containers, and tolerations."""
    trace = recorded.trace
    web, store = trace.workloads[workload(trace, "web")], trace.workloads[workload(trace, "store")]

    assert {"Deployment", "StatefulSet", "DaemonSet", "Pod"} == {item.kind for item in trace.workloads}
    assert ("Deployment", 250, 512, None) == (
        web.kind,
        web.request_cpu_milli,
        web.request_memory_mib,
        web.limit_cpu_milli,
    )
    assert Toleration(key="dedicated", operator="Exists") in web.tolerations
    assert (200, 200) == (store.request_cpu_milli, store.request_memory_mib)
    assert (1_000, 2_048) == (store.limit_cpu_milli, store.limit_memory_mib)


async def test_unfinished_pods_are_recorded_with_their_nodes(recorded: Recorded, world: RecordedCluster) -> None:
    """The owners derived from the names of the pods are the same."""
    listed = (await world.cluster.request("GET", "/api/v1/pods"))["items"]
    running = {
        item["metadata"]["name"]: item["spec"]["nodeName"] for item in listed if item["status"]["phase"] == "Running"
    }
    trace = recorded.trace

    assert running == {item.name: item.node for item in trace.pods}
    assert 4 == trace.replicas()[workload(trace, "web")]
    assert any("1 pods that are finished" in note for note in trace.notes)
    controlled = [item for item in trace.pods if trace.workloads[item.workload].kind != "Pod"]
    assert [item.workload for item in controlled] == [
        WorkloadIndex(trace.workloads).of_pod(trace.workloads[item.workload].namespace, item.name)
        for item in controlled
    ]


def test_anti_affinity_to_the_same_workload_is_recorded_as_a_rule(recorded: Recorded) -> None:
    """Other scheduling rules are listed in the notes."""
    store = workload(recorded.trace, "store")

    assert (AntiAffinity(beside=store, limited=store, most=1),) == recorded.trace.rules
    assert any("node selectors and node affinity (1)" in note for note in recorded.trace.notes)


async def test_usage_without_a_workload_is_reported_and_omitted(world: RecordedCluster, tmp_path: Path) -> None:
    """Deleted pods of `web` are recognized by their names and by kube-state-metrics."""
    summary = await record(options(world, tmp_path / "out", days=A_FEW_STEPS), string_console(), no_sleep())
    of_workloads = (4 + 2) * 0.5 + 0.3 + 2 * 0.2 + 2 * 0.05 + 0.08

    assert 1 / (1 + of_workloads) == pytest.approx(summary.unowned_cpu, rel=0.2)
    assert any(f"{summary.unowned_cpu:.1%} of the CPU" in note for note in summary.notes)


def test_a_recording_starts_at_the_oldest_sample_of_prometheus(recorded: Recorded) -> None:
    """The notes and the output mention it. Steps are aligned, and the last one has ended."""
    trace = recorded.trace
    span = trace.steps * STEP

    assert SETTLED_SECONDS - STEP <= span <= 90
    assert 0 == trace.starts_at % STEP
    assert trace.starts_at + span <= time.time()  # noqa: TID251  the cluster's clock is the real one
    assert any("of the 7 requested days" in note for note in trace.notes)
    assert "of the 7 requested days" in recorded.output


def test_the_summary_describes_the_folder(recorded: Recorded) -> None:
    """Temporary files are removed."""
    summary = recorded.summary
    files = list(summary.folder.iterdir())

    assert (3, 5, len(recorded.trace.pods)) == (summary.nodes, summary.workloads, summary.pods)
    assert recorded.trace.steps * STEP / 3600 == summary.hours
    assert 0 <= summary.missing < 0.5
    assert sum(file.stat().st_size for file in files) == summary.bytes
    assert all(file.is_file() for file in files)
    assert str(summary) in recorded.output


# interruptions and refused queries


@pytest.fixture
async def relay(world: RecordedCluster) -> AsyncIterator[tuple[Relay, str]]:
    opened = Relay(world.cluster.prometheus_url, world.at)
    async with serving(opened.respond) as url:
        yield opened, url


async def test_a_recording_continues_after_refused_queries(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """Neither finished parts nor the API server are read again."""
    relayed, url = relay
    console = string_console()

    async def expired(query: str, steps: int) -> web.Response | None:
        return web.Response(status=403) if is_usage(query) and len(relayed.usage) == 3 else None

    relayed.intercept = expired
    requested = options(world, tmp_path / "cut", url=url, samples_per_query=40, concurrency=1)
    with pytest.raises(RecordError, match="403, credentials are required"):
        await record(requested, console, no_sleep())
    kept = sorted(file.name for file in (tmp_path / "cut" / ".partial").glob("*.npz"))

    assert ["cpu-000000.npz", "cpu-000002.npz", "memory-000000.npz"] == kept
    assert "3 of " in output(console)
    plan = msgspec.json.decode((requested.out / ".partial" / "plan.json").read_bytes(), type=RecordingPlan)
    assert min_samples(STEP / SCRAPE) == plan.min_samples
    relayed.intercept = forward
    without_api_server = msgspec.structs.replace(requested, kubernetes=Kubernetes(kubeconfig=str(tmp_path / "nothing")))
    await record(without_api_server, console, no_sleep())
    trace = load_trace(requested.out)

    assert len(set(relayed.usage)) == len(relayed.usage) == 2 * math.ceil(trace.steps / 2)
    assert not (requested.out / ".partial").exists()
    assert_usage(trace)


async def test_a_recording_continues_after_an_interruption(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """Ctrl-C loses only the pending queries."""
    relayed, url = relay
    console, hanging = string_console(), asyncio.Event()

    async def hang(query: str, steps: int) -> web.Response | None:
        if is_usage(query) and len(relayed.usage) == 2:
            hanging.set()
            await asyncio.Event().wait()
        return None

    relayed.intercept = hang
    requested = options(world, tmp_path / "cut", url=url, samples_per_query=40, concurrency=1)
    task = asyncio.create_task(record(requested, console, no_sleep()))
    await asyncio.wait_for(hanging.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    relayed.intercept = forward

    assert 2 == len(list((requested.out / ".partial").glob("*.npz")))
    summary = await record(requested, console, no_sleep())
    assert len(set(relayed.usage)) == len(relayed.usage)
    assert len(relayed.usage) == summary.queries + 2
    assert "continuing the recording" in output(console)


async def test_queries_that_are_too_large_are_divided(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """By time, then by namespace. With enough data, all requested days are recorded."""
    relayed, url = relay

    async def limited(query: str, steps: int) -> web.Response | None:
        if is_usage(query) and (steps > 1 or "namespace=" not in query):
            error = {"status": "error", "errorType": "execution", "error": "query would load too many samples"}
            return web.json_response(error, status=422)
        return None

    relayed.intercept = limited
    requested = options(world, tmp_path / "large", url=url, days=A_FEW_STEPS)
    summary = await record(requested, string_console(), no_sleep())
    trace = load_trace(requested.out)

    assert 3 == trace.steps
    # Both resources in each step. A step may lack the only sample of the namespace that is scraped once per step.
    for name in ("default", "other"):
        assert 2 * 3 == sum(f'namespace="{name}"' in query for query, _ in relayed.usage)
    assert not any("requested days" in note for note in summary.notes)
    assert_usage(trace)


async def test_a_query_that_cannot_be_divided_is_an_error(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """The message contains the namespace and the error of Prometheus."""
    relayed, url = relay

    async def too_many(query: str, steps: int) -> web.Response | None:
        error = {"status": "error", "errorType": "execution", "error": "too many samples"}
        return web.json_response(error, status=422) if is_usage(query) else None

    relayed.intercept = too_many
    with pytest.raises(RecordError, match=r"too many samples.*one step of namespace default alone"):
        await record(options(world, tmp_path / "out", url=url, days=A_FEW_STEPS), string_console(), no_sleep())


async def test_container_metrics_are_used_without_pod_metrics(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    relayed, url = relay

    async def without_pods(query: str, steps: int) -> web.Response | None:
        empty = {"status": "success", "data": {"resultType": "matrix", "result": []}}
        return web.json_response(empty) if "pod_cpu_usage" in query else None

    relayed.intercept = without_pods
    requested = options(world, tmp_path / "containers", url=url, days=A_FEW_STEPS)
    summary = await record(requested, string_console(), no_sleep())

    assert any("container_cpu_usage_seconds_total" in note for note in summary.notes)
    assert_usage(load_trace(requested.out))


async def test_duplicate_series_of_all_pods_end_the_recording(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """For example two clusters in one Prometheus. The error recommends matchers after the first part."""
    _, url = relay

    async def duplicated(request: web.BaseRequest) -> web.Response:
        async with aiohttp.ClientSession() as session, session.get(f"{url}{request.path_qs}") as response:
            document = await response.json()
        if is_usage(request.query["query"]):
            document["data"]["result"] *= 2
        return web.json_response(document)

    async with serving(duplicated) as doubled:
        with pytest.raises(RecordError, match=r"two series.*matchers"):
            await record(options(world, tmp_path / "out", url=doubled, days=A_FEW_STEPS), string_console(), no_sleep())


async def test_an_unavailable_api_server_is_an_error(world: RecordedCluster, tmp_path: Path) -> None:
    """The message names the required permissions."""
    unavailable = Kubernetes(kubeconfig=str(tmp_path / "nothing"))
    with pytest.raises(RecordError, match=r"the API server: .*list nodes and pods"):
        await record(options(world, tmp_path / "out", kubernetes=unavailable), string_console(), no_sleep())

    assert not (tmp_path / "out").exists()


async def test_a_step_with_one_sample_is_an_error(world: RecordedCluster, tmp_path: Path) -> None:
    """A rate needs two."""
    settings = PrometheusSettings(url=world.url, matchers={"job": "slow"})
    requested = RecordOptions(prometheus=settings, out=tmp_path / "out", step=1, days=A_FEW_STEPS)
    with pytest.raises(RecordError, match="use longer steps"):
        await record(requested, string_console(), no_sleep())


async def test_matchers_select_the_series(world: RecordedCluster, tmp_path: Path) -> None:
    """The error contains them."""
    settings = PrometheusSettings(url=world.url, matchers={"cluster": "other"})
    requested = RecordOptions(prometheus=settings, out=tmp_path / "out", step=STEP, days=A_FEW_STEPS)
    with pytest.raises(RecordError, match=r"no CPU and memory of pods.*only cluster=other"):
        await record(requested, string_console(), no_sleep())


async def usage_of(
    world: RecordedCluster, metrics: str, matchers: dict[str, str], least: int
) -> dict[str, list[float]]:
    """Values of the last minute by resource, in milli cores and MiB."""
    settings, clock, found = PrometheusSettings(url=world.url), SystemClock(), {}
    async with connect_prometheus(settings, clock) as prometheus:
        at = await prometheus.time()
        for resource, scale in SCALES.items():
            text = METRICS[metrics].usage(resource, matchers, 60, least)
            response = await prometheus.query_range(text, matrix_of, start=at, end=at, step=60)
            found[resource] = [float(value) * scale for item in response for _, value in item.values]
    return found


@pytest.mark.parametrize("metrics", METRICS)
async def test_a_step_is_unknown_when_samples_do_not_cover_it(world: RecordedCluster, metrics: str) -> None:
    """Otherwise a minute with 12 seconds of samples would read as a fifth of the usage."""
    running = {"instance": "alpha"}
    some, none = await usage_of(world, metrics, running, 20), await usage_of(world, metrics, running, 400)

    assert some["cpu"]
    assert len(some["cpu"]) == len(some["memory"])
    assert {"cpu": [], "memory": []} == none


async def test_a_restarted_container_counts_once(world: RecordedCluster) -> None:
    """Memory before and after the restart is not added. The cgroup of the pod and its sandbox are ignored."""
    found = await usage_of(world, "containers", {"namespace": "restarted"}, 20)

    assert [256] == found["memory"]
    assert 1 == len(found["cpu"])


# failing servers


def responding(
    status: int = 200, body: bytes = b"", **headers: str
) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    async def respond(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    return respond


async def empty(request: web.BaseRequest) -> web.Response:
    if request.path.endswith("query"):
        return web.Response(body=b'{"status":"success","data":{"resultType":"scalar","result":[1,"1767571200"]}}')
    return web.Response(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (responding(401, b"?"), "401, credentials are required: set collector.prometheus.bearerTokenFile"),
        (responding(403, b'{"status":"error","error":"not yours"}'), "403.*not yours"),
        (responding(302, Location="http://192.0.2.1/"), "302, a redirect, which is not followed"),
        (responding(404), "404.*path prefix"),
        (responding(200, b"<html>login</html>"), "no JSON"),
        (responding(200, b" " * 200_000), "larger than 100000 bytes"),
        (responding(200, b'{"status":"error","error":"broken"}'), "broken"),
        (responding(200, b'{"status":"success","warnings":["a store is unavailable"]}'), "a store is unavailable"),
        (responding(503, b"starting"), "503.*Is the address right"),
        (empty, "tried: pod_cpu_usage_seconds_total with .*; container_cpu_usage_seconds_total with .*scrape"),
    ],
)  # fmt: skip
async def test_the_error_for_a_bad_response_contains_the_fix(
    handler: Callable[[web.BaseRequest], Awaitable[web.Response]], message: str, tmp_path: Path
) -> None:
    """No folder is created."""
    async with serving(handler) as url:
        requested = RecordOptions(prometheus=PrometheusSettings(url=url, max_body_bytes=100_000), out=tmp_path / "out")
        with pytest.raises(RecordError, match=message):
            await record(requested, string_console(), no_sleep())

    assert not requested.out.exists()


async def test_an_unreachable_address_is_in_the_error(tmp_path: Path) -> None:
    async with serving(empty) as url:
        pass
    requested = RecordOptions(prometheus=PrometheusSettings(url=url), out=tmp_path / "out")
    with pytest.raises(RecordError, match=f"{url} cannot be reached.*Is the address right"):
        await record(requested, string_console(), no_sleep())


async def test_queries_are_retried_while_prometheus_restarts(tmp_path: Path) -> None:
    """The token file is read for every request."""
    token, received = tmp_path / "token", []
    token.write_text("first")

    async def respond(request: web.BaseRequest) -> web.Response:
        received.append(request.headers["Authorization"])
        token.write_text("second")
        return await (responding(503)(request) if len(received) < 3 else empty(request))

    async with serving(respond) as url:
        settings = PrometheusSettings(url=url, bearer_token_file=str(token))
        async with connect_prometheus(settings, no_sleep()) as prometheus:
            assert [] == await prometheus.query_range("up", matrix_of, start=0, end=10, step=1)

    assert ["Bearer first", "Bearer second", "Bearer second"] == received


async def test_the_configured_certificate_authority_is_required(tmp_path: Path) -> None:
    """Otherwise no request is sent."""
    now = SystemClock().now()
    make_certificates(tmp_path, EXTENDER, names=(), addresses=("127.0.0.1",), days=1, force=False, now=now)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    async with serving(empty, tls) as url:
        settings = PrometheusSettings(url=url, ca_file=str(tmp_path / "ca.crt"))
        async with connect_prometheus(settings, SystemClock()) as trusted:
            assert 1_767_571_200 == await trusted.time()
        with pytest.raises(RecordError, match=r"cannot be reached.*certificate"):
            async with connect_prometheus(PrometheusSettings(url=url), SystemClock()) as untrusted:
                await untrusted.time(retry=False)


# the folder


WORKLOADS = tuple(
    TraceWorkload(name=name, kind=kind)
    for kind, name in (
        ("Deployment", "web"), ("StatefulSet", "web-db"), ("DaemonSet", "agent"), ("CronJob", "nightly"),
        ("Rollout", "canary"),
    )
)  # fmt: skip


def recording_plan() -> RecordingPlan:
    """One workload, with parts of two and one steps."""
    return RecordingPlan(
        step=900, days=1, matchers={}, metrics="pods", starts_at=900_000.0, steps=3, steps_per_part=2, min_samples=2,
        inventory=Inventory(nodes=(TraceNode(name="n", cpu_milli=1, memory_mib=1),), workloads=WORKLOADS[:1],
                            pods=(TracePod(name="web-1", workload=0, node="n"),), rules=(), notes=()),
        owners={"default/web-1": 0}, notes=(),
    )  # fmt: skip


@pytest.mark.parametrize("days", [0.0, -1.0, 0.01, 1e6, 1e300, math.inf, math.nan])
def test_days_that_are_no_extent_of_a_recording_are_refused(days: float, tmp_path: Path) -> None:
    """Their begin would be no date."""
    with pytest.raises(ValueError, match="days at least one step and at most 36500"):
        RecordOptions(prometheus=PrometheusSettings(), out=tmp_path, days=days)


async def test_a_folder_with_other_contents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{}")
    requested = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path)
    with pytest.raises(RecordError, match="is not empty: use a new folder"):
        await record(requested, string_console())


def test_a_folder_with_another_unfinished_recording_is_refused(tmp_path: Path) -> None:
    """Its parts have other steps."""
    unfinished = Checkpoint(tmp_path)
    unfinished.start(recording_plan())
    requested = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path, step=60, days=1)
    with pytest.raises(RecordError, match=r"1 days in steps of 900 s, no matchers.*use the same"):
        unfinished.plan(requested)

    assert recording_plan() == unfinished.plan(msgspec.structs.replace(requested, step=900))


def test_a_recording_without_values_is_an_error(tmp_path: Path) -> None:
    """The message contains the statistics."""
    unfinished, plan = Checkpoint(tmp_path), recording_plan()
    unfinished.start(plan)
    for part in plan.parts():
        unfinished.store(part, np.full((1, part.count), np.nan, dtype=np.float32), ValueCounts(duplicates=2))
    requested = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path, days=1)
    with pytest.raises(RecordError, match="8 with two series"):
        write_trace(requested, plan, unfinished, 0)

    assert not (tmp_path / "trace.json").exists()


def test_missing_values_are_empty_cells(tmp_path: Path) -> None:
    """They are not 0, and the summary contains their share."""
    unfinished, plan = Checkpoint(tmp_path), recording_plan()
    unfinished.start(plan)
    for part in plan.parts():
        values = [0.0, np.nan] if part.first == 0 else [7.04]
        unfinished.store(part, np.array([values], dtype=np.float32), ValueCounts(usage=1.0, unowned=3.0, values=1))
    requested = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path, days=1)
    summary = write_trace(requested, plan, unfinished, 0)

    assert "workload,t0,t1,t2\nweb,0,,7\n" == gzip.decompress((tmp_path / "cpu_milli.csv.gz").read_bytes()).decode()
    assert (pytest.approx(1 / 3), 0.75) == (summary.missing, summary.unowned_cpu)


def test_the_error_for_a_corrupt_part_names_its_file(tmp_path: Path) -> None:
    """The file can be deleted and read again."""
    unfinished, plan = Checkpoint(tmp_path), recording_plan()
    unfinished.start(plan)
    (unfinished.folder / "cpu-000000.npz").write_bytes(b"PK cut off")
    with pytest.raises(RecordError, match=r"cpu-000000.npz is corrupt.*delete it"):
        unfinished.read(plan.parts()[0])


# decisions


@pytest.mark.parametrize(
    ("pod_name", "owner"),
    [
        ("web-5d4f8c7b9-x2x4z", 0),
        ("web-db-0", 1),
        ("agent-79ww7", 2),
        ("nightly-29384620-x2x4z", 3),
        ("canary-5d4f8c7b9-x2x4z", 4),
        ("web-5d4f8c7b9-hello", NO_WORKLOAD),
        ("web-0", NO_WORKLOAD),
        ("agent", NO_WORKLOAD),
        ("web-db", NO_WORKLOAD),
        ("gone-5d4f8c7b9-x2x4z", NO_WORKLOAD),
    ],
)
def test_the_workload_of_a_deleted_pod_is_derived_from_its_name(pod_name: str, owner: int) -> None:
    """Controllers derive pod names from their own."""
    owners = WorkloadIndex(WORKLOADS)

    assert owner == owners.of_pod("default", pod_name)
    assert NO_WORKLOAD == owners.of_pod("elsewhere", pod_name)


def test_known_owners_take_precedence_over_names() -> None:
    """Including pods that are known to have no workload."""
    owners = WorkloadIndex(WORKLOADS, {"default/web-db-0": NO_WORKLOAD, "default/odd": 2})

    assert NO_WORKLOAD == owners.of_pod("default", "web-db-0")
    assert 2 == owners.of_pod("default", "odd")


def test_owners_are_resolved_to_the_workload() -> None:
    """From kube-state-metrics or by name. "<none>" is not an owner."""
    response = [
        Series(labels={"namespace": "default", "replicaset": name, "owner_kind": kind, "owner_name": owner})
        for name, kind, owner in (("odd", "Deployment", "web"), ("alone", "<none>", "<none>"))
    ]
    above, index = owners_of(response, "ReplicaSet", "replicaset"), WorkloadIndex(WORKLOADS)

    assert {("default", "ReplicaSet", "odd"): ("default", "Deployment", "web")} == above
    assert 0 == index.of_owner(("default", "ReplicaSet", "odd"), above)
    assert 0 == index.of_owner(("default", "ReplicaSet", "web-5d4f8c7b9"), above)
    assert 1 == index.of_owner(("default", "StatefulSet", "web-db"), above)
    assert 3 == index.of_owner(("default", "Job", "nightly-29384620"), above)
    assert NO_WORKLOAD == index.of_owner(("default", "ReplicaSet", "alone"), above)


def series(pod_name: str, *values: tuple[float, Any]) -> Series:
    return Series(labels={"namespace": "default", "pod": pod_name}, values=values)


def test_usage_is_the_mean_of_the_measured_pods() -> None:
    """NaN, infinite, negative and duplicate values, text, and times between steps are unknown, never 0."""
    aggregation = Aggregation(workloads=2, ends=[900.0, 1800.0, 2700.0], step=900.0)
    aggregation.add(
        [
            series("a", (900, "1"), (1800, "3"), (2700, "NaN")),
            series("b", (900, "2"), (1800, "-1"), (2700, "+Inf")),
            series("twin", (900, "50"), (1800, "5")),
            series("twin", (900, "50")),
            series("words", (900, "1_000"), (1800, 7), (2700, None)),
            series("beside", (1300, "80"), (3600, "80"), (0, "80")),
            Series(labels={"pod": "nameless"}, values=((900, "9"),)),
            series("unowned", (900, "4")),
        ],
        lambda space, name: NO_WORKLOAD if name == "unowned" else 0,
        scale=1000.0,
    )

    expected = np.array([[1500.0, 4000.0, np.nan], [np.nan] * 3], dtype=np.float32)
    np.testing.assert_array_equal(expected, aggregation.means())
    assert ValueCounts(usage=11_000.0, unowned=4_000.0, values=5, duplicates=1, unlabeled=1) == aggregation.counts


@pytest.mark.parametrize(("usual", "least"), [(60, 48), (15, 12), (3, 2), (2, 2)])
def test_a_step_needs_80_percent_of_its_samples(usual: float, least: int) -> None:
    """At least two. One may fall into the next step."""
    assert least == min_samples(usual)


def test_a_cluster_without_nodes_is_an_error() -> None:
    """A node without reported resources does not count."""
    with pytest.raises(RecordError, match=r"no node.*right cluster"):
        inventory([Node(metadata=ObjectMeta(name="new"))], [], {})


def a_pod(name: str, *, created: int = 0, **fields: Any) -> Pod:
    created_at = f"2026-01-01T00:00:{created:02}Z"
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created_at}
    metadata |= fields.pop("metadata", {})
    spec = {"nodeName": "n", "containers": [{"resources": fields.pop("resources", {})}]} | fields
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, Pod)


def owned(kind: str, name: str, version: str = "apps/v1") -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": name, "controller": True}]}


def test_the_newest_pod_defines_its_workload() -> None:
    """During a rollout. Terminating and pending pods are omitted, and tiny requests are not rounded to 0."""
    new = a_pod("web-new", created=9, metadata=owned("StatefulSet", "web"), resources={"requests": {"cpu": "10u"}})
    old = a_pod("web-old", metadata=owned("StatefulSet", "web"), resources={"requests": {"cpu": "2"}})
    terminating = a_pod("web-x", metadata={**owned("StatefulSet", "web"), "deletionTimestamp": "2026-01-01T00:01:00Z"})
    pending = a_pod("web-y", metadata=owned("StatefulSet", "web"), nodeName="")
    static = a_pod("proxy-n", metadata=owned("Node", "n", "v1"))
    pods = [old, new, terminating, pending, static]
    size = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}, "metadata": {"name": "n"}}
    found = inventory([msgspec.convert(size, Node)], pods, owner_keys(pods, {}))

    assert [("Node", "proxy-n", 0), ("StatefulSet", "web", 1)] == [
        (item.kind, item.name, item.request_cpu_milli) for item in found.workloads
    ]
    assert ["web-old", "web-new", "proxy-n"] == [item.name for item in found.pods]
    assert ("omitted: 2 pods that are finished, terminating, or without a node",) == found.notes


# progress


class ObservedOutput(io.StringIO):
    """Signals the first write."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


async def test_progress_is_a_bar_on_a_terminal_and_plain_lines_elsewhere() -> None:
    """Both show the current activity and the number of parts."""
    plain, terminal = ObservedOutput(), io.StringIO()
    async with progress_on(Console(file=plain), interval=0.01) as progress:
        progress.set_activity("cpu")
        progress.set_parts(2, 8)
        progress.advance()
        await asyncio.wait_for(plain.written.wait(), 5)
    async with progress_on(Console(file=terminal, force_terminal=True, width=120)) as progress:
        progress.set_activity("memory")
        progress.set_parts(2, 8)

    assert plain.getvalue().startswith("3 of 8: cpu\n")
    assert "memory" in terminal.getvalue()
    assert "2/8" in terminal.getvalue()
