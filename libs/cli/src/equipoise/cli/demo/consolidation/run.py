"""One run on a cluster of its own, whose nodes are made by Karpenter: what removes nodes, and what that costs."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from equipoise.cli.demo.configuration import Difference
from equipoise.cli.demo.consolidation.figures import ConsolidationFigures, UsedDay, figures
from equipoise.cli.demo.consolidation.fleet import INSTANCE_TYPE, even_placement, fewest_nodes, on_nodes
from equipoise.cli.demo.consolidation.history import history
from equipoise.cli.demo.consolidation.nodes import NODES_PATH, make_nodes, prepare_node
from equipoise.cli.demo.consolidation.services import EmptyingProgress, running_services
from equipoise.cli.demo.manifests import namespace_documents, workload_documents
from equipoise.cli.demo.surge.workloads import service_documents, wanted_endpoints
from equipoise.lab.model.trace import Trace
from equipoise.testbed import audit
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.karpenter import INITIALIZED, Karpenter, Policy, node_pool, start_karpenter
from equipoise.testbed.objects import Manifest
from equipoise.testbed.placement import all_pods, bind, placement
from equipoise.testbed.processes.command_lines import SCHEDULER
from equipoise.testbed.ready_endpoints import ready_endpoints

READY_AFTER = "2s"
"""How long a new pod takes to become ready."""


class Participant(msgspec.Struct, frozen=True, kw_only=True):
    """What removes nodes."""

    name: str
    policy: Policy
    """What Karpenter may remove."""

    settings: tuple[Difference, ...] = ()
    """The settings of Equipoise; empty: it does not run."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run takes."""

    step_seconds: int
    """Real seconds of a step of the day, which are 15 minutes of its time."""

    warm_up_days: int
    """Days before the first node may be removed, in which Equipoise measures the pods. Without it, there are none."""

    days: float
    setup_seconds: float
    """The time until the first day begins."""


class UntilIdle(msgspec.Struct, frozen=True, kw_only=True):
    """The length of a run that ends when Equipoise has nothing left to do. It begins with the first node that is
    emptied, once a day is measured."""

    step_seconds: int
    """See `Course`."""

    idle_seconds: float
    """How long no node has been emptied at the end, in real seconds."""

    longest_seconds: float
    """The time after the measured day at which it ends in any case, in real seconds: a slow machine needs longer until
    the day begins."""


@dataclass(kw_only=True)
class ConsolidationRun:
    """One participant on a cluster."""

    participant: Participant
    trace: Trace
    course: Course | UntilIdle
    cluster: Cluster
    api: Api
    report: Callable[[str], None]

    async def run(self, karpenter: Karpenter, *, seed: int) -> ConsolidationFigures:
        """Runs it. Raises RuntimeError if the cluster is not set up in time."""
        trace, course, cluster, api = self.trace, self.course, self.cluster, self.api
        await api.apply(namespace_documents())
        pid = await start_karpenter(cluster, api, karpenter, INSTANCE_TYPE)
        started = time.time()  # noqa: TID251  the clock of kwok
        epoch = round(started + (course.setup_seconds if isinstance(course, Course) else 0.0))
        await self._place(epoch, seed)
        curves = {
            f"{workload.namespace}/{workload.name}": curve
            for workload, curve in zip(trace.workloads, trace.cpu_milli.tolist(), strict=True)
        }
        day = UsedDay(epoch=epoch, step_seconds=course.step_seconds, cpu_milli=curves)
        async with self._equipoise() as emptying:
            if isinstance(course, Course):
                begin = epoch + (course.warm_up_days * day.seconds if emptying is not None else 0.0)
                if (late := time.time() - begin) > 0:  # noqa: TID251
                    raise RuntimeError(f"the setup took {late:.0f} s too long: use a larger --setup-seconds")
                await asyncio.sleep(-late)
                await api.apply([node_pool(self.participant.policy)])
                end = begin + course.days * day.seconds
                await self._wait(pid, end, emptying)
            else:
                assert emptying is not None, "only Equipoise has nothing left to do"
                await api.apply([node_pool(self.participant.policy)])
                measured = time.time() + day.seconds  # noqa: TID251
                until = measured + course.longest_seconds
                end = await self._wait(
                    pid, until, emptying, lambda: emptying.idle_seconds(measured) > course.idle_seconds
                )
                begin = emptying.begun_at or end
        nodes = (await api.request("GET", NODES_PATH))["items"]
        past = history(cluster.audit_log, {node["metadata"]["name"] for node in nodes})
        endpoints = ready_endpoints(audit.written_slices(cluster.audit_log), wanted_endpoints(trace), end)
        return figures(
            self.participant.name,
            past,
            endpoints,
            day,
            begin=begin,
            end=end,
            node_milli=INSTANCE_TYPE.cpu_milli,
            price=INSTANCE_TYPE.price,
            needed=fewest_nodes(trace),
        )

    async def _place(self, epoch: int, seed: int) -> None:
        """Lets Karpenter make the nodes, and binds the pods to them."""
        trace, cluster, api = self.trace, self.cluster, self.api
        workloads = _workloads(trace, epoch, self.course.step_seconds)
        names = await make_nodes(api, trace, workloads[:1])
        start = on_nodes(even_placement(trace, seed), names)
        await asyncio.to_thread(cluster.kill, SCHEDULER)
        await api.apply([*workloads, *service_documents(wanted_endpoints(trace))])
        await bind(api, await all_pods(api, len(trace.pods) + len(trace.nodes)), start)
        await asyncio.to_thread(cluster.restart_scheduler, {})
        if placement(await all_pods(api, len(trace.pods) + len(trace.nodes), running=True)) != start:
            raise RuntimeError("the pods do not run on the nodes of the initial placement")

    @asynccontextmanager
    async def _equipoise(self) -> AsyncIterator[EmptyingProgress | None]:
        """The services with the settings of the participant; None without."""
        settings = self.participant.settings
        if not settings:
            yield None
            return
        factor = self.trace.seconds_per_step / self.course.step_seconds
        async with running_services(self.cluster, settings, factor, self.report) as emptying:
            yield emptying

    async def _wait(
        self,
        karpenter: int,
        until: float,
        emptying: EmptyingProgress | None,
        ended: Callable[[], bool] = lambda: False,
    ) -> float:
        """Waits until the Unix time `until`, or until it has ended before; returns the time.

        Nodes that Karpenter makes meanwhile get their capacity. `karpenter`: its pid.
        """
        cluster, shown = self.cluster, ""
        prepared = {node["metadata"]["name"] for node in (await self.api.request("GET", NODES_PATH))["items"]}
        while (left := until - time.time()) > 0:  # noqa: TID251
            nodes = (await self.api.request("GET", NODES_PATH))["items"]
            for node in nodes:
                name = node["metadata"]["name"]
                if INITIALIZED in node["metadata"]["labels"] and name not in prepared:
                    prepared.add(name)
                    await prepare_node(self.api, name)
            emptied = f", {len(emptying.nodes)} being emptied" if emptying is not None and emptying.nodes else ""
            if (text := f"{len(nodes)} nodes{emptied}") != shown:
                shown = text
                evictions = sum(eviction.succeeded for eviction in cluster.evictions())
                self.report(f"  {left:4.0f} s left: {text}, {evictions} evictions")
            cluster.check()
            if (code := cluster.guard.exit_code(karpenter)) is not None:
                raise RuntimeError(f"Karpenter has ended with code {code}: see {cluster.log('karpenter')}")
            if ended():
                return time.time()  # noqa: TID251
            await asyncio.sleep(min(left, 2.0))
        return until


async def run_participant(
    participant: Participant,
    trace: Trace,
    karpenter: Karpenter,
    course: Course | UntilIdle,
    *,
    seed: int,
    report: Callable[[str], None],
) -> ConsolidationFigures:
    """Runs it on a new cluster. Raises RuntimeError if the cluster is not set up in time."""
    report(f"{participant.name}: {len(trace.pods)} pods on {len(trace.nodes)} nodes")
    async with Cluster(nats=bool(participant.settings)) as cluster, cluster.api() as api:
        run = ConsolidationRun(
            participant=participant, trace=trace, course=course, cluster=cluster, api=api, report=report
        )
        return await run.run(karpenter, seed=seed)


def _workloads(trace: Trace, epoch: int, step_seconds: int) -> list[Manifest]:
    """The workloads of the demo, of which the DaemonSet is the first. A new pod takes a moment to become ready."""
    documents = workload_documents(trace, epoch=epoch, step_seconds=step_seconds)
    for document in documents:
        if document["kind"] == "Deployment":
            annotations = document["spec"]["template"]["metadata"]["annotations"]
            annotations["pod-ready.stage.kwok.x-k8s.io/delay"] = READY_AFTER
    return documents
