"""How a recording begins: looks how far back Prometheus goes and what runs where, and lays down what is read."""

import math
from statistics import median

from equipoise.collector.sources.samples import number
from equipoise.contracts.kubernetes.objects import OwnerReference
from equipoise.lab.record.checkpoint import RecordingPlan
from equipoise.lab.record.inventory import Inventory, inventory, owner_keys
from equipoise.lab.record.options import DAY, RecordError, RecordOptions
from equipoise.lab.record.owners import Key, WorkloadIndex, told
from equipoise.lab.record.progress import Shown
from equipoise.lab.record.prometheus import Prometheus, TooLarge
from equipoise.lab.record.queries import METRICS, PodMetrics, Series, least_samples, owners
from equipoise.lab.record.writer import moment
from equipoise.runtime.kubernetes.client import (
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    Forbidden,
    KubeError,
    NotFound,
    connect_kube,
)
from equipoise.runtime.process.clock import Clock

LOOKS = 168
"""Instants at which it is looked whether there are samples, before it is looked closer: the hours of a week."""


class Look:
    """Asks everything that is asked once. Every method raises RecordError when there is nothing to record."""

    def __init__(self, options: RecordOptions, prometheus: Prometheus, progress: Shown, clock: Clock) -> None:
        self._options = options
        self._step = options.step
        self._matchers = options.prometheus.matchers
        self._prometheus = prometheus
        self._progress = progress
        self._clock = clock

    async def beginning(self) -> RecordingPlan:
        """Whole steps only, and up to now."""
        self._progress.doing("looking how far back Prometheus goes")
        end = await self._prometheus.time() // self._step * self._step
        wanted = end - round(self._options.days * DAY / self._step) * self._step
        name, start, pods = await self._measured(wanted, end)
        least = least_samples(await self._usual_samples(METRICS[name], start, end))
        self._progress.doing("reading what runs where")
        found, known, controllers = await self._cluster()
        self._progress.doing("reading whose the pods of the past were")
        past = await self._past_owners(found, controllers, start, end)
        steps = round((end - start) / self._step)
        return RecordingPlan(
            step=self._step,
            days=self._options.days,
            matchers=self._matchers,
            metrics=name,
            starts_at=start,
            steps=steps,
            # A day at most: what is kept is not asked for again.
            steps_per_part=max(1, min(self._options.samples_per_query // max(1, pods), int(DAY // self._step), steps)),
            least_samples=least,
            inventory=found,
            owners=past | known,
            notes=(*self._young(wanted, start, end), *found.notes),
        )

    def _young(self, wanted: float, start: float, end: float) -> list[str]:
        if start == wanted:
            return []
        said = f"{(end - start) / DAY:.3g} of the {self._options.days:g} days asked for"
        note = f"Prometheus knows pods from {moment(start)} on, {said}"
        self._progress.note(note)
        return [note]

    async def _measured(self, start: float, end: float) -> tuple[str, float, int]:
        """Which of METRICS there are, since when, and of how many pods at most."""
        for name, metrics in METRICS.items():
            cpu = await self._since(metrics.pods("cpu", self._matchers), start, end)
            memory = await self._since(metrics.pods("memory", self._matchers), start, end) if cpu else None
            if cpu and memory:
                first = max(cpu[0], memory[0])
                if first >= end:
                    raise RecordError(f"Prometheus knows pods for less than a step of {self._step} s: wait for one")
                return name, first, cpu[1]
        tried = "; ".join(
            f"{' with '.join(metrics.names.values())} of {metrics.source}" for metrics in METRICS.values()
        )
        only = "".join(f", only {label}={value}" for label, value in self._matchers.items())
        raise RecordError(
            f"Prometheus at {self._options.prometheus.url} has no CPU and memory of pods in the last "
            f"{self._options.days:g} days (tried: {tried}{only}). Does it scrape the kubelets of this cluster?"
        )

    async def _since(self, text: str, start: float, end: float) -> tuple[float, int] | None:
        """The first instant of the steps' grid at which a count is there, and the most it was; None: it never is."""
        first, reach, most = end, end - start, 0.0
        while True:
            span = min(reach, first - start)
            apart = max(1, math.ceil(span / LOOKS / self._step)) * self._step
            # Counted back from the end: the newest samples may be all there are.
            points = await self._points(text, first - span // apart * apart, first, apart)
            if not points:
                return None
            first, reach, most = points[0][0], apart, max(most, *(value for _, value in points))
            if apart == self._step or first == start:
                return first, round(most)

    async def _usual_samples(self, metrics: PodMetrics, start: float, end: float) -> float:
        text = metrics.usual_samples(self._matchers, self._step)
        apart = max(1, math.floor((end - start) / 8 / self._step)) * self._step
        counts = [value for _, value in await self._points(text, start + self._step, end, apart)]
        usual = median(counts) if counts else 2.0
        if usual < 2:
            raise RecordError(
                f"a step of {self._step} s holds {usual:g} samples of a pod, and a rate needs two: ask for longer steps"
            )
        return usual

    async def _points(self, text: str, start: float, end: float, apart: float) -> list[tuple[float, float]]:
        """Of a query that has one series: times and values, the oldest first; what is no number is left out."""
        answer = await self._prometheus.matrix(text, start, end, apart)
        pairs = answer[0].values if answer else ()
        return [(float(at), value) for at, said in pairs if math.isfinite(value := number(said))]

    async def _cluster(self) -> tuple[Inventory, dict[str, int], dict[Key, Key]]:
        """What runs where, whose the pods are that the API server still has, and what owns ReplicaSets and Jobs."""
        controllers: dict[Key, OwnerReference | None] = {}
        try:
            async with connect_kube(self._options.kubernetes, "lab", self._clock) as kube:
                nodes, pods = await kube.list(NODES), await kube.list(PODS)
                for resource in (REPLICA_SETS, JOBS):
                    try:
                        for item in await kube.list(resource):
                            meta = item.metadata
                            controllers[meta.namespace, resource.kind, meta.name] = meta.controller
                    except (Forbidden, NotFound):
                        # The labels of pods tell their Deployment too; Jobs then stay Jobs.
                        self._progress.note(f"{resource.plural} cannot be listed: owners are told by labels and names")
        except KubeError as error:
            raise RecordError(
                f"the API server: {error}. To record, one has to be able to list nodes and pods"
            ) from error
        keys = owner_keys(pods, controllers)
        found = inventory(nodes, pods, keys)
        places = WorkloadIndex(found.workloads)
        above = {key: (key[0], owner.kind, owner.name) for key, owner in controllers.items() if owner is not None}
        return found, {pod: places.of(key) for pod, key in keys.items()}, above

    async def _past_owners(self, found: Inventory, above: dict[Key, Key], start: float, end: float) -> dict[str, int]:
        """By `namespace/pod`, as kube-state-metrics told it day by day; nothing where there is none of it."""
        pods: dict[Key, Key] = {}
        at = end
        while at > start:
            length = min(DAY, at - start)
            try:
                owned = told(await self._owned("kube_pod_owner", "pod", at, length), "Pod", "pod")
                sets = told(
                    await self._owned("kube_replicaset_owner", "replicaset", at, length), "ReplicaSet", "replicaset"
                )
            except TooLarge as error:
                self._progress.note(f"earlier pods are known by their names only: {error}")
                break
            if not owned:
                break
            pods, above = owned | pods, sets | above
            at -= length
        places = WorkloadIndex(found.workloads)
        return {f"{namespace}/{name}": places.above(owner, above) for (namespace, _, name), owner in pods.items()}

    async def _owned(self, metric: str, label: str, at: float, length: float) -> list[Series]:
        return await self._prometheus.vector(owners(metric, label, self._matchers, length), at)
