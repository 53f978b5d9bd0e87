"""Ways to place pods by the load of nodes, whose cost `bench.scheduling.scheduling_cost` compares: how each is set up.

Every one schedules the same pods: of workloads whose ReplicaSets exist, so that kube-scheduler spreads their pods.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml
from aiohttp import web

from bench.scheduling.cluster import FrozenCluster, bare_pod
from equipoise.cli.demo.configuration import scheduler_configuration
from equipoise.contracts.hints.definition import GROUP, KIND, VERSION
from equipoise.contracts.hints.hints_object import MAX_BYTES, stored_hints
from equipoise.contracts.hints.policy import HINTED, NAME
from equipoise.contracts.messages.placement import WorkloadHint
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.placement_hints.terms import workload_hint
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import Module
from equipoise.testbed.processes.loopback import accepts

Document = dict[str, Any]

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "k8s" / "hints"
SOURCES = Path(__file__).parents[1] / "go"
HASH = "5d4b"
WORKLOADS = 50
HINTS_API = f"/apis/{GROUP}/{VERSION}"
POLICIES = "/apis/admissionregistration.k8s.io/v1"

PATIENT = "5s"
"""httpTimeout of all extenders, kube-scheduler's default: a late response costs its time, and is not ignored."""

EMPTY_EXTENDER = Module(source=SOURCES / "empty_extender", package=".", programs={"empty-extender": (0, 0)})
TRIMARAN = Module(
    source=SOURCES / "trimaran",
    package=".",
    programs={"trimaran-scheduler": (1, 34)},
    link="-s -w -X k8s.io/component-base/version.gitVersion=v1.34.7",
)
"""kube-scheduler 1.34 with TargetLoadPacking: no release of Trimaran is built with Kubernetes 1.36 yet."""


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Paths."""

    kube_scheduler: Path
    empty_extender: Path | None = None
    trimaran: Path | None = None


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """A participant that is ready."""

    program: Path
    """kube-scheduler."""

    scheduler: Document
    """Fields of its configuration."""

    processes: Mapping[str, int] = {}
    """Further processes that take part, by name: their pids."""

    hinted: bool = False
    """Whether new pods get hints."""


Participant = Callable[[FrozenCluster, Programs], AbstractAsyncContextManager[Setup]]


def workload(number: int) -> str:
    """The workload of the pod with this number."""
    return f"web-{number % WORKLOADS}"


def owned_pod(number: int, name: str | None = None) -> Document:
    """A pod of the Deployment `name`, by default that of its number, as a ReplicaSet would create it."""
    pod, name = bare_pod(number), name or workload(number)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-{HASH}", "uid": name, "controller": True}
    pod["metadata"] |= {"labels": {"app": name, "pod-template-hash": HASH}, "ownerReferences": [owner]}
    return pod


def replica_set(name: str) -> Document:
    labels = {"app": name, "pod-template-hash": HASH}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": name, "controller": True}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": f"{name}-{HASH}", "namespace": "default", "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "fake"}]}},
        },
    }


def hints_of_all(nodes: Sequence[str]) -> Document:
    """Hints of every workload, of the default size. `nodes`: the least loaded first."""
    return hints_object({workload(number): hint_of_size(nodes, number, HintSettings()) for number in range(WORKLOADS)})


def hint_of_size(nodes: Sequence[str], number: int, settings: HintSettings) -> WorkloadHint:
    """The hint of the workload with this number, with as many nodes and terms as these settings permit."""
    # Different nodes for each, as after `scorer.hints` has counted the pods that the others will get.
    best = nodes[number : number + settings.preferred_nodes]
    grades = [settings.grades - settings.grades * place // len(best) for place in range(len(best))]
    hint = workload_hint(best, grades, nodes[::-1][: settings.avoided_nodes], settings)
    assert hint is not None
    return hint


def hints_object(hint_of_deployment: Mapping[str, WorkloadHint]) -> Document:
    """The object with these hints. Raises ValueError if it has no room for all."""
    hints = {f"Deployment.{name}": hint for name, hint in hint_of_deployment.items()}
    stored = stored_hints(hints, MAX_BYTES)
    if len(stored.keys) < len(hints):
        raise ValueError(f"{MAX_BYTES} bytes hold the hints of {len(stored.keys)} of {len(hints)} workloads")
    hinted: Document = msgspec.to_builtins(stored)
    return hinted | {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": NAME, "namespace": "default"},
        "until": datetime(2036, 1, 1, tzinfo=UTC).isoformat(),
    }


@asynccontextmanager
async def stock(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """kube-scheduler alone."""
    yield Setup(program=programs.kube_scheduler, scheduler={})


@asynccontextmanager
async def hints(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """Placement hints; the services that compute them every 15 s run beside it, except for the annotator."""
    async with hint_policy(frozen, hints_of_all(list(frozen.loads))), frozen.services(hints=True):
        processes = dict(frozen.services_pids)
        yield Setup(program=programs.kube_scheduler, scheduler={}, processes=processes, hinted=True)


@asynccontextmanager
async def hints_alone(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """The same hints without the services, which in a cluster run on other machines than kube-scheduler."""
    async with hint_policy(frozen, hints_of_all(list(frozen.loads))):
        yield Setup(program=programs.kube_scheduler, scheduler={}, hinted=True)


@asynccontextmanager
async def hint_policy(frozen: FrozenCluster, hinted: Document) -> AsyncIterator[None]:
    """The admission policy, and an object with hints."""
    policy = list(yaml.safe_load_all((MANIFESTS / "policy.yaml").read_text()))
    async with frozen.cluster.api() as api:
        await api.apply(yaml.safe_load_all((MANIFESTS / "definition.yaml").read_text()))
        await api.wait(HINTS_API, lambda found: bool(found["resources"]), what="the kind of the hints is served")
        await api.apply([hinted, *policy])
        name = next(iter(hinted["workloads"])).removeprefix("Deployment.")
        await _until_hinted(api, name, True)
        try:
            yield
        finally:
            for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
                await api.request("DELETE", f"{POLICIES}/{kind}/{NAME}")
            await _until_hinted(api, name, False)


async def _until_hinted(api: Api, name: str, wanted: bool) -> None:
    """Waits until new pods of a Deployment get hints, or none."""
    while True:
        pod = await api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", owned_pod(0, name))
        if is_hinted(pod) is wanted:
            return
        await asyncio.sleep(0.1)


def is_hinted(pod: Document) -> bool:
    return HINTED in pod["metadata"].get("annotations", {})


@asynccontextmanager
async def scorer(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """Equipoise's extender, with the collector beside it."""
    async with frozen.services():
        configuration = scheduler_configuration(frozen.extender, timeout=PATIENT)
        processes = dict(frozen.services_pids)
        yield Setup(program=programs.kube_scheduler, scheduler=configuration, processes=processes)


@asynccontextmanager
async def empty(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """An extender in Go that gives every node the same score."""
    async with _empty_extender(frozen, programs, names_only=True) as setup:
        yield setup


@asynccontextmanager
async def whole_nodes(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """The same, but kube-scheduler sends it whole nodes instead of names, as Telemetry Aware Scheduling requires."""
    async with _empty_extender(frozen, programs, names_only=False) as setup:
        yield setup


@asynccontextmanager
async def _empty_extender(frozen: FrozenCluster, programs: Programs, *, names_only: bool) -> AsyncIterator[Setup]:
    assert programs.empty_extender is not None
    cluster, port = frozen.cluster, frozen.port("empty-extender")
    command: list[str | Path] = [programs.empty_extender, f"127.0.0.1:{port}"]
    pid = cluster.guard.start(command, log=cluster.log("empty-extender"))
    try:
        while not accepts(port):  # noqa: ASYNC110  each time is a connection
            await asyncio.sleep(0.05)
        configuration = scheduler_configuration(f"http://127.0.0.1:{port}", timeout=PATIENT)
        configuration["extenders"][0]["nodeCacheCapable"] = names_only
        yield Setup(program=programs.kube_scheduler, scheduler=configuration, processes={"extender": pid})
    finally:
        cluster.guard.stop(pid)


@asynccontextmanager
async def trimaran(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """TargetLoadPacking inside kube-scheduler 1.34; a load-watcher that serves the load of all nodes."""
    assert programs.trimaran is not None

    async def watcher(request: web.Request) -> web.Response:
        return web.json_response(watcher_metrics(frozen.loads, int(frozen.clock.now())))

    application = web.Application()
    application.router.add_get("/watcher", watcher)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield Setup(program=programs.trimaran, scheduler=target_load_packing(url))
        missing = b"to get metrics for node"
        if missing in frozen.cluster.log("kube-scheduler").read_bytes():
            raise RuntimeError(f"TargetLoadPacking had no load of a node; see {frozen.cluster.log('kube-scheduler')}")
    finally:
        await runner.cleanup()


@asynccontextmanager
async def trimaran_stock(frozen: FrozenCluster, programs: Programs) -> AsyncIterator[Setup]:
    """kube-scheduler 1.34 without TargetLoadPacking."""
    assert programs.trimaran is not None
    yield Setup(program=programs.trimaran, scheduler={})


def target_load_packing(url: str) -> Document:
    """The configuration that its documentation recommends: instead of NodeResourcesBalancedAllocation."""
    plugins = {
        "score": {
            "enabled": [{"name": "TargetLoadPacking"}],
            "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
        }
    }
    arguments = {"targetUtilization": 70, "watcherAddress": url}
    return {
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": plugins,
                "pluginConfig": [{"name": "TargetLoadPacking", "args": arguments}],
            }
        ]
    }


def watcher_metrics(loads: Mapping[str, float], now: int) -> Document:
    """A response of load-watcher, with the loads (0..1) of the last 15 minutes."""
    return {
        "timestamp": now,
        "window": {"duration": "15m", "start": now - 900, "end": now},
        "source": "Prometheus",
        "data": {
            "NodeMetricsMap": {
                node: {
                    "metrics": [
                        {"name": "cpu", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 100 * load}
                    ],
                    "tags": {},
                    "metadata": {},
                }
                for node, load in loads.items()
            }
        },
    }


PARTICIPANTS: Mapping[str, Participant] = {
    participant.__name__: participant
    for participant in (stock, hints, hints_alone, scorer, empty, whole_nodes, trimaran, trimaran_stock)
}
NEEDS: Mapping[str, Module] = {
    "empty": EMPTY_EXTENDER,
    "whole_nodes": EMPTY_EXTENDER,
    "trimaran": TRIMARAN,
    "trimaran_stock": TRIMARAN,
}
"""Programs that are built first."""
