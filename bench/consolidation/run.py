"""One participant on a cluster of its own, whose nodes are made by Karpenter."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from bench.consolidation.figures import Day, Figures, figures
from bench.consolidation.fleet import AGENT_MILLI, INSTANCE_TYPE, even_placement, fewest_nodes, on_nodes
from bench.consolidation.history import history
from bench.initial_placement import all_pods, bind, placement
from bench.karpenter import INITIALIZED, Karpenter, Policy, node_pool, start_karpenter
from bench.leveling_run import EQUIPOISE_INTERVAL, Contender, LevelingRun
from bench.output import progress
from equipoise.cli.demo.manifests import namespace_documents, workload_documents
from equipoise.cli.demo.surge.workloads import service_documents, wanted_endpoints
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.lab.model.trace import Trace
from equipoise.testbed import audit
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import Manifest, deployment, pod_template
from equipoise.testbed.processes.command_lines import SCHEDULER
from equipoise.testbed.ready_endpoints import ready_endpoints

PLACEHOLDER = "placeholder"
VIRTUAL = "kwok.x-k8s.io/node"
NODES_PATH = "/api/v1/nodes"
READY_AFTER = "2s"
"""How long a new pod takes to become ready."""

NODES_SECONDS = 180.0
PROGRESS_SECONDS = 30.0


class Participant(msgspec.Struct, frozen=True, kw_only=True):
    """What removes nodes."""

    name: str
    policy: Policy
    """What Karpenter may remove."""

    services: tuple[ServiceName, ...] = ()
    """Services of Equipoise. With the scorer, kube-scheduler gets its extender entry."""

    settings: dict[str, Any] = {}
    """Settings of Equipoise by section, instead of their defaults."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run takes."""

    step_seconds: int
    """Real seconds of a step of the day, which are 15 minutes of its time."""

    warm_up_days: int
    """Days before the first node may be removed, in which Equipoise measures the pods."""

    days: int
    setup_seconds: float
    """Until the first day begins."""


async def run_participant(
    participant: Participant, trace: Trace, karpenter: Karpenter, course: Course, *, seed: int
) -> Figures:
    """Runs it on a new cluster. Raises RuntimeError if the cluster is not set up in time."""
    progress(f"{participant.name}: {len(trace.pods)} pods on {len(trace.nodes)} nodes")
    async with Cluster(nats=bool(participant.services)) as cluster, cluster.api() as api:
        await api.apply(namespace_documents())
        pid = await start_karpenter(cluster, api, karpenter, INSTANCE_TYPE)
        epoch = round(time.time() + course.setup_seconds)  # noqa: TID251  the clock of kwok
        workloads = _workloads(trace, epoch, course.step_seconds)
        names = await make_nodes(api, trace, workloads[:1])
        start = on_nodes(even_placement(trace, seed), names)
        await asyncio.to_thread(cluster.kill, SCHEDULER)
        wanted = wanted_endpoints(trace)
        await api.apply([*workloads, *service_documents(wanted)])
        await bind(api, await all_pods(api, len(trace.pods) + len(trace.nodes)), start)
        await asyncio.to_thread(cluster.restart_scheduler, {})
        if placement(await all_pods(api, len(trace.pods) + len(trace.nodes), running=True)) != start:
            raise RuntimeError("the pods do not run on the nodes of the initial placement")
        curves = {
            f"{workload.namespace}/{workload.name}": curve
            for workload, curve in zip(trace.workloads, trace.cpu_milli.tolist(), strict=True)
        }
        day = Day(epoch=epoch, step_seconds=course.step_seconds, cpu_milli=curves)
        async with _equipoise(participant, trace, cluster, api, course):
            begin = epoch + course.warm_up_days * day.seconds
            if (late := time.time() - begin) > 0:  # noqa: TID251
                raise RuntimeError(f"the setup took {late:.0f} s too long: use a larger --setup-seconds")
            await asyncio.sleep(-late)
            await api.apply([node_pool(participant.policy)])
            end = begin + course.days * day.seconds
            await _wait(cluster, api, pid, end)
        nodes = (await api.request("GET", NODES_PATH))["items"]
        past = history(cluster.audit_log, {node["metadata"]["name"] for node in nodes})
        endpoints = ready_endpoints(audit.written_slices(cluster.audit_log), wanted, end)
        return figures(
            participant.name,
            past,
            endpoints,
            day,
            begin=begin,
            end=end,
            node_milli=INSTANCE_TYPE.cpu_milli,
            price=INSTANCE_TYPE.price,
            needed=fewest_nodes(trace),
        )


async def make_nodes(api: Api, trace: Trace, daemons: list[Manifest]) -> dict[str, str]:
    """Lets Karpenter make the nodes: one for each of as many pods, which are then deleted again.

    The names of the nodes, by those in the trace. `daemons`: what runs on every node.
    """
    template = pod_template(PLACEHOLDER, cpu=f"{INSTANCE_TYPE.cpu_milli // 2 + AGENT_MILLI}m", memory="1Gi")
    placeholder = deployment(PLACEHOLDER, template, replicas=len(trace.nodes))
    await api.apply([*daemons, placeholder])

    def made(response: Any) -> bool:
        ready = [node for node in response["items"] if INITIALIZED in node["metadata"]["labels"]]
        return len(ready) == len(trace.nodes)

    response = await api.wait(
        NODES_PATH, made, timeout=NODES_SECONDS, what=f"Karpenter has made {len(trace.nodes)} nodes"
    )
    await api.request("DELETE", f"{await api.path(placeholder)}?propagationPolicy=Foreground")
    await api.wait(
        f"/api/v1/namespaces/default/pods?labelSelector=app={PLACEHOLDER}",
        lambda pods: not pods["items"],
        what="the pods are gone for which the nodes were made",
    )
    names = sorted(node["metadata"]["name"] for node in response["items"])
    for name in names:
        await _prepare(api, name)
    return dict(zip((node.name for node in trace.nodes), names, strict=True))


async def _prepare(api: Api, node: str) -> None:
    """Removes the label of virtual nodes, which Equipoise does not measure, and writes the capacity.

    The kwok provider writes the requests of the first pods as capacity. It is twice the allocatable CPU here, as in the
    demo: a fake node does not throttle its pods, and their sum may be above its cores. Does nothing if Karpenter has
    just removed the node.
    """
    labels = {"metadata": {"labels": {VIRTUAL: None}}}
    cpu, memory = f"{2 * INSTANCE_TYPE.cpu_milli}m", f"{INSTANCE_TYPE.memory_mib}Mi"
    try:
        await api.patch(f"{NODES_PATH}/{node}", labels)
        capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
        await api.patch(f"{NODES_PATH}/{node}/status", {"status": {"capacity": capacity}})
    except ApiError as error:
        if error.status != 404:
            raise


def _workloads(trace: Trace, epoch: int, step_seconds: int) -> list[Manifest]:
    """The workloads of the demo, of which the DaemonSet is the first. A new pod takes a moment to become ready."""
    documents = workload_documents(trace, epoch=epoch, step_seconds=step_seconds)
    for document in documents:
        if document["kind"] == "Deployment":
            annotations = document["spec"]["template"]["metadata"]["annotations"]
            annotations["pod-ready.stage.kwok.x-k8s.io/delay"] = READY_AFTER
    return documents


@asynccontextmanager
async def _equipoise(
    participant: Participant, trace: Trace, cluster: Cluster, api: Api, course: Course
) -> AsyncIterator[None]:
    contender = Contender(name=participant.name, services=participant.services, settings=participant.settings)
    interval = EQUIPOISE_INTERVAL * course.step_seconds / trace.seconds_per_step
    async with (
        aiohttp.ClientSession() as session,
        LevelingRun(contender, trace, cluster, api, session, None, interval=interval).equipoise(),
    ):
        yield


async def _wait(cluster: Cluster, api: Api, karpenter: int, end: float) -> None:
    """Until the Unix time `end`. Nodes that Karpenter makes meanwhile get their capacity. `karpenter`: its pid."""
    known = 0
    prepared = {node["metadata"]["name"] for node in (await api.request("GET", NODES_PATH))["items"]}
    while (left := end - time.time()) > 0:  # noqa: TID251
        nodes = (await api.request("GET", NODES_PATH))["items"]
        for node in nodes:
            name = node["metadata"]["name"]
            if INITIALIZED in node["metadata"]["labels"] and name not in prepared:
                prepared.add(name)
                await _prepare(api, name)
        if len(nodes) != known:
            known = len(nodes)
            progress(f"  {left:4.0f} s left: {known} nodes, {sum(e.succeeded for e in cluster.evictions())} evictions")
        cluster.check()
        if (code := cluster.guard.exit_code(karpenter)) is not None:
            raise RuntimeError(f"Karpenter has ended with code {code}: see {cluster.log('karpenter')}")
        await asyncio.sleep(min(left, 2.0))
