"""The descheduler and the binder in a replay: the leader's own evaluation, and the binder's limits and ledger.

Only the API server is simulated: an eviction that the limits allow happens. Times: Unix seconds.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import chain

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish
from equipoise.binder.state.ledger import Ledger, LedgerEntry, ReplacementStatus, new_entry
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.contracts.eviction.protection import Rules
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import HourlyUsage
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.descheduler.decisions.evaluation.messages import proposals
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot, WatchedObjects
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.latest_messages import LatestMessages
from equipoise.descheduler.state.lazy import LazyMapping
from equipoise.descheduler.state.tracker import Tracker
from equipoise.lab.model.api_objects import ApiObjects

_EPOCH = LeaseEpoch(lease_uid="lab", transitions=0, holder="lab")

Evict = Callable[[EvictionIntent], bool]
"""Evicts the pod; False if no node has capacity for the replacement."""


class MoveCounts(msgspec.Struct, kw_only=True):
    """The results of the proposed moves."""

    proposed: int = 0
    evicted: int = 0
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    """By reason."""


class Levelling:
    """Receives the messages of the collector and evaluates when it is called."""

    def __init__(
        self,
        *,
        settings: DeschedulerSettings,
        limits: Limits,
        load: LoadSettings,
        thresholds: Thresholds,
        protection: Protection,
        replicas: Callable[[Workload], int],
        usage_of: Callable[[Workload | None], Resources],
        days: Callable[[], Mapping[Workload, HourlyUsage]],
        excluded: Callable[[Workload], Collection[str]],
        evict: Evict,
        publish: Callable[[EvictionIntent | EvictionOutcome], None],
        started_at: float,
    ) -> None:
        """`replicas`: desired replicas; `usage_of`: last measured usage of a pod of a workload; `days`: the profile of
        each workload; `excluded`: nodes that anti-affinity excludes for the pods of a workload.
        """
        rules = Rules(protection=protection, namespaces=Namespaces(), own_namespace="equipoise-system")
        self._evaluation = settings.evaluation(load, thresholds, rules)
        self._limits = limits
        self._load = load
        self._replicas = replicas
        self._usage_of = usage_of
        self._days = days
        self._evict = evict
        self._publish = publish
        self._objects = ApiObjects(replicas=replicas, excluded=excluded)
        self._messages = LatestMessages()
        self._tracker = Tracker(settings.tracker)
        # The grace period after a start is over.
        self._ledger = Ledger(created_at=started_at, started_at=started_at - limits.startup_grace_period)
        self.tally = MoveCounts()

    @property
    def interval(self) -> float:
        """Seconds between evaluations."""
        return self._evaluation.interval

    def on_utilization(self, message: NodeUtilization) -> None:
        self._messages.on_node(message)

    def on_cycle(self, message: UtilizationCycle) -> None:
        self._messages.on_cycle(message)

    def on_placement(self, message: NodePlacement) -> None:
        self._objects.on_placement(message)
        self._messages.on_placement(message, begin=-math.inf)

    def evaluate(self, now: float) -> None:
        """One evaluation, and the outcome of each intent."""
        watched, tracker = self._objects.watched(), self._tracker
        tracker.update(watched.pods_of(tracker.awaited_workloads()), {}, self._objects.nodes, now)
        self._update_ledger(now)
        snapshot = self._snapshot(watched, now)
        evaluation = evaluate(snapshot, self._evaluation)
        tracker.load_reductions(evaluation.cluster.nodes, self._load.shortest, now)
        proposed = [proposals(result, snapshot, self._evaluation, _EPOCH) for result in evaluation.results]
        for result in evaluation.results:
            tracker.count(result.strategy, result.classifications, now)
        for intent, move in chain.from_iterable(proposed):
            tracker.proposed(move)
            self._publish(intent)
            self._settle(intent, now)

    def _snapshot(self, watched: WatchedObjects, now: float) -> Snapshot:
        days = self._days()
        return Snapshot(
            now=now,
            watched=watched,
            nodes=self._messages.nodes,
            workloads=LazyMapping(watched.workloads, lambda workload: self._utilization(workload, days, now)),
            cycles=self._messages.cycles.values(),
            placements=self._messages.placements,
            pending=self._tracker.pending,
            cooldowns=self._tracker.cooldowns,
            counts=self._tracker.counts,
        )

    def _utilization(self, workload: Workload, days: Mapping[Workload, HourlyUsage], now: float) -> WorkloadUtilization:
        day = days.get(workload)
        profile = {} if day is None else dict(zip(RESOURCES, day.tolist(), strict=True))
        usage = WindowUsage(sampled_at=now, mean=self._usage_of(workload))
        return WorkloadUtilization(
            workload=workload,
            replicas=self._replicas(workload),
            sampled_at=now,
            queried_at=now,
            windows={self._load.shortest.name: usage},
            profile=profile,
            epoch=1,
            sequence=1,
        )

    # the binder

    def _settle(self, intent: EvictionIntent, now: float) -> None:
        self.tally.proposed += 1
        finish = self._refusal(intent, now)
        if finish is None:
            finish = Finish(outcome=Outcome.EVICTED)
            entry = new_entry(intent, now, workload=intent.workload, expires_at=intent.expires_at, dry_run=False)
            self._ledger = self._ledger.reserve(entry, epoch=_EPOCH)
            if self._evict(intent):
                self._ledger = self._ledger.settle(intent.id, finish.outcome, now)
                self.tally.evicted += 1
            else:
                self._ledger = self._ledger.release(intent.id)
                finish = Finish(outcome=Outcome.REJECTED_FIT, detail="no node has capacity for the replacement")
        if finish.outcome is not Outcome.EVICTED:
            self.tally.refused[finish.limit or finish.detail] += 1
        outcome = finish.message(intent, now)
        self._tracker.on_outcome(outcome, now)
        self._publish(outcome)

    def _refusal(self, intent: EvictionIntent, now: float) -> Finish | None:
        limits = self._limits
        view = self._ledger.view(
            now, dry_run=False, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
        )
        eviction = ProposedEviction(
            namespace=intent.namespace,
            node=intent.node,
            workload=intent.workload,
            replicas=0 if intent.workload is None else self._replicas(intent.workload),
            unready=sum(entry.workload == intent.workload for entry in view.migrating()),
            cluster_pods=self._objects.pod_count,
        )
        return limits.refusal(eviction, view)

    def _update_ledger(self, now: float) -> None:
        """Records the replacements that run, and drops the entries that no limit needs any more."""
        missing = [entry for entry in self._ledger.entries if entry.recovered_at is None]
        if missing:
            running = self._objects.running()
            ready = ReplacementStatus(state="ready")
            replaced = {entry.intent_id: ready for entry in missing if self._is_replaced(entry, running)}
            self._ledger = self._ledger.with_replacements(replaced, now)
        self._ledger = self._ledger.pruned(now, retention=self._limits.retention)

    def _is_replaced(self, entry: LedgerEntry, running: Mapping[Workload | None, int]) -> bool:
        return entry.workload is None or running[entry.workload] >= self._replicas(entry.workload)


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
