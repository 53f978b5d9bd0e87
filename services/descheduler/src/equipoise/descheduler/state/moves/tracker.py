"""What the descheduler keeps between evaluations: abnormal counts, pending moves, load reductions and cooldowns."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import Window
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import FUTURE_TOLERANCE
from equipoise.contracts.messages.descheduling import LoadReduction, NodeClassification, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingState
from equipoise.descheduler.state import cooldowns, load_reductions
from equipoise.descheduler.state.abnormal_counts import AbnormalCounts, counted
from equipoise.descheduler.state.cooldowns import MOVED, Cooldowns, CooldownSettings
from equipoise.descheduler.state.load_reductions import ReductionTrials
from equipoise.descheduler.state.moves import pending_moves
from equipoise.descheduler.state.moves.campaign_moves import CampaignMoves
from equipoise.descheduler.state.moves.pending_moves import PendingMoves, PodLocation, TrackedMove


class TrackerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long moves, counts and cooldowns are kept: fields with the same names as in `descheduler`."""

    interval: float
    replacement_timeout: float
    dry_run_move_lifetime: float
    cooldown: CooldownSettings


class Tracker:
    """The state of a descheduler. Messages and published intents update it. A new leader starts with the outcomes that
    the stream retains."""

    def __init__(self, settings: TrackerSettings) -> None:
        self._settings = settings
        self._latest = 0.0
        self._trials: ReductionTrials = {}
        self.counts: Mapping[str, AbnormalCounts] = {}
        """The counts by strategy."""

        self.pending: PendingMoves = {}
        self.campaign = CampaignMoves()
        self.emptying = EmptyingState()
        """The nodes that consolidation was emptying after the last evaluation."""

        self._cooldowns: Cooldowns = {}
        self._dry_run_cooldowns: Cooldowns = {}
        """Cooldowns that began with outcomes of dry runs: none of them delays an eviction."""

    @property
    def cooldowns(self) -> Cooldowns:
        """The cooldowns in effect: while binders make dry runs, also those that began with earlier evictions."""
        return cooldowns.merged(self._cooldowns, self._dry_run_cooldowns)

    def reset_counts(self) -> None:
        """Forgets the counts: a new leader has evaluated nothing yet."""
        self.counts = {}

    def count(self, strategy: str, nodes: Sequence[NodeClassification], now: float) -> AbnormalCounts:
        """The counts of a strategy after this evaluation."""
        counts = counted(self.counts.get(strategy, {}), nodes, now=now, interval=self._settings.interval)
        self.counts = {**self.counts, strategy: counts}
        return counts

    def proposed(self, move: TrackedMove) -> None:
        """Adds a move. Call this before its intent is published: the outcome may arrive before the acknowledgement of
        the bus."""
        self.pending = {**self.pending, move.id: move}

    def withdrawn(self, intent_id: str) -> None:
        """Removes a move whose intent the bus did not accept."""
        self.pending = {id: move for id, move in self.pending.items() if id != intent_id}

    def read_clock(self, now: float) -> None:
        """Corrects the kept times if this clock was set back: the remaining time of moves and cooldowns stays the same.
        Call it before `now` is used.

        Otherwise nothing would be moved until those times, perhaps for a year. Counts begin anew.
        """
        back = self._latest - now
        if back > FUTURE_TOLERANCE:
            self.pending = pending_moves.earlier(self.pending, back, now)
            self._cooldowns = cooldowns.earlier(self._cooldowns, back)
            self._dry_run_cooldowns = cooldowns.earlier(self._dry_run_cooldowns, back)
            self.counts = {}
            self.emptying = EmptyingState()  # the nodes have taints
        self._latest = now

    def on_outcome(self, outcome: EvictionOutcome, now: float) -> None:
        """Records the outcome of an intent. Recording the same outcome twice changes nothing."""
        self.read_clock(now)
        self.pending = pending_moves.after_outcome(
            self.pending,
            outcome,
            replacement_timeout=self._settings.replacement_timeout,
            dry_run_lifetime=self._settings.dry_run_move_lifetime,
            now=now,
        )
        if outcome.dry_run or outcome.outcome is Outcome.DRY_RUN:
            self._dry_run_cooldowns = cooldowns.after_outcome(
                self._dry_run_cooldowns, outcome, self._settings.cooldown, now
            )
        else:
            self._cooldowns = cooldowns.after_outcome(self._cooldowns, outcome, self._settings.cooldown, now)
        if outcome.outcome is Outcome.EVICTED and outcome.intent_id in self.pending:
            self._trials = load_reductions.after_eviction(self._trials, self.pending[outcome.intent_id])
        if outcome.outcome in MOVED:
            self.counts = {
                strategy: {node: count for node, count in counts.items() if node != outcome.node}
                for strategy, counts in self.counts.items()
            }

    def awaited_workloads(self) -> set[Workload]:
        """The workloads of evicted pods without a replacement."""
        workloads = {move.workload for move in self.pending.values() if move.evicted_at is not None}
        return {workload for workload in workloads if workload is not None}

    def update(
        self,
        awaited: Mapping[Workload, Sequence[Pod]],
        locations: Mapping[str, PodLocation],
        nodes: Collection[str],
        now: float,
        surge_pods: Collection[str] = (),
    ) -> list[ReplacementPlaced]:
        """Ends the moves whose replacement was placed, and expired moves and cooldowns; returns the replacements.

        A replacement that returned to the evicted node starts a cooldown of its workload. `awaited`: the pods of
        `awaited_workloads`; `locations`: the locations of the pods of dry-run moves, by UID; `nodes`: names of all
        nodes; `surge_pods`: the UIDs of the pods that binders move without a gap.
        """
        placed: list[ReplacementPlaced] = []
        for id, pod in pending_moves.replacements(self.pending, awaited).items():
            move, node = self.pending[id], pod.spec.node_name
            name = pod.metadata.name
            placed.append(converted(move, ReplacementPlaced, intent_id=id, replacement=name, placed_on=node))
            self.campaign = self.campaign.with_replacement(move, uid=pod.metadata.uid, placed_on=node)
            if node == move.node and move.workload is not None:
                self._cooldowns = cooldowns.after_return(
                    self._cooldowns, move.workload, move.node, self._settings.cooldown, now
                )
        before, self.pending = self.pending, self.still_pending(awaited, locations, nodes, now, surge_pods)
        lost = [before[id] for id in before.keys() - self.pending.keys()]
        for move in lost:
            if move.trigger and move.real and move.evicted_at is None:  # it has no outcome
                planned = move.trigger, move.decided_at, self._settings.cooldown, now
                self._cooldowns = cooldowns.after_partial_set(self._cooldowns, *planned)
                self._dry_run_cooldowns = cooldowns.after_partial_set(self._dry_run_cooldowns, *planned)
        self._cooldowns = cooldowns.pruned(self._cooldowns, self._settings.cooldown, now)
        self._dry_run_cooldowns = cooldowns.pruned(self._dry_run_cooldowns, self._settings.cooldown, now)
        return placed

    def still_pending(
        self,
        awaited: Mapping[Workload, Sequence[Pod]],
        locations: Mapping[str, PodLocation],
        nodes: Collection[str],
        now: float,
        surge_pods: Collection[str] = (),
    ) -> PendingMoves:
        """The pending moves without those that have ended, as `update` would leave them. Changes nothing."""
        done = pending_moves.replacements(self.pending, awaited)
        waiting = {id: move for id, move in self.pending.items() if id not in done}
        return pending_moves.current(waiting, locations, nodes, now, surge_pods)

    def load_reductions(self, nodes: Sequence[ClusterNode], window: Window, now: float) -> list[LoadReduction]:
        """The load reductions after earlier evictions, once `window` (the shortest) begins after them.

        A node whose load repeatedly did not fall enters a cooldown.
        """
        results = load_reductions.completed(self._trials, nodes, window=window.name, length=window.length)
        self._trials = load_reductions.remaining(self._trials, results, length=window.length, now=now)
        for result in results:
            self._cooldowns = cooldowns.after_reduction(self._cooldowns, result, self._settings.cooldown, now)
        return results

    def end_dry_runs(self) -> None:
        """Discards dry-run moves and their cooldowns: binders evict now, and these pods still have to be moved."""
        self.pending = pending_moves.real_moves(self.pending)
        self._dry_run_cooldowns = {}
