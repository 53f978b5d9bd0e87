"""The descheduler in a replay. The evaluation is the code of the service. Times are Unix seconds."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Thresholds
from equipoise.contracts.configuration.surge import SurgeMode
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import HourlyUsage
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.messages import proposals
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot, WatchedObjects
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.latest_messages import LatestMessages, with_recent_pods
from equipoise.descheduler.state.lazy import LazyMapping
from equipoise.descheduler.state.moves.tracker import Tracker
from equipoise.lab.model.descheduling.api_objects import ApiObjects
from equipoise.lab.model.descheduling.movable_pods import movable_pods
from equipoise.lab.model.descheduling.simulated_binder import EPOCH


@dataclass(kw_only=True)
class SimulatedDescheduler:
    """Receives the messages of the collector and evaluates when it is called."""

    settings: DeschedulerSettings
    load: LoadSettings
    thresholds: Thresholds
    protection: Protection
    level: MovesLevel | None = None
    surge: SurgeMode = "none"
    objects: ApiObjects
    """The objects that the descheduler watches."""

    usage_of: Callable[[Workload], Resources]
    """Last measured usage of a pod of a workload."""

    days: Callable[[], Mapping[Workload, HourlyUsage]]
    """The profile of each workload."""

    budgets: Callable[[], Sequence[PodDisruptionBudget]]
    """All PodDisruptionBudgets with their present status."""

    propose: Callable[[EvictionIntent, bool], None]
    """Receives each intent, and whether the pod can be moved without a gap."""

    def __post_init__(self) -> None:
        rules = Rules(
            protection=self.protection,
            namespaces=Namespaces(),
            own_namespace="equipoise-system",
            level=self.level,
            surge=self.surge,
        )
        self._evaluation = self.settings.evaluation(self.load, self.thresholds, rules)
        self._messages = LatestMessages()
        self._tracker = Tracker(self.settings.tracker)
        self.movable: Counter[str] | None = None
        """The number of pods by how they could be moved at the first evaluation; None before it."""

    @property
    def interval(self) -> float:
        """Seconds between evaluations."""
        return self._evaluation.interval

    def on_utilization(self, message: NodeUtilization) -> None:
        self._messages.on_utilization(message, math.inf)

    def on_cycle(self, message: UtilizationCycle) -> None:
        self._messages.on_cycle(message, message.queried_at)

    def on_placement(self, message: NodePlacement) -> None:
        self.objects.on_placement(message)
        self._messages.on_placement(with_recent_pods(message, -math.inf), math.inf)

    def evaluate(self, now: float) -> None:
        """Evaluate once, and propose each planned move."""
        watched, tracker = self.objects.watched(self.budgets()), self._tracker
        if self.movable is None:
            self.movable = movable_pods(watched, self._evaluation.rules, now)
        tracker.update(watched.pods_of(tracker.awaited_workloads()), {}, self.objects.nodes, now)
        snapshot = self._snapshot(watched, now)
        evaluation = evaluate(snapshot, self._evaluation)
        tracker.load_reductions(evaluation.cluster.nodes, self.load.shortest, now)
        proposed = [proposals(result, snapshot, self._evaluation, EPOCH) for result in evaluation.results]
        for result in evaluation.results:
            tracker.count(result.strategy, result.classifications, now)
        for result, intents in zip(evaluation.results, proposed, strict=True):
            for move, (intent, tracked) in zip(result.plan.moves, intents, strict=True):
                tracker.proposed(tracked)
                self.propose(intent, move.pod.without_gap)

    def on_outcome(self, outcome: EvictionOutcome) -> None:
        self._tracker.on_outcome(outcome, outcome.settled_at)

    def _snapshot(self, watched: WatchedObjects, now: float) -> Snapshot:
        days = self.days()
        return Snapshot(
            now=now,
            watched=watched,
            nodes=self._messages.utilizations,
            workloads=LazyMapping(watched.workloads, lambda workload: self._utilization(workload, days, now)),
            cycles=self._messages.cycles.current(now),
            placements=self._messages.placements,
            pending=self._tracker.pending,
            cooldowns=self._tracker.cooldowns,
            counts=self._tracker.counts,
        )

    def _utilization(self, workload: Workload, days: Mapping[Workload, HourlyUsage], now: float) -> WorkloadUtilization:
        day = days.get(workload)
        profile = {} if day is None else dict(zip(RESOURCES, day.tolist(), strict=True))
        usage = WindowUsage(sampled_at=now, mean=self.usage_of(workload))
        return WorkloadUtilization(
            workload=workload,
            replicas=self.objects.replicas(workload),
            sampled_at=now,
            queried_at=now,
            windows={self.load.shortest.name: usage},
            profile=profile,
            epoch=1,
            sequence=1,
        )


def paced(settings: DeschedulerSettings, tick: float) -> DeschedulerSettings:
    """The settings for a cluster that is measured only every `tick` seconds: fewer evaluations, each with more intents.

    The evaluations in a row still cover the same time, and as many pods may be proposed per time.
    """
    if tick <= settings.interval:
        return settings
    factor = tick / settings.interval
    return msgspec.structs.replace(
        settings,
        interval=Duration(tick),
        consecutive_abnormalities=max(1, round(settings.consecutive_abnormalities / factor)),
        max_intents_per_evaluation=round(settings.max_intents_per_evaluation * factor),
    )
