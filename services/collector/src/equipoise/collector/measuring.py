"""Carries out rounds: asks the source about the nodes and pods of this moment and keeps what it says."""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping

from equipoise.collector.expected import not_yet_expected, unmeasurable
from equipoise.collector.placement import Fleet, amounts
from equipoise.collector.pods import seconds
from equipoise.collector.questions import SourceError
from equipoise.collector.readings import Criteria, Doubt, Intervals, Known
from equipoise.collector.rounds import PodName, PodsRound, find_intervals, measure_nodes, measure_pods
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import MetricSource
from equipoise.collector.utilization import MeasuredNode, Utilization, summed_up
from equipoise.collector.workloads import SLOTS, MeasuredPod, Workloads
from equipoise.contracts.messages import NodeUtilization, Resources, UtilizationCycle, WorkloadUtilization
from equipoise.contracts.objects import Node
from equipoise.contracts.raw_allocatable import base_of
from equipoise.contracts.settings import LoadSettings, Window
from equipoise.contracts.workload import Workload
from equipoise.runtime.clock import Clock


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
        self._slot = settings.profile.day / SLOTS
        self._workloads = Workloads(slot=self._slot, weight=settings.profile.weight, coverage=load.coverage.window)
        self._intervals = Intervals(usual=settings.scrape_interval)
        self._pod_intervals = self._intervals
        self._intervals_at: float | None = None
        self._slots_done: set[int] = set()
        self._problems: dict[str, str] = {}
        self._blind = ""
        self.unknown: dict[str, Doubt] = {}
        """Of the last cycle the nodes that should have data and have none, and why."""

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
    def unknown_nodes(self) -> str:
        """The nodes without data, summed up by reason; empty when there are none."""
        return summed_up(self.unknown)

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
            if window.length <= self._settings.pods_limit:
                failures += await self._measure_pods(window, at)
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
            found = await find_intervals(self._source, self._load.shortest.length, at)
            # Right after the source's restart there may be none to be seen: the ones of before still hold.
            if found.usual is not None:
                self._intervals, self._intervals_at = found, at
                self._pod_intervals = await self._find_pod_intervals(at) or found

    async def _find_pod_intervals(self, at: float) -> Intervals | None:
        """None: they are not known apart from those of the nodes."""
        try:
            found = await find_intervals(self._source, self._load.shortest.length, at, "pod")
        except SourceError:
            return None
        return found if found.usual is not None else None

    async def _measure_nodes(self, window: Window, at: float) -> tuple[str, list[str]]:
        """Why nothing was measured, if nothing was, and which questions failed."""
        nodes = dict(self._fleet.nodes)
        begun = at - window.length
        known = {name: known_node(node, busy=self._busy(name, begun)) for name, node in nodes.items()}
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

    async def _measure_pods(self, window: Window, at: float) -> list[str]:
        running = {
            (tracked.placed.namespace, tracked.placed.name): (tracked, node)
            for node in self._fleet.nodes
            for tracked in self._fleet.tracked(node)
            if tracked.placed.running_since is not None
        }
        await asyncio.sleep(0)  # here and below: each step takes a part of a second for 150,000 pods
        ceilings = self._capacities()
        known = {
            name: Known(since=tracked.placed.running_since or at, ceiling=ceilings[node], node=node)
            for name, (tracked, node) in running.items()
            if node in ceilings
        }
        found = await measure_pods(self._source, known, criteria_of(self._load, window, at), self._pod_intervals)
        if found.usage:
            usage = _joined(found)
            await asyncio.sleep(0)
            if window.name == self._load.shortest.name:
                by_uid = {running[name][0].placed.uid: used for name, used in usage.items()}
                self._utilization.record_pods(by_uid, at)
                self._fleet.measured(by_uid)
                await asyncio.sleep(0)
            owners = {name: (self._fleet.workload_of(tracked.pod), node) for name, (tracked, node) in running.items()}
            await asyncio.sleep(0)
            owned = self._owned(usage, owners, at)
            await asyncio.sleep(0)
            self._workloads.record(window.name, owned, at)
        return [f"{resource} of pods: {why}" for resource, why in found.failed.items()]

    def _busy(self, node: str, since: float) -> bool:
        """Have pods run there all the time?"""
        return any((each.placed.running_since or math.inf) <= since for each in self._fleet.tracked(node))

    def _capacities(self) -> dict[str, Resources]:
        """Of every node, each quantity read once and not for every pod on it."""
        return {name: amounts(node.status.capacity) for name, node in self._fleet.nodes.items()}

    def _owned(
        self, usage: Mapping[PodName, Resources], owners: Mapping[PodName, tuple[Workload | None, str]], at: float
    ) -> list[MeasuredPod]:
        """The measured pods that belong to a workload."""
        sampled = {name: self._utilization.sampled_at(node.metadata.uid) for name, node in self._fleet.nodes.items()}
        pods = []
        for name, used in usage.items():
            workload, node = owners[name]
            if workload is not None:
                pods.append(MeasuredPod(workload=workload, usage=used, sampled_at=sampled.get(node) or at))
        return pods

    def next_slot(self) -> float | None:
        """End of the newest slot of the past day that was not asked for yet; None: all were."""
        last = int(self.source_now() // self._slot)
        self._slots_done = {number for number in self._slots_done if number > last - SLOTS}
        return next((n * self._slot for n in range(last, last - SLOTS, -1) if n not in self._slots_done), None)

    @property
    def slot_length(self) -> float:
        """Seconds."""
        return self._slot

    async def measure_slot(self, ended_at: float) -> str:
        """Every pod's mean over a slot of the day, folded by workload. Why it is not known yet: ask again later."""
        owners = self._fleet.owners()
        ceilings, unknown = self._capacities(), Resources()
        known = {
            name: Known(since=0.0, ceiling=ceilings.get(node, unknown), node=node) for name, (_, node) in owners.items()
        }
        criteria = Criteria(
            at=ended_at, length=self._slot, coverage=self._load.coverage.window, life=self._slot, reach=self._slot
        )
        if self._intervals.usual is None:
            return ""  # the rounds of the windows say what keeps them from it
        found = await measure_pods(self._source, known, criteria, self._pod_intervals)
        if found.failed:
            resource, why = next(iter(found.failed.items()))
            return f"{self._settings.source}: {resource} of pods in a slot of the day: {why}"
        self._workloads.record_slot(ended_at, self._owned(_joined(found), owners, ended_at))
        self._workloads.forget(workload for workload, _ in owners.values() if workload is not None)
        self._slots_done.add(round(ended_at / self._slot))
        return ""

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

    def workload_messages(
        self, mine: Callable[[Workload], bool], *, epoch: int, sequence: int
    ) -> list[WorkloadUtilization]:
        """What is known at this moment of each workload that is `mine`."""
        lives = {window.name: self._load.life(window) for window in self._load.windows}
        # A slot's mean is from its end on the newest there is, until the next slot has ended.
        lives[self._load.longest.name] = max(lives[self._load.longest.name], 2 * self._slot)
        now = self.source_now()
        return self._workloads.messages(self._load.windows, lives, now, epoch=epoch, sequence=sequence, mine=mine)

    def cycle(self, names: Iterable[str], *, shard: str, number: int) -> UtilizationCycle:
        """The end of a round: how many of these nodes that should have data have some."""
        now = self.source_now()
        expected = {
            name: node.metadata.uid
            for name in names
            if (node := self._fleet.nodes.get(name)) is not None
            and not not_yet_expected(node, self._clock.now(), self._load.coverage.node_settling)
            and not (unmeasurable(node) and self._utilization.doubt(node.metadata.uid, now))
        }
        unknown = self._utilization.unknown(expected, now)
        self.unknown |= unknown
        return self._utilization.cycle(
            len(expected),
            unknown,
            shard=shard,
            cycle=number,
            skew=self.skew,
            problem=self.blindness,
        )


def criteria_of(load: LoadSettings, window: Window, at: float) -> Criteria:
    """By what the samples of a window are judged at `at`."""
    return Criteria(
        at=at,
        length=window.length,
        coverage=load.coverage.window,
        life=load.life(window),
        reach=max(load.freshness.score, load.shortest.length),
    )


def known_node(node: Node, *, busy: bool = False) -> Known:
    """What the cluster says of a node that is to be measured."""
    since = seconds(node.metadata.creation_timestamp) or 0.0
    return Known(since=since, ceiling=amounts(node.status.capacity), busy=busy)


def _joined(found: PodsRound) -> dict[PodName, Resources]:
    """By pod; a resource that was not measured is unknown."""
    names = {name for measured in found.usage.values() for name in measured}
    return {
        name: Resources(**{resource: measured.get(name) for resource, measured in found.usage.items()})
        for name in names
    }
