"""Carries out rounds: asks the source about the nodes and pods of this moment and keeps what it says."""

import math
from collections.abc import Collection, Iterable, Mapping

from equipoise.collector.decisions.expected_nodes import not_yet_expected, unmeasurable
from equipoise.collector.decisions.query import SourceError
from equipoise.collector.decisions.sample_validation import Criteria, Doubt, Intervals, Known
from equipoise.collector.decisions.utilization import MeasuredNode, Utilization
from equipoise.collector.decisions.workload_means import MeasuredPod, fold
from equipoise.collector.decisions.workloads import SLOTS, Heard, Workloads
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.batching import NODES_AT_ONCE, aside, emptied
from equipoise.collector.shell.profile_learning import Days
from equipoise.collector.shell.rounds import find_intervals, measure_nodes, measure_pods
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.placement import Fleet, PodName, Tracked, amounts
from equipoise.collector.state.pod_times import seconds
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects import Node
from equipoise.contracts.kubernetes.raw_allocatable import base_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.async_tools.batching import in_batches
from equipoise.runtime.process.clock import Clock


class Measuring:
    """What the source has said so far, and what is to be told of it."""

    def __init__(
        self, *, settings: CollectorSettings, load: LoadSettings, source: MetricSource, fleet: Fleet, clock: Clock
    ) -> None:
        self._settings = settings
        self._load = load
        self._source = source
        self._fleet = fleet
        self._clock = clock
        self._utilization = Utilization(load)
        self._workloads = Workloads(
            load=load,
            slot=settings.profile.day / SLOTS,
            weight=settings.profile.weight,
            remembered=settings.pods_limit,
        )
        self._intervals = Intervals(usual=settings.scrape_interval)
        self._pod_intervals = self._intervals
        self._intervals_at: float | None = None
        self.days = Days(
            settings=settings,
            coverage=load.coverage.window,
            source=source,
            fleet=fleet,
            workloads=self._workloads,
            now=self.source_now,
            intervals=lambda: self._pod_intervals,
        )
        self._problems: dict[str, str] = {}
        self._blind = ""
        self.no_pods = ""
        """Why nothing is known of any pod though there are answers; empty when something is."""

        self.skew = 0.0
        """The source's clock minus ours, in seconds."""

    @property
    def problem(self) -> str:
        """What went wrong in the last round of each window, as people read it; empty when nothing did."""
        return "; ".join(dict.fromkeys(self._problems.values()))

    @property
    def blindness(self) -> str:
        """What keeps us from measuring at all; empty while something is measured. Readers hold still for it."""
        if abs(self.skew) > self._load.freshness.skew_unknown:
            return f"{self._settings.source}: its clock differs by {self.skew:+.1f} s from ours: every value is unknown"
        return self._blind

    @property
    def clock_warning(self) -> str | None:
        """Said while ages are noticeably wrong."""
        if abs(self.skew) <= self._load.freshness.skew_warning:
            return None
        return (
            f"the clock of {self._settings.source} differs by {self.skew:+.1f} s from ours: check time synchronisation"
        )

    async def round(self, window: Window) -> bool:
        """Measure one window. False: not everything was answered; older values stay, and `problem` says why."""
        blind, failures = "", list[str]()
        try:
            at = await self._source_time()
            await self._find_intervals(at)
            blind, failures = await self._measure_nodes(window, at)
            if window == self._load.shortest:
                failures += await self._measure_pods(at)
        except SourceError as error:
            blind = str(error)
        failure = blind or next(iter(failures), "")
        if failure:
            self._problems[window.name] = f"{self._settings.source}: {failure}"
        else:
            self._problems.pop(window.name, None)
        if window.name == self._load.shortest.name:
            self._blind = blind and f"{self._settings.source}: {blind}"
        return not failure

    async def _source_time(self) -> float:
        """Now on the source's clock.

        It said its time at some moment between our asking and its answer, so the skew lies between the two; a slow
        answer tells little and moves what is known of the skew no further than it must.
        """
        asked = self._clock.now()
        told = await self._source.time()
        self.skew = max(told - self._clock.now(), min(self.skew, told - asked))
        return self.source_now()

    def source_now(self) -> float:
        return self._clock.now() + self.skew

    async def _find_intervals(self, at: float) -> None:
        due = self._intervals_at is None or at - self._intervals_at >= self._load.longest.refresh_period
        if self._settings.scrape_interval is None and (due or self._intervals.usual is None):
            try:
                found = await find_intervals(self._source, self._load.shortest.length, at)
            except SourceError:
                if self._intervals.usual is None:
                    raise
                self._intervals_at = at  # the ones of before still hold, of nodes and of pods
                return
            # Right after the source's restart there may be none to be seen: the ones of before still hold.
            if found.usual is not None:
                self._intervals, self._intervals_at = found, at
                self._pod_intervals = await self._find_pod_intervals(at) or found

    async def _find_pod_intervals(self, at: float) -> Intervals | None:
        """None: they are not known apart from those of the nodes."""
        try:
            found = await find_intervals(self._source, self._load.shortest.length, at, "pod")
        except SourceError:
            found = self._pod_intervals
        return found if found.usual is not None else None

    async def _measure_nodes(self, window: Window, at: float) -> tuple[str, list[str]]:
        """Why nothing was measured, if nothing was, and which questions failed."""
        nodes = dict(self._fleet.nodes)
        begun = at - window.length
        known: dict[str, Known] = {}
        async for some in in_batches(nodes.items(), NODES_AT_ONCE):
            known |= {name: known_node(node, busy=self._busy(name, begun)) for name, node in some}
        statistics = self._settings.statistics if window.length <= self._settings.statistics_limit else ()
        found = await measure_nodes(
            self._source, known, criteria_of(self._load, window, at), self._intervals, statistics
        )
        for resource, readings in found.readings.items():
            by_uid = {nodes[name].metadata.uid: reading for name, reading in readings.items()}
            self._utilization.record(window, resource, by_uid, at)
        self._utilization.keep(node.metadata.uid for node in self._fleet.nodes.values())
        failures = [f"{resource} of nodes: {why}" for resource, why in found.failed.items()]
        if found.strangers:
            return f"no series names a node of this cluster; one has {found.strangers}", failures
        return ("" if found.readings else next(iter(failures), "")), failures

    async def _measure_pods(self, at: float) -> list[str]:
        """Which questions failed."""
        ceilings = self._fleet.capacities()
        known: dict[PodName, Known] = {}
        tracked: dict[PodName, Tracked] = {}
        async for nodes in in_batches(ceilings, NODES_AT_ONCE):
            for node in nodes:
                for pod in self._fleet.tracked(node):
                    if (since := pod.placed.running_since) is not None:
                        name = (pod.placed.namespace, pod.placed.name)
                        known[name] = Known(since=since, ceiling=ceilings[node], node=node)
                        tracked[name] = pod
        criteria = criteria_of(self._load, self._load.shortest, at)
        found = await measure_pods(self._source, known, criteria, self._pod_intervals)
        if found.usage or not found.failed:
            by_uid, heard = await aside(len(known), self._heard, found.usage, tracked, known, self._sampled(), at)
            self._fleet.measured(self._utilization.record_pods(by_uid, at, found.failed.keys()))
            if not found.failed:  # half a mean would be remembered as a whole one
                self._workloads.record(heard)
        settled = sum(each.since <= at - criteria.length for each in known.values())
        self.no_pods = (
            f"of {settled} pods none has enough samples in {self._load.shortest.name}: does Prometheus scrape them as "
            "often as collector.scrapeInterval says, and long enough?"
            if found.asked and settled and not found.usage and not found.failed
            else ""
        )
        await aside(len(known), emptied, known, tracked)
        return [f"{resource} of pods: {why}" for resource, why in found.failed.items()]

    def _busy(self, node: str, since: float) -> bool:
        """Have pods run there all the time?"""
        return any((each.placed.running_since or math.inf) <= since for each in self._fleet.tracked(node))

    def _heard(
        self,
        usage: Mapping[PodName, Resources],
        tracked: Mapping[PodName, Tracked],
        known: Mapping[PodName, Known],
        sampled: Mapping[str, float | None],
        at: float,
    ) -> tuple[dict[str, Resources], Heard]:
        """Usage by UID, and what is known of workloads with it. Changes nothing: others go on meanwhile."""
        workload_of = self._fleet.workloads_now()
        by_uid: dict[str, Resources] = {}
        owned: list[MeasuredPod] = []
        for name, used in usage.items():
            pod = tracked[name]
            by_uid[pod.placed.uid] = used
            # The age of a pod's usage is that of its node's newest sample; without one it is not known.
            sampled_at, workload = sampled.get(known[name].node), workload_of(pod.pod)
            if workload is not None and sampled_at is not None:
                owned.append(MeasuredPod(workload=workload, usage=used, sampled_at=sampled_at))
        return by_uid, self._workloads.heard(fold(owned), at)

    def _sampled(self) -> dict[str, float | None]:
        """By node the time of its newest raw sample."""
        return {name: self._utilization.sampled_at(node.metadata.uid) for name, node in self._fleet.nodes.items()}

    def node_messages(self, names: Iterable[str], *, epoch: int, sequence: int) -> list[NodeUtilization]:
        """What is known of each of these nodes at this moment."""
        now = self.source_now()
        told = [
            self._utilization.message(self._measured_node(name, node, now), now, epoch=epoch, sequence=sequence)
            for name in names
            if (node := self._fleet.nodes.get(name)) is not None
        ]
        return [message for message in told if message is not None]

    def _measured_node(self, name: str, node: Node, now: float) -> MeasuredNode:
        begun = now - self._load.shortest.length
        pods = [tracked.placed for tracked in self._fleet.tracked(name)]
        return MeasuredNode(
            name=name,
            uid=node.metadata.uid,
            base=amounts(base_of(node, self._load.base)),
            pods=tuple(pod.uid for pod in pods),
            settled_pods=frozenset(pod.uid for pod in pods if pod.running_since and pod.running_since <= begun),
        )

    @property
    def workloads(self) -> Collection[Workload]:
        """Those that the last round of pods saw."""
        return self._workloads.seen

    def workload_messages(
        self, workloads: Iterable[Workload], *, epoch: int, sequence: int
    ) -> list[WorkloadUtilization]:
        """What is known of each of these workloads at this moment."""
        return self._workloads.messages(workloads, self.source_now(), epoch=epoch, sequence=sequence)

    async def cycle(
        self, names: Iterable[str], *, shard: str, number: int
    ) -> tuple[UtilizationCycle, dict[str, Doubt]]:
        """The end of a round: how many of these nodes should have data, and why which of them have none."""
        now, expected = self.source_now(), 0
        unknown: dict[str, Doubt] = {}
        async for some in in_batches(sorted(names), NODES_AT_ONCE):
            for name in some:
                node = self._fleet.nodes.get(name)
                if node is None or not_yet_expected(node, self._clock.now(), self._load.coverage.node_settling_period):
                    continue
                doubt = self._utilization.doubt(node.metadata.uid, now)
                if doubt is None or not unmeasurable(node):
                    expected += 1
                    unknown |= {} if doubt is None else {name: doubt}
        cycle = self._utilization.cycle(
            expected, unknown, shard=shard, cycle=number, skew=self.skew, problem=self.blindness
        )
        return cycle, unknown


def criteria_of(load: LoadSettings, window: Window, at: float) -> Criteria:
    """By what the samples of a window are judged at `at`."""
    return Criteria(
        at=at,
        length=window.length,
        coverage=load.coverage.window,
        life=load.lifetime(window),
        reach=max(load.freshness.score, load.shortest.length),
    )


def known_node(node: Node, *, busy: bool = False) -> Known:
    """What the cluster says of a node that is to be measured."""
    since = seconds(node.metadata.creation_timestamp) or 0.0
    return Known(since=since, ceiling=amounts(node.status.capacity), busy=busy)
