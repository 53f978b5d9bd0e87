"""Runs rounds: queries the source about the current nodes and pods, keeps the readings, and makes messages of them."""

import asyncio
import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from equipoise.collector.decisions.expected_nodes import not_yet_expected, unmeasurable
from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.other_cluster import nodes_of_another_cluster, pods_of_another_cluster
from equipoise.collector.decisions.pod_times import unix_seconds
from equipoise.collector.decisions.query import NodeMatcher, ResourceName, SourceError, Subject
from equipoise.collector.decisions.recent_usage import has_new_pods, recent_length, recent_usage
from equipoise.collector.decisions.replica_means import MeasuredPod, WorkloadRound, replica_means
from equipoise.collector.decisions.scrape_choice import Scrapes, jobs_of
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.divided_queries import DividedQueries
from equipoise.collector.shell.intervals import KnownIntervals
from equipoise.collector.shell.pressure_measurement import PressureMeasurement
from equipoise.collector.shell.rounds import measure_nodes, measure_pods, recent_samples
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.further_usage import FurtherUsage
from equipoise.collector.state.known_jobs import KnownJobs
from equipoise.collector.state.other_shards import OtherShards, PublishedPods
from equipoise.collector.state.placement import ClusterPlacement, PodName, TrackedPod, amounts
from equipoise.collector.state.pressure import PressureStore
from equipoise.collector.state.utilization import UtilizationStore
from equipoise.collector.state.workloads import WorkloadStore
from equipoise.contracts.bounds import MAX_AHEAD
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.nodes.raw_allocatable import base_of
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, drain, in_batches, in_thread_if_many
from equipoise.runtime.process.clock import Clock

_RECENT = "recent usage"
"""Key of its problem, beside the names of windows."""


@dataclass(kw_only=True)
class Measurement:
    """What has been measured so far, and the messages about it."""

    settings: CollectorSettings
    load: LoadSettings
    source: MetricSource
    placement: ClusterPlacement
    clock: Clock
    known_nodes: Callable[[], Iterable[str]] = tuple
    """Names of other nodes of the cluster, which another collector measures."""

    owns: Callable[[str], bool] | None = None
    """Whether a node is in a shard of this replica, so that it is measured; None: all are."""

    def __post_init__(self) -> None:
        self._utilization = UtilizationStore(self.load)
        self.further = FurtherUsage(self.load)
        self.workload_store = WorkloadStore(
            load=self.load,
            slot=self.settings.profile.day / SLOTS,
            weight=self.settings.profile.weight,
            recent_limit=self.settings.pod_window_limit,
        )
        self.intervals = KnownIntervals(
            configured=self.settings.scrape_interval, load=self.load, source=self.source, placement=self.placement
        )
        self.pressure = PressureMeasurement(
            source=self.source,
            enabled=self.settings.pressure,
            store=PressureStore(self.load.lifetime(self.load.shortest)),
            load=self.load,
        )
        self.other_shards = OtherShards(self.load.lifetime(self.load.shortest))
        self.divided = DividedQueries(
            source=self.source, length=self.load.shortest.length, period=self.load.longest.refresh_period
        )
        self._scrapes: dict[Subject, dict[ResourceName, Scrapes]] = {"node": {}, "pod": {}}
        self._jobs: dict[Subject, KnownJobs] = {
            subject: KnownJobs(period=self.load.longest.refresh_period, period_while_missing=self.load.shortest.length)
            for subject in self._scrapes
        }
        self._problems: dict[str, str] = {}
        self._outage = ""
        self._other_nodes = self._other_pods = ""

        self.pods_problem = ""
        """Why no pod is measured though the source responds; empty when one is."""

        self.skew = 0.0
        """The source's clock minus ours, in seconds."""

    @property
    def problem(self) -> str:
        """What went wrong in the last round of each window; empty when nothing did."""
        return "; ".join(dict.fromkeys(self._problems.values()))

    @property
    def undivided(self) -> str:
        """Why queries are about the nodes of all shards; empty if none is, or if there is one shard."""
        return "; ".join(filter(None, (self.divided.problem, self.pressure.undivided)))

    @property
    def other_cluster(self) -> str:
        """Why the source measures another cluster: nothing is recorded or published meanwhile."""
        return self._other_nodes or self._other_pods

    @property
    def outage(self) -> str:
        """Why nothing can be measured at all; empty when something is. Subscribers then neither score nor evict."""
        return f"{self._skew_text}: every value is unknown" if self._too_skewed else self._outage

    @property
    def _too_skewed(self) -> bool:
        return abs(self.skew) > min(self.load.freshness.skew_unknown, MAX_AHEAD)

    @property
    def clock_warning(self) -> str | None:
        """A warning while the ages of samples are noticeably wrong; else None."""
        noticeable = abs(self.skew) > self.load.freshness.skew_warning
        return f"{self._skew_text}: check time synchronization" if noticeable else None

    @property
    def _skew_text(self) -> str:
        return f"the clock of {self.settings.source} differs by {self.skew:+.1f} s from ours"

    async def round(self, window: Window) -> bool:
        """Measure one window. False: a query failed; its older values are kept, and `problem` has the reason."""
        outage, failures = "", list[str]()
        try:
            at = await self._source_time()
            # With a wrong time nothing is measured: subscribers would drop it, or it would look fresh for too long.
            self._utilization.start_round(self.clock.now() if self._too_skewed else at)
            if self._too_skewed:
                outage = self.outage
            else:
                await self.intervals.refresh(at, self._scrapes["node"])
                await self.find_labels(at, self._own_nodes())
                outage, failures = await self._measure_nodes(window, at)
                if window == self.load.shortest:
                    failures += await self._measure_pods(at)
                outage = outage or self.other_cluster
        except SourceError as error:
            outage = str(error)
        failure = outage or next(iter(failures), "")
        if failure:
            self._problems[window.name] = f"{self.settings.source_and_address}: {failure}"
        else:
            self._problems.pop(window.name, None)
        if window.name == self.load.shortest.name:
            self._outage = outage and f"{self.settings.source_and_address}: {outage}"
        return not failure

    async def _source_time(self) -> float:
        """Now on the source's clock.

        The source read its clock at some time between our request and the arrival of its response, so the skew lies
        between the reported time minus ours at the arrival, and minus ours at the request. The known skew changes only
        as far as these bounds require, because those of a slow response are wide.
        """
        requested_at = self.clock.now()
        reported = await self.source.time()
        self.skew = max(reported - self.clock.now(), min(self.skew, reported - requested_at))
        return self.source_now()

    async def find_labels(self, at: float, nodes: Collection[str]) -> None:
        """Searches for the labels by which queries are divided, if that is due for these nodes."""
        if self.owns is not None:
            names, cluster = self.placement.addresses.names, self.cluster_nodes()
            await self.divided.refresh(at, nodes, names, cluster, self._scrapes)

    def source_now(self) -> float:
        return self.clock.now() + self.skew

    def _own_nodes(self) -> dict[str, Node]:
        """The nodes that this replica measures, by name."""
        nodes, owns = self.placement.nodes, self.owns
        return dict(nodes) if owns is None else {name: node for name, node in nodes.items() if owns(name)}

    def cluster_nodes(self) -> set[str]:
        return {*self.placement.nodes, *self.known_nodes(), *self.placement.removed}

    def _divided_cluster(self) -> set[str] | None:
        """The nodes of the cluster if queries are divided; None: they are about all nodes."""
        return None if self.owns is None else self.cluster_nodes()

    def criteria(self, window: Window, at: float, subject: Subject, nodes: Iterable[str] = ()) -> WindowCriteria:
        """The criteria for the samples of a window that ends at `at`. The queries are limited to these nodes if they
        can be."""
        intervals = self.intervals.of_nodes if subject == "node" else self.intervals.of_pods
        matcher, jobs = self.divided.matcher(subject, nodes)
        return criteria_of(
            self.load,
            window,
            at,
            intervals,
            self.placement.addresses.names,
            scrapes=self._scrapes[subject],
            jobs=jobs or self._jobs[subject].current,
            nodes=matcher,
        )

    async def _measure_nodes(self, window: Window, at: float) -> tuple[str, list[str]]:
        """Why nothing was measured, if nothing was, and which queries failed."""
        nodes = self._own_nodes()
        begin = at - window.length
        targets: dict[str, MeasurementTarget] = {}
        new: dict[str, MeasurementTarget] = {}
        async for batch in in_batches(nodes.items(), NODES_PER_BATCH):
            targets |= {name: node_target(node, at, has_pods=self._had_pods(name, begin)) for name, node in batch}
            if window == self.load.shortest:
                new |= {name: targets[name] for name, _ in batch if self._has_new_pods(name, begin)}
        statistics = self.settings.statistics if window.length <= self.settings.statistics_window_limit else ()
        criteria = self.criteria(window, at, "node", nodes)
        length = recent_length(self.intervals.of_nodes.default, window.length) if new else 0.0
        measured, (recent, recent_failed) = await asyncio.gather(
            measure_nodes(self.source, targets, criteria, statistics),
            recent_samples(self.source, length, at, criteria.jobs, criteria.nodes),
        )
        missing = {
            name
            for readings in measured.readings.values()
            for name, reading in readings.items()
            if reading.unknown is not None and reading.unknown.reason == "no sample"
        }
        if criteria.nodes is not None:
            self._other_nodes = ""  # else the queries would not be divided
            self.divided.on_missing(missing)
        else:
            self._scrapes["node"] |= measured.scrapes
            jobs = jobs_of(measured.scrapes)
            self._jobs["node"].on_round(jobs, at, missing=bool(missing), failed=bool(measured.failed))
            if nodes:
                self._other_nodes = nodes_of_another_cluster(measured.sampled, self.cluster_nodes())
        if self.other_cluster:
            return self.other_cluster, []
        for resource, readings in measured.readings.items():
            by_uid = {nodes[name].metadata.uid: reading for name, reading in readings.items()}
            self._utilization.record(window, resource, by_uid, at)
        if window == self.load.shortest:
            self._problems.pop(_RECENT, None)
            if recent_failed:
                resource, why = min(recent_failed.items())
                self._problems[_RECENT] = (
                    f"{self.settings.source_and_address}: {resource} of nodes in the last scrapes: {why}"
                )
            uids = {name: node.metadata.uid for name, node in nodes.items()}
            await self.pressure.measure_nodes(targets, uids, criteria, self._divided_cluster())
            recently = recent_usage(new, recent, measured.readings, criteria.names, measured.scrapes)
            self._utilization.record_recent({nodes[name].metadata.uid: used for name, used in recently.items()}, length)
        self._utilization.retain(node.metadata.uid for node in self._own_nodes().values())
        failures = [f"{resource} of nodes: {why}" for resource, why in measured.failed.items()]
        if measured.unknown_node and criteria.nodes is None and not measured.sampled & self.placement.nodes.keys():
            return f"no series names a node of this cluster; one has {measured.unknown_node}", failures
        return ("" if measured.readings else next(iter(failures), "")), failures

    async def _measure_pods(self, at: float) -> list[str]:
        """Which queries failed."""
        own = self._own_nodes()
        capacities = {name: amounts(node.status.capacity) for name, node in own.items()}
        targets: dict[PodName, MeasurementTarget] = {}
        tracked: dict[PodName, TrackedPod] = {}
        async for nodes in in_batches(capacities, NODES_PER_BATCH):
            for node in nodes:
                for pod in self.placement.tracked(node):
                    if (since := pod.placed.running_since) is not None:
                        name = (pod.placed.namespace, pod.placed.name)
                        targets[name] = MeasurementTarget(since=since, capacity=capacities[node], node=node)
                        tracked[name] = pod
        criteria = self.criteria(self.load.shortest, at, "pod", own)
        measured = await measure_pods(self.source, targets, criteria)
        settled = sum(target.since <= at - criteria.length for target in targets.values())
        if criteria.nodes is not None:
            with_pods = {target.node for target in targets.values()}
            self.divided.on_missing(with_pods - {targets[name].node for name in measured.usage})
        else:
            self._scrapes["pod"] |= measured.scrapes
            missing = len(measured.usage) < len(targets)
            self._jobs["pod"].on_round(jobs_of(measured.scrapes), at, missing=missing, failed=bool(measured.failed))
        others, elsewhere = await self._pods_of_other_shards(own, measured.sampled)
        if not self.settings.node_selector:  # else the pods of other nodes are not known here
            known = (tracked, self.placement.departed, elsewhere)
            of_this_cluster = [name for name in measured.sampled if any(name in names for names in known)]
            self._other_pods = pods_of_another_cluster(
                measured.sampled, frozenset(of_this_cluster), measured=len(measured.usage), settled=settled
            )
        if self.other_cluster:
            return []
        uids = {name: pod.placed.uid for name, pod in tracked.items()}
        await self.pressure.measure_pods(targets, uids, criteria, self._divided_cluster())
        if measured.usage or not measured.failed:
            sample_times = {
                name: self._utilization.sampled_at(node.metadata.uid) for name, node in self.placement.nodes.items()
            }
            by_uid, published, finished = await in_thread_if_many(
                len(targets) + len(others),
                self._evaluate_pods, measured.usage, tracked, targets, sample_times, others, at,
            )  # fmt: skip
            usage = self._utilization.record_pods(by_uid, at, measured.failed.keys())
            self.placement.record_usage(usage, *([] if self.owns is None else [published]))
            if not measured.failed:  # a mean without one resource would count as a complete one
                self.workload_store.record(finished)
        self.pods_problem = (
            f"none of {settled} pods has enough samples in {self.load.shortest.name}: does Prometheus scrape them as "
            "often as collector.scrapeInterval is set, and for long enough?"
            if measured.supported and settled and not measured.usage and not measured.failed
            else ""
        )
        await in_thread_if_many(len(targets), drain, targets, tracked)
        return [f"{resource} of pods: {why}" for resource, why in measured.failed.items()]

    async def _pods_of_other_shards(
        self, own: Container[str], sampled: Container[PodName]
    ) -> tuple[list[tuple[TrackedPod, PublishedPods]], set[PodName]]:
        """The measured pods of other shards, each with the message about its node; and the names of all pods of other
        shards that are among these."""
        pods: list[tuple[TrackedPod, PublishedPods]] = []
        names: set[PodName] = set()
        if self.owns is None:
            return pods, names
        now = self.source_now()
        self.other_shards.retain(self.placement.nodes)
        others = [(name, node.metadata.uid) for name, node in self.placement.nodes.items() if name not in own]
        async for batch in in_batches(others, NODES_PER_BATCH):
            for node, uid in batch:
                published = self.other_shards.pods(node, uid, now)
                for pod in self.placement.tracked(node):
                    if (name := (pod.placed.namespace, pod.placed.name)) in sampled:
                        names.add(name)
                    if published is not None and pod.placed.uid in published.pods:
                        pods.append((pod, published))
        return pods, names

    def _has_new_pods(self, node: str, since: float) -> bool:
        return has_new_pods([tracked.placed for tracked in self.placement.tracked(node)], since)

    def _had_pods(self, node: str, since: float) -> bool:
        """True when a pod has run there since then."""
        return any((pod.placed.running_since or math.inf) <= since for pod in self.placement.tracked(node))

    def _evaluate_pods(
        self,
        usage: Mapping[PodName, Resources],
        tracked: Mapping[PodName, TrackedPod],
        targets: Mapping[PodName, MeasurementTarget],
        sample_times: Mapping[str, float | None],
        others: Iterable[tuple[TrackedPod, PublishedPods]],
        at: float,
    ) -> tuple[dict[str, Resources], dict[str, Resources], WorkloadRound]:
        """Usage by UID, that of other shards, and the workloads' round. Changes nothing: other tasks run meanwhile.

        `sample_times`: the time of the newest raw sample of each node; `others`: the pods of other shards.
        """
        workload_of = self.placement.workload_lookup()
        by_uid: dict[str, Resources] = {}
        owned: list[MeasuredPod] = []
        for name, used in usage.items():
            pod = tracked[name]
            used = self.further.with_further(used, pod.placed.uid, at)  # noqa: PLW2901
            by_uid[pod.placed.uid] = used
            # The age of a pod's usage is that of its node's newest sample; without one it is unknown.
            sampled_at, workload = sample_times.get(targets[name].node), workload_of(pod.pod)
            if workload is not None and sampled_at is not None:
                owned.append(MeasuredPod(workload=workload, usage=used, sampled_at=sampled_at))
        elsewhere: dict[str, Resources] = {}
        for pod, published in others:
            elsewhere[pod.placed.uid] = used = published.pods[pod.placed.uid]
            if (workload := workload_of(pod.pod)) is not None:
                owned.append(MeasuredPod(workload=workload, usage=used, sampled_at=published.sampled_at))
        return by_uid, elsewhere, self.workload_store.with_means(replica_means(owned), at)

    def node_messages(self, names: Iterable[str], *, epoch: int, sequence: int) -> list[NodeUtilization]:
        """The current messages of these nodes; none for a node without any sample, or of another cluster."""
        if self.other_cluster:
            return []
        now, messages = self.source_now(), list[NodeUtilization]()
        for name in names:
            if (node := self.placement.nodes.get(name)) is not None:
                pods = [tracked.placed for tracked in self.placement.tracked(name)]
                base = amounts(base_of(node, self.load.base))
                left_at = self.placement.left_at(name)
                if message := self._utilization.message(
                    node, base, pods, now, left_at=left_at, epoch=epoch, sequence=sequence
                ):
                    pressure = self.pressure.store.message(message.uid, pods, now)
                    message = msgspec.structs.replace(message, pressure=pressure) if pressure else message
                    messages.append(self.further.message(message, node.metadata.labels, now))
        return messages

    async def cycle(
        self, names: Iterable[str], *, shard: str, number: int
    ) -> tuple[UtilizationCycle, dict[str, UnknownUsage]]:
        """The end of a round: how many of these nodes are expected to have data, and why some have none."""
        now, expected = self.source_now(), 0
        unknown: dict[str, UnknownUsage] = {}
        async for batch in in_batches(sorted(names), NODES_PER_BATCH):
            for name in batch:
                node = self.placement.nodes.get(name)
                if node is None or not_yet_expected(node, self.clock.now(), self.load.coverage.node_settling_period):
                    continue
                why = self._utilization.why_unknown(node.metadata.uid, now)
                if why is None or not unmeasurable(node, self.settings.unmeasured_nodes):
                    expected += 1
                    if why is not None:
                        unknown[name] = why
        cycle = self._utilization.cycle(
            expected, unknown, shard=shard, cycle=number, skew=self.skew, problem=self.outage
        )
        return cycle, unknown

    def incomplete(self, names: Iterable[str]) -> dict[str, UnknownUsage]:
        """Why a resource of these nodes is unknown in the shortest window, by node."""
        nodes = ((name, node) for name in names if (node := self.placement.nodes.get(name)) is not None)
        found = ((name, self._utilization.why_incomplete(node.metadata.uid)) for name, node in nodes)
        return {name: why for name, why in found if why is not None}


def criteria_of(
    load: LoadSettings,
    window: Window,
    at: float,
    intervals: ScrapeIntervals,
    names: NodeNames,
    *,
    scrapes: Mapping[ResourceName, Scrapes] | None = None,
    jobs: tuple[str, ...] = (),
    nodes: NodeMatcher | None = None,
) -> WindowCriteria:
    """The criteria for the samples of a window that ends at `at`."""
    return WindowCriteria(
        at=at,
        length=window.length,
        coverage=load.coverage.window,
        max_age=load.lifetime(window),
        lookback=max(load.freshness.score, load.shortest.length),
        intervals=intervals,
        names=names,
        scrapes=scrapes or {},
        jobs=jobs,
        nodes=nodes,
    )


def node_target(node: Node, at: float, *, has_pods: bool = False) -> MeasurementTarget:
    """What is measured of a node at this time. A creation time in the future, set by a clock that was ahead, is not
    used."""
    since = unix_seconds(node.metadata.creation_timestamp) or 0.0
    if since > at + MAX_AHEAD:
        since = 0.0
    return MeasurementTarget(since=since, capacity=amounts(node.status.capacity), has_pods=has_pods)
