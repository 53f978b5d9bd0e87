"""Learns the 24-hour profiles of workloads: queries one slot after the other, and restores slots from annotations.

Annotations are read once after a start; kinds of workloads that could not be listed are retried.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import msgspec
import structlog

from equipoise.collector.decisions.divided_queries import in_parts, of_no_part
from equipoise.collector.decisions.query import ResourceName
from equipoise.collector.decisions.replica_means import MeasuredPod, ReplicaMean, replica_means
from equipoise.collector.decisions.restored_profile import largest_capacity, restore_problem, restored_profile
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.shell.rounds import measure_pods
from equipoise.collector.state.placement import PodName
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.annotations import USAGE
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.async_tools.batching import (
    NODES_PER_BATCH,
    PROFILES_PER_BATCH,
    WORKLOADS_PER_BATCH,
    drain,
    in_batches,
    in_thread_if_many,
)
from equipoise.runtime.kubernetes.client import (
    CLONE_SETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ROLLOUTS,
    STATEFUL_SETS,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
    Resource,
    metadata_of,
)
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

SLOT_MARGIN = 0.02
"""Share of a slot to wait after its end, so that its last samples have arrived."""

KINDS: Sequence[Resource[Any]] = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CLONE_SETS, ROLLOUTS)
"""The kinds that usually exist for longer than a day."""

RETRY_PERIOD = 300.0
"""Seconds until a kind that could not be listed is listed again."""

TARGETS_PER_BATCH = 5_000

PROBLEM = "profile annotations"

log = structlog.get_logger()


class _SlotUsage(NamedTuple):
    """The usage of pods in a slot."""

    usage: Mapping[PodName, Resources]
    failed: Mapping[ResourceName, str] = {}
    """Why the slot is not measured."""

    incomplete: Mapping[ResourceName, str] = {}
    """Why it is measured without the pods whose series name no node, or a removed one."""


@dataclass(kw_only=True)
class ProfileLearning:
    """Measures the slots of the past day that were not measured yet."""

    settings: CollectorSettings
    load: LoadSettings
    measurement: Measurement
    clock: Clock

    def __post_init__(self) -> None:
        self._slot = self.settings.profile.day / SLOTS
        self._placement = self.measurement.placement
        self._done: set[int] = set()
        self._failures: Counter[int] = Counter()
        self._incomplete: set[int] = set()
        """The slots whose last part failed once."""

    async def run(self, health: Health) -> NoReturn:
        """Measure the slots of the past day first, newest first, then each slot as it ends."""
        backfill = interval = float(self.settings.profile.backfill_interval)
        while True:
            slot = self.next_slot()
            if slot is not None:
                problem = await self.measure(slot)
                health.set_problem("profile", problem or None)
                failed = problem and round(slot / self._slot) not in self._done | self._incomplete
                interval = min(2 * interval, self._slot) if failed else backfill
                await self.clock.sleep(interval)
                continue
            now = self.measurement.source_now()
            await self.clock.sleep(self._slot * (now // self._slot + 1 + SLOT_MARGIN) - now)

    def next_slot(self) -> float | None:
        """End of the newest slot of the past day that was not measured; None: all were.

        A slot that failed comes after the others, so that one query that is too large does not block all older slots.
        """
        last = int(self.measurement.source_now() // self._slot)
        self._done = {number for number in self._done if last - SLOTS < number <= last}
        missing = [number for number in range(last, last - SLOTS, -1) if number not in self._done]
        self._failures = Counter({number: self._failures[number] for number in missing})
        self._incomplete.intersection_update(missing)
        return min(missing, key=self._failures.__getitem__) * self._slot if missing else None

    async def measure(self, ended_at: float) -> str:
        """Records every workload's mean over the slot that ended at `ended_at`. Returns why it failed, or ""."""
        if (intervals := self.measurement.intervals.of_pods).default is None:
            return ""  # the rounds of the windows report why no interval is known
        on_node = {
            name: MeasurementTarget(since=0.0, capacity=capacity, node=name)
            for name, capacity in self._placement.capacities().items()
        }
        workload_of = self._placement.workload_lookup()
        targets: dict[PodName, MeasurementTarget] = {}
        owners: dict[PodName, Workload | None] = {}
        for name, (_, workload, node) in self._placement.departed.items():
            targets[name] = on_node.get(node) or MeasurementTarget(since=0.0, capacity=Resources(), node=node)
            owners[name] = workload
        async for nodes in in_batches(on_node, NODES_PER_BATCH):
            for node in nodes:
                for pod in self._placement.tracked(node):
                    name = (pod.placed.namespace, pod.placed.name)
                    targets[name], owners[name] = on_node[node], workload_of(pod.pod)
        criteria = WindowCriteria(
            at=ended_at, length=self._slot, coverage=self.load.coverage.window, max_age=self._slot, lookback=self._slot,
            intervals=intervals, names=self._placement.addresses.names,
        )  # fmt: skip
        # Else the first slot after a start would be one query about all pods, and new nodes of other shards in no part.
        await self.measurement.find_labels(self.measurement.source_now(), on_node)
        usage, failed, incomplete = await self._usage(targets, criteria, on_node)
        number = round(ended_at / self._slot)
        if failed:
            self._failures[number] += 1
            return self._problem(failed)
        if incomplete and number not in self._incomplete:
            # Tried once more after the other slots. If it fails again, the slot is that of the other parts.
            self._incomplete.add(number)
            self._failures[number] += 1
            return self._problem(incomplete)
        means, present = await in_thread_if_many(len(owners), _workload_means, usage, owners, ended_at)
        await in_thread_if_many(len(targets), drain, targets, owners)
        async for workloads in in_batches(means, WORKLOADS_PER_BATCH):
            self.measurement.workload_store.record_slot(ended_at, {workload: means[workload] for workload in workloads})
        self.measurement.workload_store.retain(present)
        self._done.add(number)
        return self._problem(incomplete) if incomplete else ""

    def _problem(self, failed: Mapping[ResourceName, str]) -> str:
        resource, why = next(iter(failed.items()))
        return f"{self.settings.source}: {resource} of pods in a slot of the 24-hour profile: {why}"

    async def _usage(
        self, targets: Mapping[PodName, MeasurementTarget], criteria: WindowCriteria, nodes: Collection[str]
    ) -> _SlotUsage:
        """The usage of these pods. With several shards, the pods of all nodes are measured in as many parts, one after
        the other: a response about all of them would be large, and needs much memory."""
        source, usage, label = (
            self.measurement.source,
            dict[PodName, Resources](),
            self.measurement.divided.label("pod"),
        )
        parts = [] if label is None else in_parts(label, nodes, self.settings.shards)
        if label is None or not parts:
            measured = await measure_pods(source, targets, criteria)
            return _SlotUsage(measured.usage, measured.failed)
        criteria = msgspec.structs.replace(criteria, jobs=label.jobs)  # as in the rounds of the windows
        groups = {node: number for number, (of_part, _) in enumerate(parts) for node in of_part}
        in_part: list[dict[PodName, MeasurementTarget]] = [{} for _ in parts]
        remaining = dict[PodName, MeasurementTarget]()
        async for batch in in_batches(targets.items(), TARGETS_PER_BATCH):
            for name, target in batch:
                number = groups.get(target.node)
                (remaining if number is None else in_part[number])[name] = target
        owns = self.measurement.owns
        for of_part, (names, matcher) in zip(in_part, parts, strict=True):
            limited = msgspec.structs.replace(criteria, nodes=matcher)
            rare = owns is not None and not any(map(owns, names))  # the rounds of the windows query our own nodes
            measured = await measure_pods(source, of_part, limited, rare=rare)
            if measured.failed:
                return _SlotUsage(usage, measured.failed)
            usage |= measured.usage
            # A series may name no node, or one of another cluster: then it may be of any node.
            remaining |= {name: target for name, target in of_part.items() if name not in measured.usage}
            of_part.clear()
        if not remaining:
            return _SlotUsage(usage)
        others = of_no_part(label, parts, {target.node for target in remaining.values()})
        measured = await measure_pods(source, remaining, msgspec.structs.replace(criteria, nodes=others), rare=True)
        if not measured.failed:
            usage |= measured.usage
        return _SlotUsage(usage, incomplete=measured.failed)

    async def restore(self, annotations: Mapping[Workload, Mapping[str, str]]) -> int:
        """Fill slots that were not measured from the annotations of workloads. Returns how many had a profile."""
        now, max_usage = self.measurement.source_now(), largest_capacity(self._placement.capacities().values())
        restored = 0
        async for workloads in in_batches(annotations, PROFILES_PER_BATCH):
            for workload in workloads:
                profile, why = restored_profile(annotations[workload], now, max_usage)
                if profile is not None:
                    self.measurement.workload_store.restore(workload, profile)
                    restored += 1
                elif USAGE in annotations[workload]:
                    log.debug("annotation has no valid profile", workload=str(workload), reason=why)
        return restored


def _workload_means(
    usage: Mapping[PodName, Resources], owners: Mapping[PodName, Workload | None], at: float
) -> tuple[dict[Workload, ReplicaMean], set[Workload]]:
    """Mean usage by workload, and every workload that has pods."""
    owned = (
        MeasuredPod(workload=workload, usage=used, sampled_at=at)
        for name, used in usage.items()
        if (workload := owners[name]) is not None
    )
    return replica_means(owned), {workload for workload in owners.values() if workload is not None}


async def restore_profiles(kube: Kube, clock: Clock, profiles: ProfileLearning, health: Health) -> None:
    """Returns when each kind was read. A kind that this cluster does not have is skipped."""
    remaining = list(KINDS)
    try:
        while remaining:
            forbidden, failed = list[Resource[Any]](), dict[Resource[Any], str]()
            for resource in remaining:
                try:
                    await _restore_kind(kube, resource, profiles)
                except NotFound:
                    log.debug("kind of workload not in this cluster", kind=resource.kind, group=resource.group)
                except Forbidden:
                    forbidden.append(resource)
                except KubeError as error:
                    failed[resource] = str(error)
            names = [f"{resource.plural}.{resource.group}" for resource in forbidden]
            health.set_problem(PROBLEM, restore_problem(names, list(dict.fromkeys(failed.values()))))
            remaining = [*forbidden, *failed]
            if remaining:
                await clock.sleep(RETRY_PERIOD)
    finally:
        health.set_problem(PROBLEM, None)


async def _restore_kind(kube: Kube, resource: Resource[Any], profiles: ProfileLearning) -> None:
    restored = 0
    async for page in kube.pages(metadata_of(resource)):
        kind, group = resource.kind, resource.group
        restored += await profiles.restore(
            {
                Workload(kind=kind, group=group, namespace=meta.namespace, name=meta.name): meta.annotations
                for meta in (item.metadata for item in page)
            }
        )
    log.info("profiles restored from annotations", kind=resource.kind, profiles=restored)
