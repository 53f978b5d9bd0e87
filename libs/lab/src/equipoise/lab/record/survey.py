"""Plans a recording: how far back Prometheus has data, which pods run where, and what is read."""

import math
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from equipoise.collector.sources.prometheus.client import PrometheusClient
from equipoise.collector.sources.prometheus.http import QueryTooLarge
from equipoise.collector.sources.prometheus.samples import number
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.unreadable.known_amounts import node_with_known_amounts, with_known_amounts
from equipoise.lab.record.checkpoint import RecordingPlan
from equipoise.lab.record.inventory import Inventory, inventory, owner_keys
from equipoise.lab.record.options import DAY, RecordError, RecordOptions, utc
from equipoise.lab.record.owners import Key, WorkloadIndex, owners_of
from equipoise.lab.record.progress import RecordProgress
from equipoise.lab.record.prometheus import matrix_of, vector_of
from equipoise.lab.record.queries import METRICS, Series, UsageMetrics, min_samples, owners_query
from equipoise.runtime.kubernetes.client import BUDGETS, JOBS, NODES, PODS, REPLICA_SETS, Forbidden, KubeError, NotFound
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock

PROBES = 168
"""Number of steps of a search for the oldest sample, before it continues with smaller steps: the hours of a week."""


@dataclass
class Survey:
    """The queries that precede a recording. Methods raise RecordError when there is nothing to record."""

    options: RecordOptions
    prometheus: PrometheusClient
    progress: RecordProgress
    clock: Clock

    def __post_init__(self) -> None:
        self._step = self.options.step
        self._matchers = self.options.prometheus.matchers

    async def plan(self) -> RecordingPlan:
        """The plan of the recording, in whole steps up to now."""
        self.progress.set_activity("finding the oldest samples in Prometheus")
        end = await self.prometheus.time(retry=False) // self._step * self._step
        requested = end - round(self.options.days * DAY / self._step) * self._step
        metrics, start, pods = await self._measured(requested, end)
        minimum = min_samples(await self._usual_samples(METRICS[metrics], start, end))
        self.progress.set_activity("reading nodes and pods from the API server")
        cluster, current_owners, controllers = await self._cluster()
        self.progress.set_activity("reading the owners of past pods")
        past_owners = await self._past_owners(cluster, controllers, start, end)
        steps = round((end - start) / self._step)
        notes = list(cluster.notes)
        if start != requested:
            recorded = f"{(end - start) / DAY:.3g} of the {self.options.days:g} requested days"
            notes.insert(0, f"Prometheus has data of pods since {utc(start)}: {recorded}")
            self.progress.note(notes[0])
        return RecordingPlan(
            step=self._step,
            days=self.options.days,
            matchers=self._matchers,
            metrics=metrics,
            starts_at=start,
            steps=steps,
            # At most one day, so that an interrupted recording repeats little: stored parts are not queried again.
            steps_per_part=max(1, min(self.options.samples_per_query // max(1, pods), int(DAY // self._step), steps)),
            min_samples=minimum,
            inventory=cluster,
            owners=past_owners | current_owners,
            notes=tuple(notes),
        )

    async def _measured(self, start: float, end: float) -> tuple[str, float, int]:
        """The name of the first of METRICS with data, the time of its oldest sample, and the maximum number of pods."""
        for name, metrics in METRICS.items():
            cpu = await self._since(metrics.pods("cpu", self._matchers), start, end)
            memory = await self._since(metrics.pods("memory", self._matchers), start, end) if cpu else None
            if cpu and memory:
                first = max(cpu[0], memory[0])
                if first >= end:
                    raise RecordError(
                        f"Prometheus has data of pods for less than one step of {self._step} s: retry later"
                    )
                return name, first, cpu[1]
        tried = "; ".join(
            f"{' with '.join(metrics.names.values())} of {metrics.source}" for metrics in METRICS.values()
        )
        only = "".join(f", only {label}={value}" for label, value in self._matchers.items())
        raise RecordError(
            f"Prometheus at {self.options.prometheus.shown_url} has no CPU and memory of pods in the last "
            f"{self.options.days:g} days (tried: {tried}{only}). Does it scrape the kubelets of this cluster?"
        )

    async def _since(self, text: str, start: float, end: float) -> tuple[float, int] | None:
        """The time of the first step at which the query counts any pods, and the maximum count; None without any.

        Each pass searches the time before the first count so far with smaller steps than the pass before.
        """
        first, searched, highest = end, end - start, 0.0
        while True:
            span = min(searched, first - start)
            spacing = max(1, math.ceil(span / PROBES / self._step)) * self._step
            # Backwards from the end: there may be only recent samples.
            points = await self._points(text, first - span // spacing * spacing, first, spacing)
            if not points:
                return None
            first, searched, highest = points[0][0], spacing, max(highest, *(value for _, value in points))
            if spacing == self._step or first == start:
                return first, round(highest)

    async def _usual_samples(self, metrics: UsageMetrics, start: float, end: float) -> float:
        text = metrics.usual_samples(self._matchers, self._step)
        spacing = max(1, math.floor((end - start) / 8 / self._step)) * self._step
        counts = [value for _, value in await self._points(text, start + self._step, end, spacing)]
        usual = median(counts) if counts else 2.0
        if usual < 2:
            raise RecordError(
                f"a step of {self._step} s has {usual:g} samples per pod, and a rate needs two: use longer steps"
            )
        return usual

    async def _points(self, text: str, start: float, end: float, spacing: float) -> list[tuple[float, float]]:
        """Times and values of a query with one series, oldest first, without values that are not numbers."""
        series = await self.prometheus.query_range(text, matrix_of, start=start, end=end, step=spacing)
        pairs = series[0].values if series else ()
        return [(float(at), value) for at, text in pairs if math.isfinite(value := number(text))]

    async def _cluster(self) -> tuple[Inventory, dict[str, int], dict[Key, Key]]:
        """The inventory, the workloads of existing pods, and the owners of ReplicaSets and Jobs."""
        controllers: dict[Key, OwnerReference | None] = {}
        try:
            async with connect_kube(self.options.kubernetes, "lab", self.clock) as kube:
                nodes = [node_with_known_amounts(node) for node in await kube.list(NODES)]
                pods = [with_known_amounts(pod) for pod in await kube.list(PODS)]
                for resource in (REPLICA_SETS, JOBS):
                    try:
                        for item in await kube.list(resource):
                            meta = item.metadata
                            controllers[meta.namespace, resource.kind, meta.name] = meta.controller
                    except (Forbidden, NotFound):
                        # Labels of pods lead to their Deployments. A Job counts as a workload instead of its CronJob.
                        self.progress.note(
                            f"{resource.plural} cannot be listed: owners are derived from labels and names"
                        )
                budgets: list[PodDisruptionBudget] | None = None
                with suppress(Forbidden, NotFound):  # a note of the inventory states that they are missing
                    budgets = await kube.list(BUDGETS)
        except KubeError as error:
            raise RecordError(
                f"the API server: {error}. Recording requires permission to list nodes and pods"
            ) from error
        for plural, values in (("nodes", nodes), ("pods", pods)):
            for meta in (item.metadata for item in values if item.metadata.unreadable):
                name = "/".join(filter(None, (meta.namespace, meta.name)))
                self.progress.note(f"omitted: {plural} {name} cannot be read: {meta.unreadable}")
        nodes = [node for node in nodes if not node.metadata.unreadable]
        pods = [pod for pod in pods if not pod.metadata.unreadable]
        keys = owner_keys(pods, controllers)
        cluster = inventory(nodes, pods, keys, budgets)
        index = WorkloadIndex(cluster.workloads)
        owners = {key: (key[0], owner.kind, owner.name) for key, owner in controllers.items() if owner is not None}
        return cluster, {pod: index.of(key) for pod, key in keys.items()}, owners

    async def _past_owners(
        self, cluster: Inventory, controllers: dict[Key, Key], start: float, end: float
    ) -> dict[str, int]:
        """Workload indexes by `namespace/pod`, as kube-state-metrics reported them day by day; empty without it."""
        pods: dict[Key, Key] = {}
        at = end
        while at > start:
            length = min(DAY, at - start)
            try:
                owned = owners_of(await self._owned("kube_pod_owner", "pod", at, length), "Pod", "pod")
                sets = owners_of(
                    await self._owned("kube_replicaset_owner", "replicaset", at, length), "ReplicaSet", "replicaset"
                )
            except QueryTooLarge as error:
                self.progress.note(f"owners of earlier pods are derived from their names: {error}")
                break
            if not owned:
                break
            pods, controllers = owned | pods, sets | controllers
            at -= length
        index = WorkloadIndex(cluster.workloads)
        return {
            f"{namespace}/{name}": index.of_owner(owner, controllers) for (namespace, _, name), owner in pods.items()
        }

    async def _owned(self, metric: str, label: str, at: float, length: float) -> list[Series]:
        return await self.prometheus.query(owners_query(metric, label, self._matchers, length), vector_of, at=at)
