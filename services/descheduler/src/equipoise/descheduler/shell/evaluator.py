"""Evaluates the cluster every interval while this replica leads, and publishes intents and decisions."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import msgspec
import structlog

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.message_size import shortened
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.messages.consolidation import ConsolidationRequest, ConsolidationResponse
from equipoise.contracts.messages.descheduling import DescheduleDecision, EvaluatedCluster, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME, REAL
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingState, EmptyingStep
from equipoise.descheduler.decisions.evaluation.campaign_plan import campaign_plan
from equipoise.descheduler.decisions.evaluation.consolidation import consolidation_response, with_prices
from equipoise.descheduler.decisions.evaluation.messages import (
    FollowUp,
    decision_of,
    evaluated_cluster,
    nodes_being_emptied,
    plan_response,
    proposals,
)
from equipoise.descheduler.decisions.evaluation.pipeline import consolidation_now, evaluate, observe, preferred_nodes
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot, WatchedObjects
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.shell.approvals import Approvals
from equipoise.descheduler.shell.cluster_watch import ClusterWatch
from equipoise.descheduler.shell.metrics import DeschedulerMetrics
from equipoise.descheduler.shell.plan_server import PlanServer
from equipoise.descheduler.state.cooldowns import in_campaign, nodes_in_cooldown
from equipoise.descheduler.state.latest_messages import LatestMessages
from equipoise.descheduler.state.moves.pending_moves import TrackedMove, approved_pods, reported_dry_runs
from equipoise.descheduler.state.moves.tracker import Tracker
from equipoise.runtime.bus import AlreadyQueued, BusError
from equipoise.runtime.process.lifecycle import Runtime

MAX_PODS_INLINE = 2_000
"""The number of pods above which decisions run in a thread: they take seconds, and the event loop sends heartbeats."""

MAX_MESSAGE = 900_000
"""Bytes of a decision or plan. The bus takes 1 MiB, and more only where NATS is configured for it."""

MAX_NAMED_NODES = 5
"""Nodes in cooldown that /readyz names."""

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger()


async def compute(pods: int, decide: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a decision about this many pods."""
    if pods <= MAX_PODS_INLINE:
        return decide(*args, **kwargs)
    return await asyncio.to_thread(decide, *args, **kwargs)


@dataclass
class Evaluator:
    """Evaluates with `run` while the Lease is held. The other replicas call `prune`."""

    runtime: Runtime[DeschedulerSettings]
    watch: ClusterWatch
    messages: LatestMessages
    tracker: Tracker
    metrics: DeschedulerMetrics

    def __post_init__(self) -> None:
        runtime, shared = self.runtime, self.runtime.configuration.shared
        self._settings = runtime.own.evaluation(shared.load, shared.thresholds, shared.rules, shared.placement)
        self._bus, self._clock, self._health = runtime.bus, runtime.clock, runtime.health
        self._approvals = Approvals(runtime.kube, shared.kubernetes.namespace)
        self._plans = PlanServer(runtime.bus, runtime.health, self._preview, self._consolidation)

    async def run(self, epoch: LeaseEpoch) -> None:
        """Evaluates until canceled. The counts restart: those of another leader are not known."""
        self.tracker.reset_counts()
        self.tracker.emptying = EmptyingState()  # another replica may have led meanwhile: the nodes have taints
        try:
            async with self._plans.serving(epoch):
                await self._clock.sleep(self.runtime.own.warm_up)
                while True:
                    begun = self._clock.monotonic()
                    # After any error the next evaluation may succeed, and a restart would not help.
                    with self._health.unreadable.guard("evaluations", "the last evaluation"):
                        await self._evaluate(epoch)
                    duration = self._clock.monotonic() - begun
                    self.metrics.evaluation_duration.observe(duration)
                    await self._clock.sleep(max(0.0, self._settings.interval - duration))
        finally:
            # Only evaluations update these problems and metrics.
            for key in ("coverage", "cooldown", "approvals", "binders", "consolidation", "nodes being emptied"):
                self._health.set_problem(key, None)
            self.metrics.nodes_in_cooldown.set(0)
            self.metrics.nodes_being_emptied.set(0)
            self.metrics.dry_run_moves.set(0)

    async def prune(self) -> None:
        """Prunes the state of a replica that does not lead: it receives all messages, too."""
        if not self.watch.problem:
            await self._update(self.watch.objects(), self._now())

    def _now(self) -> float:
        now = self._clock.now()
        self.tracker.read_clock(now)
        return now

    async def _evaluate(self, epoch: LeaseEpoch) -> None:
        now = self._now()
        watched = self.watch.objects()
        placed = await self._update(watched, now)
        snapshot = self._snapshot(watched, now)
        evaluation = await self._compute(evaluate, snapshot, self._settings)
        self._health.set_problem("coverage", evaluation.problem or None)
        await self._publish_emptying(evaluation.emptying, now)
        follow_up = self._follow_up(evaluation.cluster, placed, now)
        cluster: EvaluatedCluster | None = await self._compute(evaluated_cluster, evaluation, snapshot, self._settings)
        proposed = [
            await self._compute(proposals, result, snapshot, self._settings, epoch) for result in evaluation.results
        ]
        self._health.unreadable.replace("rules of pods", evaluation.cluster.failed)
        problem = await self._approve([move for moves in proposed for _, move in moves])
        for result, moves in zip(evaluation.results, proposed, strict=True):
            self.metrics.on_classified(result.strategy, result.classifications)
            counts = self.tracker.count(result.strategy, result.classifications, now)
            published = await self._publish(moves) if not problem else []
            decision = decision_of(
                result,
                counts=counts,
                published=published,
                follow_up=follow_up,
                problem=problem,
                now=now,
                cluster=cluster,
            )
            await self._publish_decision(decision)
            cluster = None
            follow_up = FollowUp(cooldowns=follow_up.cooldowns, dry_run_moves=follow_up.dry_run_moves)

    async def _publish_emptying(self, step: EmptyingStep | None, now: float) -> None:
        """Keeps and publishes the nodes that are being emptied, before the moves away from them."""
        if step is None:
            return
        self.tracker.emptying = step.state
        for ended in step.ended:
            log.warning("node is no longer emptied", node=ended.node, reason=ended.why)
        if step.begun is not None:
            log.info("node is being emptied", node=step.begun.node.name, pods=len(step.begun.moves))
        self._health.set_problem("consolidation", step.stalled or None)
        self.metrics.nodes_being_emptied.set(len(step.state.nodes))
        if self._settings.consolidation.mode != "act":
            return
        message = nodes_being_emptied(step, now=now, interval=self._settings.interval)
        try:
            await self._bus.publish(subjects.NODES_EMPTYING, message)
        except BusError as error:
            self._health.set_problem("nodes being emptied", f"nodes that are being emptied are not published: {error}")
        else:
            self._health.set_problem("nodes being emptied", None)

    def _settings_at(self, level: MovesLevel | None) -> EvaluationSettings:
        """The settings as if `moves.level` were this one; None: as configured."""
        if level is None:
            return self._settings
        shared = self.runtime.configuration.shared
        shared = msgspec.structs.replace(shared, moves=msgspec.structs.replace(shared.moves, level=level))
        return self.runtime.own.evaluation(shared.load, shared.thresholds, shared.rules, shared.placement)

    async def _preview(self, epoch: LeaseEpoch, request: PlanRequest) -> PlanResponse:
        """What an evaluation, or those of a campaign, would propose now if every abnormal node had been so for long
        enough."""
        settings = self._settings_at(request.level)
        snapshot = await self._present()
        evictions = snapshot.evictions
        if request.campaign:
            plan = await self._compute(
                campaign_plan, snapshot, settings, request.campaign, evictions=evictions, leader=epoch
            )
        else:
            evaluation = await self._compute(evaluate, snapshot, settings, needed=1)
            preferred = await self._compute(preferred_nodes, evaluation)
            plan = plan_response(evaluation, snapshot, settings, evictions=evictions, leader=epoch, preferred=preferred)
        plan, lacking = shortened(plan, MAX_MESSAGE)
        return msgspec.structs.replace(plan, shortened=lacking) if lacking else plan

    async def _consolidation(self, epoch: LeaseEpoch, request: ConsolidationRequest) -> ConsolidationResponse:
        """The nodes that the cluster can do without now."""
        settings, snapshot = with_prices(self._settings, request), await self._present()
        consolidated = await self._compute(consolidation_now, snapshot, settings)
        response = consolidation_response(consolidated, settings, evictions=snapshot.evictions, leader=epoch)
        response, lacking = shortened(response, MAX_MESSAGE)
        return msgspec.structs.replace(response, shortened=lacking) if lacking else response

    async def _present(self) -> Snapshot:
        """The snapshot without the moves that have ended since the last evaluation."""
        now = self._clock.now()
        watched = self.watch.objects()
        await asyncio.sleep(0)  # each copy of a large cluster takes a turn of the event loop of its own
        snapshot = self._snapshot(watched, now)
        if snapshot.pending:  # moves may have ended since the last evaluation; the next one reports how
            awaited = self.tracker.awaited_workloads()
            changes = await self._compute(observe, watched, awaited, snapshot.pending, annotations=False)
            pending = self.tracker.still_pending(
                changes.awaited, changes.locations, changes.nodes, now, self.messages.surge_pods or ()
            )
            snapshot = msgspec.structs.replace(snapshot, pending=pending)
        return snapshot

    def _snapshot(self, watched: WatchedObjects, now: float) -> Snapshot:
        monotonic, cooldowns = self._clock.monotonic(), self.tracker.cooldowns
        campaign = self.messages.campaign_permits(monotonic)
        return Snapshot(
            now=now,
            watched=watched,
            nodes=dict(self.messages.utilizations),
            workloads=dict(self.messages.workloads),
            cycles=self.messages.cycles.current(now),
            placements=dict(self.messages.placements),
            pending=self.tracker.pending,
            cooldowns=in_campaign(cooldowns) if campaign else cooldowns,
            counts=self.tracker.counts,
            emptying=self.tracker.emptying,
            campaign=campaign,
            campaign_moves=self.tracker.campaign,
            evictions=self.messages.evictions(monotonic),
            watch_problem=self.watch.problem,
        )

    async def _update(self, watched: WatchedObjects, now: float) -> list[ReplacementPlaced]:
        """Drops expired messages, moves and cooldowns; returns the replacements that were placed."""
        load = self._settings.load
        self.messages.prune(nodes=self.watch.node_names(), before=now - load.lifetime(load.longest))
        changes = await self._compute(observe, watched, self.tracker.awaited_workloads(), self.tracker.pending)
        self._health.set_problem("annotations", changes.unexpected_annotations or None)
        placed = self.tracker.update(
            changes.awaited, changes.locations, changes.nodes, now, self.messages.surge_pods or ()
        )
        for replacement in placed:
            self.metrics.replacements.labels(replacement.result).inc()
            if replacement.result == "returned":
                self.metrics.returns.inc()
                log.warning("replacement returned to the evicted node", pod=replacement.pod_name, node=replacement.node)
        return [
            msgspec.structs.replace(item, hint=self.messages.hint(item.placed_on, item.namespace, item.replacement))
            for item in placed
        ]

    def _follow_up(self, cluster: ClusterView, placed: Sequence[ReplacementPlaced], now: float) -> FollowUp:
        """The results of earlier moves, and the nodes that are in cooldown."""
        reductions = self.tracker.load_reductions(cluster.nodes, self._settings.load.shortest, now)
        for reduction in reductions:
            self.metrics.load_reductions.labels("reduced" if reduction.reduced else "not_reduced").inc()
        cooldowns = nodes_in_cooldown(self.tracker.cooldowns, now)
        dry_runs = reported_dry_runs(self.tracker.pending)
        self.metrics.nodes_in_cooldown.set(len(cooldowns))
        self.metrics.dry_run_moves.set(len(dry_runs))
        named = "; ".join(
            f"{cooldown.node} for {cooldown.until - now:.0f} s: {cooldown.why}"
            for cooldown in cooldowns[:MAX_NAMED_NODES]
        )
        more = f"; and {len(cooldowns) - MAX_NAMED_NODES} more" if len(cooldowns) > MAX_NAMED_NODES else ""
        self._health.set_problem("cooldown", f"nodes in cooldown: {named}{more}" if cooldowns else None)
        return FollowUp(replacements=placed, load_reductions=reductions, cooldowns=cooldowns, dry_run_moves=dry_runs)

    async def _approve(self, proposed: Sequence[TrackedMove]) -> str:
        """Approves moves before they are published. Returns why they cannot be proposed; "" when they can be.

        Approves nothing while evictions are dry runs or paused, and removes the approvals of earlier moves that ended.
        The approval of a pod that is moved without a gap remains until its move ends, also in a pause.
        """
        now = self._clock.now()
        evictions = self.messages.evictions(self._clock.monotonic())
        moves = [*self.tracker.pending.values(), *proposed] if evictions == REAL else []
        problem = await self._approvals.write(approved_pods(moves, now=now), self.messages.surge_pods)
        self._health.set_problem("approvals", problem or None)
        unknown = ""
        if not evictions and self.runtime.kube.as_service_account:
            unknown = (
                f"nothing is proposed: no binder has reported for {HEARTBEAT_LIFETIME:.0f} s what it does with intents"
            )
        self._health.set_problem("binders", unknown or None)
        return problem or unknown

    async def _publish(self, proposed: Sequence[tuple[EvictionIntent, TrackedMove]]) -> list[EvictionIntent]:
        """Publishes the intents of moves; returns those that the bus accepted."""
        published: list[EvictionIntent] = []
        for intent, move in proposed:
            self.tracker.proposed(move)
            if await self._publish_intent(intent):
                published.append(intent)
                self.metrics.intents.labels(intent.strategy).inc()
                log.info(
                    "eviction proposed",
                    pod=intent.pod_name,
                    node=intent.node,
                    target=intent.target,
                    reason=intent.reason,
                )
            else:
                self.tracker.withdrawn(intent.id)
        return published

    async def _publish_intent(self, intent: EvictionIntent) -> bool:
        subject = subjects.eviction_intent(intent.namespace, intent.pod)
        try:
            await self._bus.publish(subject, intent, message_id=intent.id)
        except AlreadyQueued:
            log.debug("an earlier intent is still in the stream", pod=intent.pod_name)
            return False
        except BusError as error:
            self._health.set_problem("intents", f"intents cannot be published: {error}")
            return False
        self._health.set_problem("intents", None)
        return True

    async def _publish_decision(self, decision: DescheduleDecision) -> None:
        """Publishes a decision for people and records: no service depends on it."""
        decision, lacking = shortened(decision, MAX_MESSAGE)
        if lacking:
            decision = msgspec.structs.replace(decision, shortened=lacking)
        problem = f"the decision of {decision.strategy} was too large for the bus: it was published {lacking}"
        self._health.set_problem("decision size", problem if lacking else None)
        try:
            await self._bus.publish(subjects.decision("descheduler", decision.strategy), decision)
        except BusError as error:
            self._health.set_problem("decisions", f"decisions cannot be published: {error}")
        else:
            self._health.set_problem("decisions", None)

    async def _compute(self, decide: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await compute(self.watch.pod_count, decide, *args, **kwargs)
