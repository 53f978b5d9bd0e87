"""Recording a trace from a real cluster and its real Prometheus, through cuts, and from servers that are ill."""

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
from collector.exporter import Exporter, a_job
from rich.console import Console

from equipoise.cli.certificates import make_certificates
from equipoise.collector.settings import PrometheusSettings
from equipoise.contracts.kubernetes.objects import Node, ObjectMeta, Pod
from equipoise.lab.formats import load_trace
from equipoise.lab.model.trace import (
    AntiAffinity,
    Trace,
    TraceNode,
    TracePod,
    TraceTaint,
    TraceToleration,
    TraceWorkload,
)
from equipoise.lab.record import RecordError, RecordOptions, Summary, record
from equipoise.lab.record.aggregation import Aggregation, Tally
from equipoise.lab.record.checkpoint import Checkpoint, RecordingPlan
from equipoise.lab.record.inventory import Inventory, inventory, owner_keys
from equipoise.lab.record.owners import NO_WORKLOAD, Owners, WorkloadIndex, told
from equipoise.lab.record.progress import shown
from equipoise.lab.record.prometheus import connect_prometheus
from equipoise.lab.record.queries import METRICS, Series, least_samples
from equipoise.lab.record.reader import SCALES
from equipoise.lab.record.writer import write_trace
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import daemon_set, deployment, namespace, node, pod, pod_template, stateful_set
from equipoise.testbed.processes.configuration import PrometheusConfiguration
from equipoise.testbed.pytest_fixture import StartCluster
from equipoise.testbed.usage import constant_usage_annotations

pytestmark = pytest.mark.timeout(300)

SCRAPE = 0.25
STEP = 2
"""Seconds."""

MIB = 2**20
MANY_DAYS = 7.0
A_FEW_STEPS = 3 * STEP / 86_400


def without_waiting() -> SystemClock:
    """The machine's clock, whose pauses are over at once."""

    class Hasty(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    return Hasty()


# before Prometheus


class Relay:
    """Passes on what is asked, unless `refuse` answers itself, and stops the clock. Remembers what usage was asked."""

    def __init__(self, target: str, at: float) -> None:
        self._target = target
        self._at = at
        self.usage: list[tuple[str, str]] = []
        """Query and start."""

        self.refuse: Callable[[str, int], Awaitable[web.Response | None]] = nobody

    async def answer(self, request: web.BaseRequest) -> web.Response:
        query, steps = request.query["query"], 1
        if query == "time()":
            stopped = {"status": "success", "data": {"resultType": "scalar", "result": [self._at, f"{self._at:.3f}"]}}
            return web.json_response(stopped)
        if "start" in request.query:
            start, end, step = (float(request.query[word]) for word in ("start", "end", "step"))
            steps = round((end - start) / step) + 1
        if (refused := await self.refuse(query, steps)) is not None:
            return refused
        if is_usage(query):
            self.usage.append((query, request.query["start"]))
        async with aiohttp.ClientSession() as session, session.get(f"{self._target}{request.path_qs}") as response:
            return web.Response(status=response.status, body=await response.read(), content_type="application/json")


async def nobody(query: str, steps: int) -> web.Response | None:
    return None


def is_usage(query: str) -> bool:
    return " and " in query and " >= " in query


@asynccontextmanager
async def serving(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """A server that answers like this; its URL."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


# the cluster that is recorded


def the_past() -> Callable[[], str]:
    """Pods that only Prometheus knows: of `web` by name and by kube-state-metrics, of nobody, and two that are ill."""
    begun = time.monotonic()
    usage = {"web-5d4f8c7b9-x2x4z": 0.5, "ghost": 0.5, "nobody": 1.0, "web-5d4f8c7b9-twtwt": 9.0}

    def text() -> str:
        past = time.monotonic() - begun
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


def a_restart() -> Callable[[], str]:
    """A container of cAdvisor that starts anew at the tenth scrape, among cgroups that are no containers."""
    scrapes = itertools.count()

    def text() -> str:
        number = next(scrapes)
        instance, used = ("one", number) if number < 10 else ("two", number - 10)
        rows = {f'container="main",id="{instance}"': used, 'container="POD",id="pause"': 9, 'container="",id="pod"': 9}
        return "".join(
            f'container_cpu_usage_seconds_total{{namespace="anew",pod="p",{labels}}} {used}\n'
            f'container_memory_working_set_bytes{{namespace="anew",pod="p",{labels}}} {256 * MIB}\n'
            for labels, used in rows.items()
        )

    return text


def the_twin() -> str:
    """The same pod as another job saw it."""
    return 'pod_cpu_usage_seconds_total{namespace="default",pod="web-5d4f8c7b9-twtwt"} 5\n'


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Iterator[Cluster]:
    exporter = Exporter()
    exporter.show("past", the_past())
    exporter.show("twin", the_twin)
    exporter.show("anew", a_restart())
    exporter.show("slow", lambda: SLOW)
    jobs = [a_job(name, exporter, name) for name in ("past", "twin", "anew")]
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
            spec={"tolerations": [{"key": "dedicated", "operator": "Exists"}], "nodeSelector": {"pool": "main"}},
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
    """A cluster, and its Prometheus at a moment before which nothing was missed: this process may be too busy to be
    scraped while it records.
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
            node("alpha", cpu=8, memory="16Gi", pods=50, labels=main),
            node("beta", cpu=4, labels=main),
            node("gamma", taints=[taint]),
        ]
    )
    await cluster.apply(MANIFESTS)
    await cluster.wait("/api/v1/pods", all_settled)  # until then kwok says that they use nothing
    counts = (
        f'count_over_time(pod_cpu_usage_seconds_total{{namespace=~"default|other",pod!~"once.*"}}[{SETTLED_SECONDS}s])'
    )
    whole = f"min({counts}) >= {SETTLED_SECONDS / SCRAPE - 1} and vector(time()) > {time.time() + SETTLED_SECONDS}"  # noqa: TID251
    async with aiohttp.ClientSession() as session, asyncio.timeout(200):
        while True:
            async with session.get(f"{cluster.prometheus_url}/api/v1/query", params={"query": whole}) as response:
                if found := (await response.json())["data"]["result"]:
                    break
            await asyncio.sleep(SCRAPE)  # Prometheus tells nobody that it scraped
    at = found[0]["value"][0]
    async with serving(Relay(cluster.prometheus_url, at).answer) as url:
        yield RecordedCluster(cluster, at, url)


def options(
    world: RecordedCluster, out: Path, *, url: str = "", days: float = MANY_DAYS, **fields: Any
) -> RecordOptions:
    settings = PrometheusSettings(url=url or world.url, concurrency=fields.pop("concurrency", 4))
    kubernetes = fields.pop("kubernetes", Kubernetes(kubeconfig=str(world.cluster.kubeconfig)))
    return RecordOptions(prometheus=settings, kubernetes=kubernetes, out=out, days=days, step=STEP, **fields)


def a_console() -> Console:
    return Console(file=io.StringIO())


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Recorded(msgspec.Struct):
    summary: Summary
    trace: Trace
    said: str


@pytest.fixture(scope="module")
async def recorded(world: RecordedCluster, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    console, out = a_console(), tmp_path_factory.mktemp("recorded") / "shop"
    summary = await record(options(world, out), console, without_waiting())
    return Recorded(summary, load_trace(out), said(console))


def workload(trace: Trace, name: str, space: str = "default") -> int:
    found = [place for place, item in enumerate(trace.workloads) if (item.name, item.namespace) == (name, space)]
    assert len(found) == 1
    return found[0]


def assert_usage(trace: Trace) -> None:
    """What the annotations say: in the last steps within 3 %; before, as pods had just begun, no more."""
    expected = {("web", "default"): (500, 256), ("web", "other"): (300, 100), ("store", "default"): (200, 1024),
                ("agent", "default"): (50, 64), ("single", "default"): (80, 32)}  # fmt: skip
    for (name, space), (cpu, memory) in expected.items():
        place = workload(trace, name, space)

        assert [cpu] * 3 == pytest.approx(trace.cpu_milli[place][-3:].tolist(), rel=0.03)
        assert [memory] * 3 == pytest.approx(trace.memory_mib[place][-3:].tolist(), rel=0.03)
        assert ((trace.cpu_milli[place] > 0) & (trace.cpu_milli[place] < 1.1 * cpu)).all(), trace.cpu_milli[place]
    assert len(expected) == len(trace.workloads)


def test_usage_is_recorded(recorded: Recorded) -> None:
    """Of every workload, the mean of its pods; pods whose values are NaN, negative or twice there change nothing."""
    assert_usage(recorded.trace)


def test_nodes_are_recorded(recorded: Recorded) -> None:
    """What they have for pods, and their taints."""
    found = {item.name: (item.cpu_milli, item.memory_mib, item.pods, item.taints) for item in recorded.trace.nodes}
    taint = TraceTaint(key="dedicated", value="training", effect="NoSchedule")

    assert {
        "alpha": (8_000, 16_384, 50, ()),
        "beta": (4_000, 65_536, 110, ()),
        "gamma": (16_000, 65_536, 110, (taint,)),
    } == found


def test_workloads_are_recorded(recorded: Recorded) -> None:
    """Owners up to the Deployment, a bare pod as its own, requests and limits of all containers, tolerations."""
    trace = recorded.trace
    web, store = trace.workloads[workload(trace, "web")], trace.workloads[workload(trace, "store")]

    assert {"Deployment", "StatefulSet", "DaemonSet", "Pod"} == {item.kind for item in trace.workloads}
    assert ("Deployment", 250, 512, None) == (
        web.kind,
        web.request_cpu_milli,
        web.request_memory_mib,
        web.limit_cpu_milli,
    )
    assert TraceToleration(key="dedicated", operator="Exists") in web.tolerations
    assert (200, 200) == (store.request_cpu_milli, store.request_memory_mib)
    assert (1_000, 2_048) == (store.limit_cpu_milli, store.limit_memory_mib)


async def test_pods_are_recorded(recorded: Recorded, world: RecordedCluster) -> None:
    """Each where it is, the finished one left out; their names alone would have given them to the same owners."""
    listed = (await world.cluster.request("GET", "/api/v1/pods"))["items"]
    there = {
        item["metadata"]["name"]: item["spec"]["nodeName"] for item in listed if item["status"]["phase"] == "Running"
    }
    trace = recorded.trace

    assert there == {item.name: item.node for item in trace.pods}
    assert 4 == trace.replicas()[workload(trace, "web")]
    assert any("1 pods that are finished" in note for note in trace.notes)
    controlled = [item for item in trace.pods if trace.workloads[item.workload].kind != "Pod"]
    assert [item.workload for item in controlled] == [
        WorkloadIndex(trace.workloads).by_pod_name(trace.workloads[item.workload].namespace, item.name)
        for item in controlled
    ]


def test_a_workload_that_keeps_off_itself_is_a_rule(recorded: Recorded) -> None:
    """Required anti-affinity over the hostname; what the trace cannot hold is named."""
    store = workload(recorded.trace, "store")

    assert (AntiAffinity(beside=store, limited=store, most=1),) == recorded.trace.rules
    assert any("node selectors and node affinity (1)" in note for note in recorded.trace.notes)


async def test_usage_of_nobody_is_told_and_left_out(world: RecordedCluster, tmp_path: Path) -> None:
    """One core; the pods of the past that are `web`'s, by their names or by kube-state-metrics, are not stray."""
    summary = await record(options(world, tmp_path / "out", days=A_FEW_STEPS), a_console(), without_waiting())
    of_workloads = (4 + 2) * 0.5 + 0.3 + 2 * 0.2 + 2 * 0.05 + 0.08

    assert 1 / (1 + of_workloads) == pytest.approx(summary.stray_cpu, rel=0.02)
    assert any(f"{summary.stray_cpu:.1%} of the CPU" in note for note in summary.notes)


def test_a_young_prometheus_is_recorded_from_where_it_begins(recorded: Recorded) -> None:
    """Said in the notes and to who looks; the steps are on the clock's grid and the last is over."""
    trace = recorded.trace
    span = trace.steps * STEP

    assert SETTLED_SECONDS - STEP <= span <= 90
    assert 0 == trace.starts_at % STEP
    assert trace.starts_at + span <= time.time()  # noqa: TID251  the cluster's clock is the real one
    assert any("of the 7 days asked for" in note for note in trace.notes)
    assert "of the 7 days asked for" in recorded.said


def test_the_summary_counts_what_the_folder_holds(recorded: Recorded) -> None:
    """Nodes, workloads, pods, hours, cells, bytes; nothing of the work is left."""
    summary = recorded.summary
    files = list(summary.folder.iterdir())

    assert (3, 5, len(recorded.trace.pods)) == (summary.nodes, summary.workloads, summary.pods)
    assert recorded.trace.steps * STEP / 3600 == summary.hours
    assert 0 <= summary.missing < 0.5
    assert sum(file.stat().st_size for file in files) == summary.bytes
    assert all(file.is_file() for file in files)
    assert str(summary) in recorded.said


# through cuts and refusals


@pytest.fixture
async def relay(world: RecordedCluster) -> AsyncIterator[tuple[Relay, str]]:
    opened = Relay(world.cluster.prometheus_url, world.at)
    async with serving(opened.answer) as url:
        yield opened, url


async def test_a_recording_that_was_refused_goes_on(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """What was read is not asked for again, nor is the API server, and the trace is whole."""
    relayed, url = relay
    console = a_console()

    async def expired(query: str, steps: int) -> web.Response | None:
        return web.Response(status=403) if is_usage(query) and len(relayed.usage) == 3 else None

    relayed.refuse = expired
    asked = options(world, tmp_path / "cut", url=url, samples_per_query=40, concurrency=1)
    with pytest.raises(RecordError, match="403, it wants credentials"):
        await record(asked, console, without_waiting())
    kept = sorted(file.name for file in (tmp_path / "cut" / ".partial").glob("*.npz"))

    assert ["cpu-000000.npz", "cpu-000002.npz", "memory-000000.npz"] == kept
    assert "3 of " in said(console)
    begun = msgspec.json.decode((asked.out / ".partial" / "beginning.json").read_bytes(), type=RecordingPlan)
    assert least_samples(STEP / SCRAPE) == begun.least_samples
    relayed.refuse = nobody
    without_api_server = msgspec.structs.replace(asked, kubernetes=Kubernetes(kubeconfig=str(tmp_path / "nothing")))
    await record(without_api_server, console, without_waiting())
    trace = load_trace(asked.out)

    assert len(set(relayed.usage)) == len(relayed.usage) == 2 * math.ceil(trace.steps / 2)
    assert not (asked.out / ".partial").exists()
    assert_usage(trace)


async def test_a_recording_that_was_interrupted_goes_on(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """Ctrl-C while queries are under way loses these alone."""
    relayed, url = relay
    console, hanging = a_console(), asyncio.Event()

    async def hang(query: str, steps: int) -> web.Response | None:
        if is_usage(query) and len(relayed.usage) == 2:
            hanging.set()
            await asyncio.Event().wait()
        return None

    relayed.refuse = hang
    asked = options(world, tmp_path / "cut", url=url, samples_per_query=40, concurrency=1)
    task = asyncio.create_task(record(asked, console, without_waiting()))
    await asyncio.wait_for(hanging.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    relayed.refuse = nobody

    assert 2 == len(list((asked.out / ".partial").glob("*.npz")))
    summary = await record(asked, console, without_waiting())
    assert len(set(relayed.usage)) == len(relayed.usage)
    assert len(relayed.usage) == summary.queries + 2
    assert "going on with the recording" in said(console)


async def test_what_is_too_large_is_asked_in_parts(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """By halves of the time, at last by namespaces; a Prometheus that is old enough gives all that was asked for."""
    relayed, url = relay

    async def limited(query: str, steps: int) -> web.Response | None:
        if is_usage(query) and (steps > 1 or "namespace=" not in query):
            error = {"status": "error", "errorType": "execution", "error": "query would load too many samples"}
            return web.json_response(error, status=422)
        return None

    relayed.refuse = limited
    asked = options(world, tmp_path / "large", url=url, days=A_FEW_STEPS)
    summary = await record(asked, a_console(), without_waiting())
    trace = load_trace(asked.out)

    assert 3 == trace.steps
    assert 2 * 3 * 3 == len(relayed.usage)
    assert not any("days asked for" in note for note in summary.notes)
    assert_usage(trace)


async def test_what_cannot_be_made_smaller_is_an_error(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """It names the namespace, and what Prometheus said."""
    relayed, url = relay

    async def never(query: str, steps: int) -> web.Response | None:
        error = {"status": "error", "errorType": "execution", "error": "too many samples"}
        return web.json_response(error, status=422) if is_usage(query) else None

    relayed.refuse = never
    with pytest.raises(RecordError, match=r"too many samples.*one step of namespace default alone"):
        await record(options(world, tmp_path / "out", url=url, days=A_FEW_STEPS), a_console(), without_waiting())


async def test_containers_are_added_up_where_pods_are_not_measured(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """A Prometheus with cAdvisor's metrics only."""
    relayed, url = relay

    async def without_pods(query: str, steps: int) -> web.Response | None:
        empty = {"status": "success", "data": {"resultType": "matrix", "result": []}}
        return web.json_response(empty) if "pod_cpu_usage" in query else None

    relayed.refuse = without_pods
    asked = options(world, tmp_path / "containers", url=url, days=A_FEW_STEPS)
    summary = await record(asked, a_console(), without_waiting())

    assert any("container_cpu_usage_seconds_total" in note for note in summary.notes)
    assert_usage(load_trace(asked.out))


async def test_two_series_of_every_pod_end_the_recording(
    world: RecordedCluster, relay: tuple[Relay, str], tmp_path: Path
) -> None:
    """Two clusters in one Prometheus: it is said at the first part what to choose by."""
    _, url = relay

    async def twice(request: web.BaseRequest) -> web.Response:
        async with aiohttp.ClientSession() as session, session.get(f"{url}{request.path_qs}") as response:
            document = await response.json()
        if is_usage(request.query["query"]):
            document["data"]["result"] *= 2
        return web.json_response(document)

    async with serving(twice) as doubled:
        with pytest.raises(RecordError, match=r"two series each.*matchers"):
            await record(
                options(world, tmp_path / "out", url=doubled, days=A_FEW_STEPS), a_console(), without_waiting()
            )


async def test_an_api_server_that_is_away_is_named(world: RecordedCluster, tmp_path: Path) -> None:
    """With what has to be readable."""
    away = Kubernetes(kubeconfig=str(tmp_path / "nothing"))
    with pytest.raises(RecordError, match=r"the API server: .*list nodes and pods"):
        await record(options(world, tmp_path / "out", kubernetes=away), a_console(), without_waiting())

    assert not (tmp_path / "out").exists()


async def test_a_step_too_short_for_a_rate_is_an_error(world: RecordedCluster, tmp_path: Path) -> None:
    """Of what is scraped every two seconds, a second holds one sample."""
    settings = PrometheusSettings(url=world.url, matchers={"job": "slow"})
    asked = RecordOptions(prometheus=settings, out=tmp_path / "out", step=1, days=A_FEW_STEPS)
    with pytest.raises(RecordError, match="ask for longer steps"):
        await record(asked, a_console(), without_waiting())


async def test_matchers_choose_the_series(world: RecordedCluster, tmp_path: Path) -> None:
    """Only what has the label is looked for, and the error says so."""
    settings = PrometheusSettings(url=world.url, matchers={"cluster": "other"})
    asked = RecordOptions(prometheus=settings, out=tmp_path / "out", step=STEP, days=A_FEW_STEPS)
    with pytest.raises(RecordError, match=r"no CPU and memory of pods.*only cluster=other"):
        await record(asked, a_console(), without_waiting())


async def usage_of(
    world: RecordedCluster, metrics: str, matchers: dict[str, str], least: int
) -> dict[str, list[float]]:
    """By resource the values of the last minute: milli cores and MiB."""
    settings, clock, found = PrometheusSettings(url=world.url), SystemClock(), {}
    async with connect_prometheus(settings, clock) as prometheus:
        at = await prometheus.time()
        for resource, scale in SCALES.items():
            text = METRICS[metrics].usage(resource, matchers, 60, least)
            answer = await prometheus.matrix(text, at, at, 60)
            found[resource] = [float(value) * scale for item in answer for _, value in item.values]
    return found


@pytest.mark.parametrize("metrics", METRICS)
async def test_a_step_that_samples_do_not_cover_is_unknown(world: RecordedCluster, metrics: str) -> None:
    """A minute of which there are a dozen seconds would read as a fifth of the usage."""
    running = {"instance": "alpha"}
    some, none = await usage_of(world, metrics, running, 20), await usage_of(world, metrics, running, 400)

    assert some["cpu"]
    assert len(some["cpu"]) == len(some["memory"])
    assert {"cpu": [], "memory": []} == none


async def test_a_container_that_starts_anew_counts_once(world: RecordedCluster) -> None:
    """Its memory before and after is no sum; the pod's own cgroup and its sandbox are no containers."""
    found = await usage_of(world, "containers", {"namespace": "anew"}, 20)

    assert [256] == found["memory"]
    assert 1 == len(found["cpu"])


# servers that are ill


def answering(
    status: int = 200, body: bytes = b"", **headers: str
) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    return answer


async def empty(request: web.BaseRequest) -> web.Response:
    if request.path.endswith("query"):
        return web.Response(body=b'{"status":"success","data":{"resultType":"scalar","result":[1,"1767571200"]}}')
    return web.Response(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (answering(401, b"who?"), "401, it wants credentials: give a bearer token file"),
        (answering(403, b'{"status":"error","error":"not yours"}'), "403.*not yours"),
        (answering(302, Location="http://192.0.2.1/"), "302, a redirect, which is not followed"),
        (answering(404), "404.*path prefix"),
        (answering(200, b"<html>login</html>"), "no JSON"),
        (answering(200, b" " * 200_000), "larger than 100000 bytes"),
        (answering(200, b'{"status":"error","error":"ill"}'), "ill"),
        (answering(200, b'{"status":"success","warnings":["a store is away"]}'), "a store is away"),
        (answering(503, b"starting"), "503.*Is the address right"),
        (empty, "tried: pod_cpu_usage_seconds_total with .*; container_cpu_usage_seconds_total with .*scrape"),
    ],
)  # fmt: skip
async def test_a_bad_answer_says_what_to_do(
    answer: Callable[[web.BaseRequest], Awaitable[web.Response]], word: str, tmp_path: Path
) -> None:
    """And leaves no folder behind."""
    async with serving(answer) as url:
        asked = RecordOptions(prometheus=PrometheusSettings(url=url, body_limit=100_000), out=tmp_path / "out")
        with pytest.raises(RecordError, match=word):
            await record(asked, a_console(), without_waiting())

    assert not asked.out.exists()


async def test_an_address_where_nobody_listens_says_so(tmp_path: Path) -> None:
    """With the address."""
    async with serving(empty) as url:
        pass
    asked = RecordOptions(prometheus=PrometheusSettings(url=url), out=tmp_path / "out")
    with pytest.raises(RecordError, match=f"{url} cannot be reached.*Is the address right"):
        await record(asked, a_console(), without_waiting())


async def test_a_prometheus_that_restarts_is_waited_for(tmp_path: Path) -> None:
    """A query is asked again after a while, with the token as it is then."""
    token, seen = tmp_path / "token", []
    token.write_text("first")

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers["Authorization"])
        token.write_text("second")
        return await (answering(503)(request) if len(seen) < 3 else empty(request))

    async with serving(answer) as url:
        settings = PrometheusSettings(url=url, bearer_token_file=str(token))
        async with connect_prometheus(settings, without_waiting()) as prometheus:
            assert [] == await prometheus.matrix("up", 0, 10, 1)

    assert ["Bearer first", "Bearer second", "Bearer second"] == seen


async def test_a_server_is_trusted_by_the_given_authority_only(tmp_path: Path) -> None:
    """One that the machine does not know is refused before anything is sent."""
    make_certificates(tmp_path, names=(), addresses=("127.0.0.1",), days=1, force=False, now=SystemClock().now())
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    async with serving(empty, tls) as url:
        trusting = PrometheusSettings(url=url, ca_file=str(tmp_path / "ca.crt"))
        async with connect_prometheus(trusting, SystemClock()) as trusted:
            assert 1_767_571_200 == await trusted.time()
        async with connect_prometheus(PrometheusSettings(url=url), SystemClock()) as strange:
            with pytest.raises(RecordError, match=r"cannot be reached.*certificate"):
                await strange.time()


# the folder


WORKLOADS = tuple(
    TraceWorkload(name=name, kind=kind)
    for kind, name in (
        ("Deployment", "web"), ("StatefulSet", "web-db"), ("DaemonSet", "agent"), ("CronJob", "nightly"),
        ("Rollout", "canary"),
    )
)  # fmt: skip


def a_beginning() -> RecordingPlan:
    """Of one workload, in parts of two and one steps."""
    return RecordingPlan(
        step=900, days=1, matchers={}, metrics="pods", starts_at=900_000.0, steps=3, steps_per_part=2, least_samples=2,
        inventory=Inventory(nodes=(TraceNode(name="n", cpu_milli=1, memory_mib=1),), workloads=WORKLOADS[:1],
                            pods=(TracePod(name="web-1", workload=0, node="n"),), rules=(), notes=()),
        owners={"default/web-1": 0}, notes=(),
    )  # fmt: skip


async def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    """Whatever it is."""
    (tmp_path / "trace.json").write_text("{}")
    asked = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path)
    with pytest.raises(RecordError, match="is not empty: name a new folder"):
        await record(asked, a_console())


def test_the_beginning_of_another_recording_is_left_alone(tmp_path: Path) -> None:
    """Its parts have other steps."""
    unfinished = Checkpoint(tmp_path)
    unfinished.begin(a_beginning())
    asked = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path, step=60, days=1)
    with pytest.raises(RecordError, match=r"1 days in steps of 900 s, no matchers.*ask for the same"):
        unfinished.beginning(asked)

    assert a_beginning() == unfinished.beginning(msgspec.structs.replace(asked, step=900))


def test_nothing_measured_is_no_trace(tmp_path: Path) -> None:
    """The error counts what there was instead."""
    unfinished, beginning = Checkpoint(tmp_path), a_beginning()
    unfinished.begin(beginning)
    for part in beginning.parts():
        unfinished.keep(part, np.full((1, part.count), np.nan, dtype=np.float32), Tally(doubled=2))
    asked = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path, days=1)
    with pytest.raises(RecordError, match="8 that two series claimed"):
        write_trace(asked, beginning, unfinished, 0)

    assert not (tmp_path / "trace.json").exists()


def test_cells_that_nobody_measured_stay_empty(tmp_path: Path) -> None:
    """In the folder they are no 0, and the summary has their share."""
    unfinished, beginning = Checkpoint(tmp_path), a_beginning()
    unfinished.begin(beginning)
    for part in beginning.parts():
        values = [0.0, np.nan] if part.first == 0 else [7.04]
        unfinished.keep(part, np.array([values], dtype=np.float32), Tally(given=1.0, stray=3.0, readings=1))
    asked = RecordOptions(prometheus=PrometheusSettings(), out=tmp_path, days=1)
    summary = write_trace(asked, beginning, unfinished, 0)

    assert "workload,t0,t1,t2\nweb,0,,7\n" == gzip.decompress((tmp_path / "cpu_milli.csv.gz").read_bytes()).decode()
    assert (pytest.approx(1 / 3), 0.75) == (summary.missing, summary.stray_cpu)


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    """So that it can be deleted and read again."""
    unfinished, beginning = Checkpoint(tmp_path), a_beginning()
    unfinished.begin(beginning)
    (unfinished.folder / "cpu-000000.npz").write_bytes(b"PK cut off")
    with pytest.raises(RecordError, match=r"cpu-000000.npz is damaged.*delete it"):
        unfinished.read(beginning.parts()[0])


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
def test_pods_of_the_past_are_known_by_their_names(pod_name: str, owner: int) -> None:
    """As controllers make them from their own, of workloads that are still there."""
    owners = Owners(WorkloadIndex(WORKLOADS), {})

    assert owner == owners.of("default", pod_name)
    assert NO_WORKLOAD == owners.of("elsewhere", pod_name)


def test_who_knows_goes_before_the_name() -> None:
    """A pod that somebody knows to be nobody's is not given to who has the name."""
    owners = Owners(WorkloadIndex(WORKLOADS), {"default/web-db-0": NO_WORKLOAD, "default/odd": 2})

    assert NO_WORKLOAD == owners.of("default", "web-db-0")
    assert 2 == owners.of("default", "odd")


def test_owners_are_followed_to_the_workload() -> None:
    """By what kube-state-metrics tells of ReplicaSets, by their names where it does not; "<none>" is no owner."""
    answer = [
        Series(labels={"namespace": "default", "replicaset": name, "owner_kind": kind, "owner_name": owner})
        for name, kind, owner in (("odd", "Deployment", "web"), ("alone", "<none>", "<none>"))
    ]
    above, places = told(answer, "ReplicaSet", "replicaset"), WorkloadIndex(WORKLOADS)

    assert {("default", "ReplicaSet", "odd"): ("default", "Deployment", "web")} == above
    assert 0 == places.above(("default", "ReplicaSet", "odd"), above)
    assert 0 == places.above(("default", "ReplicaSet", "web-5d4f8c7b9"), above)
    assert 1 == places.above(("default", "StatefulSet", "web-db"), above)
    assert 3 == places.above(("default", "Job", "nightly-29384620"), above)
    assert NO_WORKLOAD == places.above(("default", "ReplicaSet", "alone"), above)


def series(pod_name: str, *values: tuple[float, Any]) -> Series:
    return Series(labels={"namespace": "default", "pod": pod_name}, values=values)


def test_usage_is_the_mean_of_the_pods_that_were_measured() -> None:
    """NaN, infinite, negative, doubled values, words and instants beside the grid are unknown, and never 0."""
    fold = Aggregation(workloads=2, ends=[900.0, 1800.0, 2700.0], step=900.0)
    fold.add(
        [
            series("a", (900, "1"), (1800, "3"), (2700, "NaN")),
            series("b", (900, "2"), (1800, "-1"), (2700, "+Inf")),
            series("twin", (900, "50"), (1800, "5")),
            series("twin", (900, "50")),
            series("words", (900, "1_000"), (1800, 7), (2700, None)),
            series("beside", (1300, "80"), (3600, "80"), (0, "80")),
            Series(labels={"pod": "nameless"}, values=((900, "9"),)),
            series("nobody", (900, "4")),
        ],
        lambda space, name: NO_WORKLOAD if name == "nobody" else 0,
        scale=1000.0,
    )

    expected = np.array([[1500.0, 4000.0, np.nan], [np.nan] * 3], dtype=np.float32)
    np.testing.assert_array_equal(expected, fold.means())
    assert Tally(given=11_000.0, stray=4_000.0, readings=5, doubled=1, nameless=1) == fold.tally


@pytest.mark.parametrize(("usual", "least"), [(60, 48), (15, 12), (3, 2), (2, 2)])
def test_a_step_needs_most_of_its_samples(usual: float, least: int) -> None:
    """80 % of them, where one may fall into the next step; two at least."""
    assert least == least_samples(usual)


def test_a_cluster_without_nodes_is_an_error() -> None:
    """A node that has not said what it has is none."""
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


def test_the_newest_pod_speaks_for_its_workload() -> None:
    """In the midst of a rollout; the leaving and the waiting have no place, and next to nothing is not 0."""
    new = a_pod("web-new", created=9, metadata=owned("StatefulSet", "web"), resources={"requests": {"cpu": "10u"}})
    old = a_pod("web-old", metadata=owned("StatefulSet", "web"), resources={"requests": {"cpu": "2"}})
    leaving = a_pod("web-x", metadata={**owned("StatefulSet", "web"), "deletionTimestamp": "2026-01-01T00:01:00Z"})
    waiting = a_pod("web-y", metadata=owned("StatefulSet", "web"), nodeName="")
    static = a_pod("proxy-n", metadata=owned("Node", "n", "v1"))
    pods = [old, new, leaving, waiting, static]
    size = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}, "metadata": {"name": "n"}}
    found = inventory([msgspec.convert(size, Node)], pods, owner_keys(pods, {}))

    assert [("Node", "proxy-n", 0), ("StatefulSet", "web", 1)] == [
        (item.kind, item.name, item.request_cpu_milli) for item in found.workloads
    ]
    assert ["web-old", "web-new", "proxy-n"] == [item.name for item in found.pods]
    assert ("left out: 2 pods that are finished, leaving, or without a node",) == found.notes


# what is seen meanwhile


class Noticing(io.StringIO):
    """Tells that something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


async def test_progress_is_a_plain_line_where_nobody_looks_and_a_bar_on_a_terminal() -> None:
    """Both say what is being read, and how much there is."""
    plain, terminal = Noticing(), io.StringIO()
    async with shown(Console(file=plain), every=0.01) as progress:
        progress.doing("cpu")
        progress.parts(2, 8)
        progress.advance()
        await asyncio.wait_for(plain.written.wait(), 5)
    async with shown(Console(file=terminal, force_terminal=True, width=120)) as progress:
        progress.doing("memory")
        progress.parts(2, 8)

    assert plain.getvalue().startswith("3 of 8: cpu\n")
    assert "memory" in terminal.getvalue()
    assert "2/8" in terminal.getvalue()
