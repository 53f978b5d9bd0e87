"""Resizes in place on nearly full nodes: how many are enacted, how fast, and what it costs the other pods.

40 nodes at 95 % requested cores, placed by the stock scheduler on the real API server. 100 pods are resized by 25 %
within an hour. kwok nodes do not resize: this program writes what a kubelet would into the status of the pods. It
enacts a resize if the allocated requests of the node's pods leave room for it, sets PodResizePending (Deferred)
otherwise, and tries again every second, by the time since when they wait. Time is compressed by 24, as in
`level_vs_descheduler`.

`stock`: nothing moves. `preemption`: kube-scheduler 1.37 with the feature gate of KEP-5836 (alpha), which preempts pods
for deferred resizes. `make_room`: Equipoise with this strategy only, default limits and `surge.mode: always`. Half of
the workloads have a lower priority than the others. A pod is killed if it ends while its Deployment has fewer ready
pods than replicas.
"""

import argparse
import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

import aiohttp
import msgspec
import numpy as np

from bench.descheduler.initial_placement import create_fleet
from bench.descheduler.leveling_run import EQUIPOISE_INTERVAL, Contender, LevelingRun
from bench.output import progress, report
from equipoise.cli.demo.manifests import DAEMON_SET, NAMESPACE
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.lab.model.trace import Trace, TraceNode, TracePod, TraceWorkload
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.placement import Document, Placement, placement

NODE_MILLI = 8_000
AGENT_MILLI = 50
"""The request of the DaemonSet that runs on every node."""

SIZES = (100, 250, 250, 500, 500, 1_000)
"""The millicores that the pods of a workload request."""

REPLICAS = (3, 4, 5, 6)
USED = 0.4
"""The share of its request that a pod uses."""

GROWTH = 1.25
RESIZING_PERIOD = 3_600.0
"""Uncompressed seconds within which the pods are resized."""

PRIORITY = 1_000
"""The priority of every second workload; that of the others is 0."""

PREEMPTION = "preemption"
GATE = "--feature-gates=InPlacePodVerticalScalingSchedulerPreemption=true"

CONTENDERS = (
    Contender(name="stock"),
    Contender(name=PREEMPTION),
    Contender(
        name="make_room",
        services=SERVICES,
        strategies=({"name": "make_room"},),
        settings={"surge": {"mode": "always"}},
    ),
)


class Resize(msgspec.Struct, kw_only=True):
    """The resize of one pod. Times are of the monotonic clock."""

    pod: str
    node: str
    before: int
    """Millicores."""

    after: int
    requested_at: float | None = None
    """None until the API server has accepted the resize."""

    deferred_at: str = ""
    """Time of the condition; empty if it is not set."""

    enacted_at: float | None = None
    lost: bool = False
    """Whether the pod is gone. Its replacement has the size of the template."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Times are uncompressed."""

    name: str
    enacted: int
    deferred: int
    """Resizes that had to wait."""

    median_seconds: float | None
    """From the request of those that had to wait to their enactment; None if none of them was enacted."""

    lost: int
    """Resizing pods that ended before."""

    ended: int
    """Pods that were evicted or preempted."""

    killed: int
    """Those of them whose Deployment had fewer ready pods than replicas afterwards."""

    unplaced: int
    """Pods without a node at the end."""


def full_trace(seed: int, nodes: int, requested: float) -> Trace:
    """Workloads that together request this share of the cores of the nodes, the DaemonSet included."""
    generator = random.Random(seed)
    room = requested * NODE_MILLI * nodes - AGENT_MILLI * nodes
    workloads: list[TraceWorkload] = []
    pods: list[TracePod] = []
    while room >= min(SIZES):
        size = generator.choice([size for size in SIZES if size <= room])
        replicas = min(generator.choice(REPLICAS), int(room // size))
        name = f"app-{len(workloads):03}"
        pods += [TracePod(name=f"{name}-{number}", workload=len(workloads)) for number in range(replicas)]
        workloads.append(
            TraceWorkload(
                name=name,
                namespace=NAMESPACE,
                request_cpu_milli=size,
                request_memory_mib=size // 2,
                priority=PRIORITY * (len(workloads) % 2),
            )
        )
        room -= replicas * size
    requests = np.array([[workload.request_cpu_milli] for workload in workloads], dtype=np.float64)
    return Trace(
        name=f"full (seed {seed})",
        nodes=tuple(
            TraceNode(name=f"node-{number:02}", cpu_milli=NODE_MILLI, memory_mib=4 * NODE_MILLI)
            for number in range(nodes)
        ),
        workloads=tuple(workloads),
        pods=tuple(pods),
        cpu_milli=USED * requests,
        memory_mib=USED * requests / 2,
        seconds_per_step=60.0,
    )


class Kubelets:
    """The part of the kubelets that kwok does not have: they enact or defer resizes of pods."""

    def __init__(self, api: Api, replicas: Mapping[str, int]) -> None:
        """`replicas`: the desired number of pods by workload."""
        self._api = api
        self._clock = SystemClock()
        self._replicas = replicas
        self.resizes: dict[str, Resize] = {}
        """The resizes by name of the pod."""

        self.fewer_ready: set[str] = set()
        """The workloads that had fewer ready pods than replicas at any time."""

        self.ended: set[str] = set()
        """The names of the pods that have left their node."""

        self.unplaced = 0
        self._names: set[str] = set()

    async def resize(self, pod: Document) -> None:
        """Requests a size that is larger by GROWTH."""
        name, before = pod["metadata"]["name"], _requested(pod)
        after = round(before * GROWTH)
        resize = Resize(pod=name, node=pod["spec"]["nodeName"], before=before, after=after)
        self.resizes[name] = resize
        # The API server refuses a resize unless the kubelet reports what the pod has.
        if not await self._write(resize, before, ""):
            resize.lost = True  # it was moved before
            return
        resources = {"requests": {"cpu": f"{after}m"}}
        containers = [{"name": pod["spec"]["containers"][0]["name"], "resources": resources}]
        await self._api.patch(
            f"{_path(name)}/resize", {"spec": {"containers": containers}}, kind="strategic-merge-patch"
        )
        resize.requested_at = time.monotonic()

    async def run(self) -> None:
        """Tries all resizes every second, until canceled."""
        while True:
            await self._synchronize()
            await asyncio.sleep(1.0)

    async def _synchronize(self) -> None:
        pods = (await self._api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
        running = [pod for pod in pods if pod["spec"].get("nodeName")]
        self._count_ready(running)
        self.unplaced = len(pods) - len(running)
        names = {pod["metadata"]["name"] for pod in running if not pod["metadata"].get("deletionTimestamp")}
        self.ended |= self._names - names
        self._names = names
        allocated: defaultdict[str, int] = defaultdict(int)
        for pod in running:
            allocated[pod["spec"]["nodeName"]] += self._allocated(pod)
        for resize in list(self.resizes.values()):  # in the order of their requests
            if resize.enacted_at is not None or resize.requested_at is None:
                continue
            if resize.pod not in names:
                resize.lost = True
            elif allocated[resize.node] + resize.after - resize.before <= NODE_MILLI:
                allocated[resize.node] += resize.after - resize.before
                if await self._write(resize, resize.after, ""):
                    resize.enacted_at = time.monotonic()
            elif not resize.deferred_at:
                deferred_at = _time_text(self._clock.now())
                if await self._write(resize, resize.before, deferred_at):
                    resize.deferred_at = deferred_at

    def _count_ready(self, pods: Sequence[Document]) -> None:
        ready = Counter(
            pod["metadata"]["labels"]["app"]
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
            and any(
                each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ())
            )
        )
        self.fewer_ready |= {name for name, replicas in self._replicas.items() if ready[name] < replicas}

    def _allocated(self, pod: Document) -> int:
        """Millicores. A pod that has not been resized has what it requests."""
        resize = self.resizes.get(pod["metadata"]["name"])
        return _requested(pod) if resize is None or resize.enacted_at is not None else resize.before

    async def _write(self, resize: Resize, milli: int, deferred_at: str) -> bool:
        """Writes the amounts of the pod, and whether its resize is deferred, into its status. False if the pod is gone,
        or has changed meanwhile."""
        try:
            pod = await self._api.request("GET", _path(resize.pod))
            status, container = pod["status"], pod["spec"]["containers"][0]
            held = {**container["resources"]["requests"], "cpu": f"{milli}m"}
            conditions = [each for each in status["conditions"] if each["type"] != "PodResizePending"]
            if deferred_at:
                pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
                conditions.append(pending | {"lastTransitionTime": deferred_at})
            (reported,) = status["containerStatuses"]
            reported |= {"resources": {"requests": held}, "allocatedResources": held}
            status |= {"conditions": conditions, "containerStatuses": [reported]}
            await self._api.request("PUT", f"{_path(resize.pod)}/status", pod)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True


def _time_text(seconds: float) -> str:
    """Unix seconds as the API server writes them."""
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"


def _path(pod: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}"


def _requested(pod: Document) -> int:
    """Millicores in the specification."""
    text: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(text[:-1]) if text.endswith("m") else 1_000 * int(text)


async def placed_trace(trace: Trace) -> tuple[Trace, Placement]:
    """The trace without the pods that the stock scheduler cannot place, and where it places the others."""
    async with Cluster() as cluster, cluster.api() as api:
        await create_fleet(cluster, api, trace)
        start = placement(await _placed(api))
    left = {workload.name: len(start.get(f"{NAMESPACE}/{workload.name}", ())) for workload in trace.workloads}
    pods = [
        TracePod(name=f"{workload.name}-{number}", workload=index)
        for index, workload in enumerate(trace.workloads)
        for number in range(left[workload.name])
    ]
    return msgspec.structs.replace(trace, pods=tuple(pods)), start


async def run_contender(contender: Contender, trace: Trace, start: Placement, options: Any) -> Result:
    """Runs it on a cluster of its own from the same placement, until the time is over or all resizes are enacted."""
    compression = EQUIPOISE_INTERVAL / options.interval
    generator = random.Random(options.seed)
    async with (
        Cluster(nats=True, arguments={"kube-scheduler": [GATE]} if contender.name == PREEMPTION else {}) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        cluster.api() as api,
    ):
        run = LevelingRun(contender, trace, cluster, api, session, None, interval=options.interval)
        await run.place(start)
        pods = await _placed(api)
        kubelets = Kubelets(api, Counter(pod["metadata"]["labels"]["app"] for pod in pods))
        requested = sum(map(_requested, pods)) + AGENT_MILLI * len(trace.nodes)
        progress(f"  {len(pods)} pods, {100 * requested / NODE_MILLI / len(trace.nodes):.1f} % requested")
        ordered = sorted(pods, key=lambda pod: (pod["metadata"]["labels"]["app"], pod["spec"]["nodeName"]))
        chosen = generator.sample(ordered, options.resizes)
        async with run.equipoise():
            task = asyncio.create_task(kubelets.run())
            begun = time.monotonic()
            for number, pod in enumerate(chosen):
                due = begun + number * RESIZING_PERIOD / compression / len(chosen)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await kubelets.resize(pod)
            # With the stock scheduler no pod ends, so that nothing changes once every resize was tried.
            hours = 1.1 * RESIZING_PERIOD / 3_600 if contender.name == "stock" else options.hours
            end = begun + hours * 3_600 / compression
            while time.monotonic() < end and any(
                each.enacted_at is None and not each.lost for each in kubelets.resizes.values()
            ):
                await asyncio.sleep(1.0)
                if task.done():
                    task.result()
            task.cancel()
        progress(f"  outcomes: {dict(run.outcomes)}")
        return _result(contender, kubelets, compression)


def _result(contender: Contender, kubelets: Kubelets, compression: float) -> Result:
    resizes = list(kubelets.resizes.values())
    waited = [resize for resize in resizes if resize.deferred_at]
    seconds = [
        compression * (resize.enacted_at - resize.requested_at)
        for resize in waited
        if resize.enacted_at is not None and resize.requested_at is not None
    ]
    # kube-scheduler deletes a pod before its replacement exists. Fake pods start too fast for a sample each second.
    fewer = sum(pod.rsplit("-", 2)[0] in kubelets.fewer_ready for pod in kubelets.ended)
    return Result(
        name=contender.name,
        enacted=sum(resize.enacted_at is not None for resize in resizes),
        deferred=len(waited),
        median_seconds=round(median(seconds)) if seconds else None,
        lost=sum(resize.lost for resize in resizes),
        ended=len(kubelets.ended),
        killed=len(kubelets.ended) if contender.name == PREEMPTION else fewer,
        unplaced=kubelets.unplaced,
    )


async def _placed(api: Api) -> list[Document]:
    """The pods of the Deployments, once each of them runs or fits on no node. The latter are removed again."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def settled(response: Any) -> bool:
        return bool(response["items"]) and all(_runs(pod) or _fits_nowhere(pod) for pod in response["items"])

    response = await api.wait(path, settled, timeout=300, what="all pods run or are unschedulable")
    pods = [pod for pod in response["items"] if pod["metadata"]["labels"]["app"] != DAEMON_SET]
    replicas = Counter(pod["metadata"]["labels"]["app"] for pod in pods if _runs(pod))
    for name in {pod["metadata"]["labels"]["app"] for pod in pods if not _runs(pod)}:
        deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        await api.patch(f"{deployment}/scale", {"spec": {"replicas": replicas[name]}})
    await api.wait(path, lambda response: all(_runs(pod) for pod in response["items"]), timeout=60, what="all pods run")
    return [pod for pod in pods if _runs(pod)]


def _runs(pod: Document) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _fits_nowhere(pod: Document) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--requested", type=float, default=0.95, help="share of the cores, as far as it fits")
    parser.add_argument("--resizes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between evaluations")
    parser.add_argument("--hours", type=float, default=6.0, help="uncompressed hours after which a run ends")
    names = [contender.name for contender in CONTENDERS]
    parser.add_argument("--runs", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    trace, start = await placed_trace(full_trace(options.seed, options.nodes, options.requested))
    stock: Result | None = None
    for contender in (each for each in CONTENDERS if each.name in options.runs):
        progress(f"{contender.name}: {len(trace.pods)} pods on {len(trace.nodes)} nodes")
        result = await run_contender(contender, trace, start, options)
        progress(f"  {result}")
        report(
            "make_room/enacted", 100 * result.enacted / options.resizes, "percent", run=result.name,
            baseline=None if stock is None else 100 * stock.enacted / options.resizes,
        )  # fmt: skip
        report("make_room/deferred", result.deferred, "resizes", run=result.name)
        if result.median_seconds is not None:
            report("make_room/median_wait", result.median_seconds, "seconds", run=result.name)
        report("make_room/ended", result.ended, "pods", run=result.name)
        report("make_room/unplaced", result.unplaced, "pods", run=result.name)
        report("make_room/killed", result.killed, "pods", target=("<=", 0), run=result.name)
        report("make_room/lost", result.lost, "resizes", target=("<=", 0), run=result.name)
        stock = stock or result


if __name__ == "__main__":
    asyncio.run(main())
