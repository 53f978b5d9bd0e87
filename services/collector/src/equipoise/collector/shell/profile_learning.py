"""Learns the day of workloads: asks for one slot after the other, and takes back what annotations remember."""

from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from equipoise.collector.decisions.restored_profile import largest, remembered_day
from equipoise.collector.decisions.sample_validation import Criteria, Intervals, Known
from equipoise.collector.decisions.workload_means import Fold, MeasuredPod, fold
from equipoise.collector.decisions.workloads import SLOTS, Workloads
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.batching import NODES_AT_ONCE, PROFILES_AT_ONCE, WORKLOADS_AT_ONCE, aside, emptied
from equipoise.collector.shell.rounds import measure_pods
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.placement import Fleet, PodName
from equipoise.contracts.kubernetes.annotations import USAGE
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.async_tools.batching import in_batches

log = structlog.get_logger()


class Days:
    """Which slots of the past day are known, and how the others come to be."""

    def __init__(
        self,
        *,
        settings: CollectorSettings,
        coverage: float,
        source: MetricSource,
        fleet: Fleet,
        workloads: Workloads,
        now: Callable[[], float],
        intervals: Callable[[], Intervals],
    ) -> None:
        """`coverage`: 0..1, how much of a slot must be measured. `now` tells the time on the source's clock,
        `intervals` how far apart samples of pods lie."""
        self._source_name = settings.source
        self._slot = settings.profile.day / SLOTS
        self._coverage = coverage
        self._source = source
        self._fleet = fleet
        self._workloads = workloads
        self._now = now
        self._intervals = intervals
        self._done: set[int] = set()
        self._failed: Counter[int] = Counter()

    def next_slot(self) -> float | None:
        """End of the newest slot of the past day that is not known yet; None: all are.

        One that failed waits for the others: what is too much for the source would keep it from all older ones.
        """
        last = int(self._now() // self._slot)
        self._done = {number for number in self._done if number > last - SLOTS}
        open_slots = [number for number in range(last, last - SLOTS, -1) if number not in self._done]
        self._failed = Counter({number: self._failed[number] for number in open_slots})
        return min(open_slots, key=self._failed.__getitem__) * self._slot if open_slots else None

    @property
    def slot_length(self) -> float:
        """Seconds."""
        return self._slot

    async def measure(self, ended_at: float) -> str:
        """Every pod's mean over a slot of the day, folded by workload. Why it is not known yet: ask again later."""
        if (intervals := self._intervals()).usual is None:
            return ""  # the rounds of the windows say what keeps them from it
        places = {
            name: Known(since=0.0, ceiling=ceiling, node=name) for name, ceiling in self._fleet.capacities().items()
        }
        workload_of = self._fleet.workloads_now()
        known: dict[PodName, Known] = {}
        owners: dict[PodName, Workload | None] = {}
        for name, (workload, node) in self._fleet.left.items():
            known[name] = places.get(node) or Known(since=0.0, ceiling=Resources(), node=node)
            owners[name] = workload
        async for nodes in in_batches(places, NODES_AT_ONCE):
            for node in nodes:
                for pod in self._fleet.tracked(node):
                    name = (pod.placed.namespace, pod.placed.name)
                    known[name], owners[name] = places[node], workload_of(pod.pod)
        criteria = Criteria(at=ended_at, length=self._slot, coverage=self._coverage, life=self._slot, reach=self._slot)
        found = await measure_pods(self._source, known, criteria, intervals)
        if found.failed:
            self._failed[round(ended_at / self._slot)] += 1
            resource, why = next(iter(found.failed.items()))
            return f"{self._source_name}: {resource} of pods in a slot of the day: {why}"
        folds, present = await aside(len(owners), _folded, found.usage, owners, ended_at)
        await aside(len(known), emptied, known, owners)
        async for workloads in in_batches(folds, WORKLOADS_AT_ONCE):
            self._workloads.record_slot(ended_at, {workload: folds[workload].usage for workload in workloads})
        self._workloads.forget(present)
        self._done.add(round(ended_at / self._slot))
        return ""

    async def remember(self, standing: Mapping[Workload, Mapping[str, str]]) -> int:
        """The annotations of workloads: their days stand in where nothing was measured. How many had one?"""
        now, ceiling, remembered = self._now(), largest(self._fleet.capacities().values()), 0
        async for workloads in in_batches(standing, PROFILES_AT_ONCE):
            for workload in workloads:
                day, why = remembered_day(standing[workload], now, ceiling)
                if day is not None:
                    self._workloads.restore(workload, day)
                    remembered += 1
                elif USAGE in standing[workload]:
                    log.debug("profile of an annotation left", workload=str(workload), reason=why)
        return remembered


def _folded(
    usage: Mapping[PodName, Resources], owners: Mapping[PodName, Workload | None], at: float
) -> tuple[dict[Workload, Fold], set[Workload]]:
    """Usage by workload, and all workloads that there are."""
    owned = (
        MeasuredPod(workload=workload, usage=used, sampled_at=at)
        for name, used in usage.items()
        if (workload := owners[name]) is not None
    )
    return fold(owned), {workload for workload in owners.values() if workload is not None}
