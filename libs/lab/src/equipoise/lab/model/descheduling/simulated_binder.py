"""The binder in a replay. Limits, ledger and the steps of a move without a gap are the code of the binder.

Only the API server is simulated: it evicts a pod if PodDisruptionBudgets allow it. Times are Unix seconds.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish, Retry, retry_while_fresh
from equipoise.binder.decisions.surge.next_step import next_step
from equipoise.binder.decisions.surge.observation import ObservedMove, placed_replacement
from equipoise.binder.decisions.surge.plan import SurgePlan, slot_refusal
from equipoise.binder.decisions.surge.step import End, Evict, Place, Record, Restore
from equipoise.binder.state.ledger import Ledger, ReplacementStatus
from equipoise.binder.state.ledger_entry import new_entry
from equipoise.binder.state.surge_move import SurgeMove
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.lab.model.descheduling.api_objects import ApiObjects

EPOCH = LeaseEpoch(lease_uid="lab", transitions=0, holder="lab")


class MoveCounts(msgspec.Struct, kw_only=True):
    """The results of the proposed moves."""

    proposed: int = 0
    evicted: int = 0
    """Number of evicted pods, including those that were moved without a gap."""

    without_gap: int = 0
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    """The number of refused moves, by reason."""


class MoveRequests(Protocol):
    """The requests of the binder about the pod of an intent."""

    def evict(self, intent: EvictionIntent) -> Finish | None:
        """Evicts the pod. Returns the outcome if it cannot be evicted now."""

    def detach(self, intent: EvictionIntent) -> Finish | None:
        """Removes the label of the pod, so that its ReplicaSet creates a replacement. Returns the outcome if no node
        has capacity for it."""

    def restore(self, intent: EvictionIntent) -> None:
        """Writes the label back, so that the ReplicaSet adopts the pod and deletes another one."""


@dataclass(kw_only=True)
class SimulatedBinder:
    """Executes, delays or refuses each intent at once, and carries on moves without a gap when it is called."""

    limits: Limits
    surge: SurgeSettings
    sample_lifetime: float
    """Seconds for which a sample is fresh enough for an eviction."""

    objects: ApiObjects
    requests: MoveRequests
    publish: Callable[[EvictionOutcome], None]
    started_at: float

    def __post_init__(self) -> None:
        # The replay begins after the grace period that follows a start.
        grace_period = self.limits.startup_grace_period
        self._ledger = Ledger(created_at=self.started_at, started_at=self.started_at - grace_period)
        self.tally = MoveCounts()
        self._delayed: list[tuple[float, EvictionIntent]] = []
        """Intents for moves without a gap that wait for others, each with the time of its next attempt."""

    @property
    def has_open_moves(self) -> bool:
        """Whether moves without a gap are open, or wait for others."""
        return bool(self._ledger.surge_moves or self._delayed)

    def decide(self, intent: EvictionIntent, *, without_gap: bool, now: float) -> None:
        """Executes, delays or refuses an intent. The outcome of a move without a gap follows at its end."""
        self.tally.proposed += 1
        self._attempt(intent, without_gap=without_gap, now=now)

    def _attempt(self, intent: EvictionIntent, *, without_gap: bool, now: float) -> None:
        refusal = self._refusal(intent, without_gap=without_gap, now=now)
        if isinstance(refusal, Retry):
            self._delayed.append((now + refusal.after, intent))
            return
        if refusal is not None:
            self._report(intent, refusal, now)
            return
        entry = new_entry(intent, now, workload=intent.workload, expires_at=intent.expires_at, dry_run=False)
        self._ledger = self._ledger.reserve(entry, epoch=intent.epoch)
        move = self._move(intent, now) if without_gap else None
        refused = self.requests.evict(intent) if move is None else self.requests.detach(intent)
        if refused is not None:
            self._ledger = self._ledger.release(intent.id)
            self._report(intent, refused, now)
        elif move is None:
            self._settle(intent, Finish(outcome=Outcome.EVICTED), now)
        else:
            self._ledger = self._ledger.with_surge_move(move)

    def carry_on(self, now: float) -> None:
        """The next step of each open move, and the next attempt of those that wait for others."""
        for move in self._ledger.surge_moves:
            self._advance(move, now)
        due = [intent for time, intent in self._delayed if time <= now]
        self._delayed = [(time, intent) for time, intent in self._delayed if time > now]
        for intent in due:
            self._attempt(intent, without_gap=True, now=now)

    def update(self, now: float) -> None:
        """Record the replacements that run, and drop the entries that no limit needs any more."""
        unrecovered = [entry for entry in self._ledger.entries if entry.recovered_at is None]
        if unrecovered:
            running = self.objects.running()
            replaced = {
                entry.intent_id: ReplacementStatus(state="ready")
                for entry in unrecovered
                if entry.workload is None or running[entry.workload] >= self.objects.replicas(entry.workload)
            }
            self._ledger = self._ledger.with_replacements(replaced, now)
        self._ledger = self._ledger.retaining(self.limits.retention, now).pruned(now)

    def _refusal(self, intent: EvictionIntent, *, without_gap: bool, now: float) -> Finish | Retry | None:
        limits, workload = self.limits, intent.workload
        view = self._ledger.view(
            now, dry_run=False, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
        )
        eviction = ProposedEviction(
            namespace=intent.namespace,
            node=intent.node,
            workload=workload,
            replicas=0 if workload is None else self.objects.replicas(workload),
            unready=sum(entry.workload == workload for entry in view.migrating()),
            cluster_pods=self.objects.pod_count,
        )
        refused = limits.refusal(eviction, view)
        if refused is not None or not without_gap or workload is None:
            return refused
        why = slot_refusal(self._ledger, workload, self.surge.max_moves)
        if not why:
            return None
        return retry_while_fresh(intent, why, Outcome.REJECTED_LIMIT, now=now, sample_lifetime=self.sample_lifetime)

    def _move(self, intent: EvictionIntent, now: float) -> SurgeMove:
        pod, workload = self.objects.template(intent.pod_uid), intent.workload
        controller = pod.metadata.controller
        assert workload is not None, "only pods of Deployments are moved without a gap"
        assert controller is not None
        plan = SurgePlan(
            workload=workload,
            replica_set=controller.name,
            template_hash=pod.metadata.labels[TEMPLATE_HASH],
            replicas=self.objects.replicas(workload),
            version="",
        )
        return plan.move(intent, now, self.surge.ready_timeout)

    def _advance(self, move: SurgeMove, now: float) -> None:
        intent, observed = move.intent, self._observe(move)
        step = next_step(move, observed, now)
        while isinstance(step, Record | Place):
            move = step.applied(move, now)
            self._ledger = self._ledger.with_surge_move(move)
            step = next_step(move, observed, now)
        if isinstance(step, Restore):
            self.requests.restore(intent)
        elif isinstance(step, Evict):
            self.requests.evict(intent)  # the next turn finds whether the pod has left
        elif isinstance(step, End):
            self._ledger = self._ledger.without_surge_move(intent.id)
            self.tally.without_gap += step.outcome is Outcome.EVICTED
            self._settle(intent, Finish(outcome=step.outcome, detail=step.detail), now)

    def _observe(self, move: SurgeMove) -> ObservedMove:
        intent, objects = move.intent, self.objects
        observed = ObservedMove(
            pod=objects.pod(intent.pod_uid),
            deployment=objects.deployment(move.workload),
            replica_set=objects.replica_set(move.workload, move.replica_set),
            siblings=tuple(objects.replicas_on_nodes(move.workload)),
        )
        placed = placed_replacement(move, observed)
        returned = placed is not None and placed.spec.node_name == intent.node
        return msgspec.structs.replace(observed, misplaced="the pod was to leave this node" if returned else "")

    def _settle(self, intent: EvictionIntent, finish: Finish, now: float) -> None:
        self._ledger = self._ledger.settle(intent.id, finish.outcome, now)
        self._report(intent, finish, now)

    def _report(self, intent: EvictionIntent, finish: Finish, now: float) -> None:
        if finish.outcome is Outcome.EVICTED:
            self.tally.evicted += 1
        else:
            self.tally.refused[finish.limit or finish.detail] += 1
        self.publish(finish.message(intent, now))
