"""The scorer's shell: receives messages, and responds to kube-scheduler and to `score.explain`."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus import channels
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN, cluster_review, decision, placement_advice
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ExplainRequest, Explanation, ScoreDecision
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.numeric import Rows
from equipoise.runtime.bus import Bus, BusError, Endpoint
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health
from equipoise.scorer.decisions.explanations.explanation import explain
from equipoise.scorer.decisions.explanations.placement_advice import advise, deserves_advice
from equipoise.scorer.decisions.filtering import FilteredNodes
from equipoise.scorer.decisions.neutral_scores import ExtenderScores, neutral
from equipoise.scorer.settings import ScorerSettings
from equipoise.scorer.shell.decision_sampler import DecisionSampler
from equipoise.scorer.shell.extender_server import ExtenderServer
from equipoise.scorer.shell.hint_publisher import HintPublisher
from equipoise.scorer.shell.metrics import ScorerMetrics
from equipoise.scorer.state.cluster_review import HOUR, ClusterReviewer
from equipoise.scorer.state.scoring_state import Prioritized, ScoringState

log = structlog.get_logger()

_PRUNE_INTERVAL = 5.0
_REVIEW_INTERVAL = 10.0
_MAX_QUEUED_DECISIONS = 100
_NEUTRAL_BY_SETTING = "scores are set to neutral (scorer.neutral)"


@dataclass(kw_only=True)
class Scorer:
    """Scores pods. Fails open: without sufficient data, scores are neutral and kube-scheduler decides alone."""

    settings: ScorerSettings
    load: LoadSettings
    thresholds: Thresholds
    bus: Bus
    clock: Clock
    health: Health
    metrics: CollectorRegistry
    hints: bool = False
    """Whether placement hints are computed."""

    identity: str = "scorer"
    """The identity in the heartbeats of this process."""

    def __post_init__(self) -> None:
        self._metrics = ScorerMetrics(self.metrics)
        self._state = ScoringState(
            self.load, self.settings, max_score=self.settings.extender.max_score, limits=self.thresholds.resources
        )
        self._hints = None
        if self.hints and not self.settings.neutral:
            self._hints = HintPublisher(self._state, self.settings.hints, self.clock, self._metrics, self.identity)
        self._shadow_failed = False
        self._reviewer = ClusterReviewer(self.thresholds.high, self.thresholds.pressure)
        advice_per_second = self.settings.advice.per_second
        self._placed = asyncio.Queue[tuple[str, PlacedPod]](max(1, math.ceil(advice_per_second)))
        self._attached = False
        self._sampler = DecisionSampler(self.settings.decisions_per_second)
        self._decisions = asyncio.Queue[ScoreDecision](_MAX_QUEUED_DECISIONS)
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The port of the extender, once it is open."""

    async def attach(self) -> None:
        """Subscribe. Returns when the last values of all subjects are received."""
        self._report_missing_windows()
        follow, nodes = self.bus.follow, self._state.nodes
        await follow(channels.WORKLOAD_UTILIZATIONS, nodes.on_workload)
        await follow(channels.EVICTION_INTENTS, self.on_eviction_intent)
        await follow(channels.EVICTION_OUTCOMES, self.on_eviction_outcome)
        await follow(channels.NODE_PLACEMENTS, self.on_node_placement)
        await follow(channels.EMPTYING, self._state.emptying.on_message)
        await self.bus.follow_many(channels.NODE_UTILIZATIONS, nodes.on_utilizations)
        if self.settings.reclaimed.enabled:
            await follow(channels.RECLAIMED_NODES, nodes.on_reclaimed)
        await follow(channels.UTILIZATION_CYCLES, self.on_utilization_cycle)
        if self._hints is not None:
            await follow(channels.HEARTBEATS.of("scorer"), self._hints.on_heartbeat)
        endpoint = Endpoint(subject=SCORE_EXPLAIN, request_type=ExplainRequest, handler=self.on_explain_request)
        await self.bus.serve("scorer", [endpoint])
        self._prune()
        self.health.warmed_up()
        self._attached = True

    async def run(self) -> None:
        """Serve until cancelled.

        Raises ConfigurationError if the address is not available, or open to clients that cannot be verified.
        """
        self._check_clients()
        server = ExtenderServer(self, self.settings.extender, self.clock, self._metrics)
        async with server.serve(self.settings.listen) as port, asyncio.TaskGroup() as tasks:
            self.port.set_result(port)
            log.info("serving", listen=self.settings.listen, port=port, neutral=self.settings.neutral)
            tasks.create_task(self._publish_decisions())
            tasks.create_task(self._prune_regularly())
            tasks.create_task(self._advise())
            tasks.create_task(self._review_cluster())
            if self._hints is not None:
                tasks.create_task(self._hints.run(self._publish))
            tasks.create_task(server.accept())
            tasks.create_task(server.reload_certificates(self.health))

    def _check_clients(self) -> None:
        listen = self.settings.listen
        if not self.settings.serves_any_client:
            return
        if not self.settings.extender.allow_unauthenticated:
            raise ConfigurationError(
                f"scorer.listen: any client that reaches {listen} could decide where pods are placed. Set "
                "scorer.extender.tls with clientCaFile (`equipoise certificates` creates the files), listen on a "
                "loopback address, or set scorer.extender.allowUnauthenticated: true"
            )
        text = f"the extender at {listen} answers anyone: set scorer.extender.tls with clientCaFile"
        self.health.set_problem("extender_clients", text)

    # messages

    def on_utilization_cycle(self, message: UtilizationCycle, now: float) -> bool:
        accepted = self._state.on_cycle(message, now)
        self._prune()
        return accepted

    def on_eviction_intent(self, message: EvictionIntent, now: float) -> None:
        self._state.replacements.on_intent(message, now)
        if self._hints is not None:
            self._hints.on_eviction()

    def on_eviction_outcome(self, message: EvictionOutcome, now: float) -> None:
        self._state.replacements.on_outcome(message, now)
        if self._hints is not None:
            self._hints.on_eviction()

    def on_node_placement(self, message: NodePlacement, now: float) -> bool:
        placements = self._state.on_placement(message, now)
        if placements is None:
            return False
        if self._hints is not None:
            self._hints.on_placement(message, [placement.pod for placement in placements])
        for placement in placements:
            if placement.reservation is not None:
                self._metrics.on_placed(followed=placement.followed, chance=placement.reservation.chance)
            self._on_new_pod(placement.pod, placement.node)
        return True

    # requests

    async def on_explain_request(self, request: ExplainRequest) -> Explanation:
        """`score.explain`: the scores of a pod's candidates as of now, and their reasons."""
        neutral_by = _NEUTRAL_BY_SETTING if self.settings.neutral else ""
        return explain(self._state, request, self.clock.now(), neutral_by=neutral_by)

    def rows(self, names: Sequence[str]) -> Rows:
        """See `ExtenderHandler`."""
        return self._state.nodes.rows(names)

    def prioritize(
        self, pod: PodDemand, names: Sequence[str], *, rows: Rows | None = None, late: bool = False
    ) -> ExtenderScores:
        """One integer per node, 0..`scorer.extender.maxScore`. A late request gets neutral scores at once."""
        now = self.clock.now()
        if self.settings.neutral:
            prioritized = Prioritized(scores=neutral(len(names), _NEUTRAL_BY_SETTING), reason="setting")
        elif late:
            scores = neutral(len(names), "the request was received too late to be scored")
            prioritized = Prioritized(scores=scores, reason="late")
        else:
            prioritized = self._state.prioritize(pod, names, now, rows=rows)
        if prioritized.reason:
            self._metrics.neutral.labels(prioritized.reason).inc()
        self._count_shadow(prioritized)
        if self._sampler.take(self.clock.monotonic()):
            try:
                self._decisions.put_nowait(self._state.decision(prioritized, pod, len(names), now))
            except asyncio.QueueFull:
                self._metrics.decisions_dropped.inc()
        return prioritized.scores

    def filter(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> FilteredNodes:
        """The nodes that the pod may use; all of them without sufficient data."""
        if late or self.settings.neutral:
            return FilteredNodes(nodes=list(names))
        return self._state.filter(pod, names, self.thresholds.high, self.clock.now())

    def on_request(self, *, node_objects: bool) -> None:
        """Count a request of kube-scheduler, and report if its configuration does not suit the filter."""
        self._metrics.extender_requests += 1
        text = None
        if node_objects and self.settings.extender.filter:
            text = "kube-scheduler sends whole nodes: set nodeCacheCapable: true, else filtered nodes lose their pods"
        self.health.set_problem("extender", text)

    def _count_shadow(self, prioritized: Prioritized) -> None:
        shadow = self._state.shadow
        if prioritized.shadow is not None:
            self._metrics.shadow_requests.inc()
            self._metrics.shadow_disagreements.inc(not prioritized.shadow.agrees)
        elif shadow is not None and shadow.failure and not self._shadow_failed:
            self._shadow_failed = True
            self._metrics.shadow_failures.inc()
            self.health.set_problem("shadow", f"the shadow policy failed and is off: {shadow.failure}")

    # background tasks

    async def _publish(self, subject: str, message: Message) -> bool:
        try:
            await self.bus.publish(subject, message)
        except BusError as error:
            log.debug("message dropped", subject=subject, error=str(error))
            return False
        return True

    async def _publish_decisions(self) -> None:
        """Publishes decisions in a task of its own, so that a slow bus delays no response."""
        while True:
            message = await self._decisions.get()
            if not await self._publish(decision("scorer", message.pod.namespace, message.pod.name), message):
                self._metrics.decisions_dropped.inc()

    def _on_new_pod(self, pod: PlacedPod, node: str) -> None:
        """Queues a new pod for advice, unless it was placed before this scorer started: the loads of that time are not
        known."""
        max_age = self.load.freshness.score
        if not self._attached or not deserves_advice(pod, node, max_age=max_age, now=self.clock.now()):
            return
        self._metrics.placed_pods.labels("unknown" if pod.hint is None else pod.hint.node).inc()
        if self.settings.advice.per_second > 0:
            self._queue_advice(pod, node)

    def _queue_advice(self, pod: PlacedPod, node: str) -> None:
        try:
            self._placed.put_nowait((node, pod))
        except asyncio.QueueFull:
            self._reviewer.skip()
            self._metrics.advice.labels("skipped").inc()

    async def _advise(self) -> None:
        """Publishes advice at a constant rate, so that requests are served in between."""
        while True:
            node, pod = await self._placed.get()
            with self.health.unreadable.guard("advice", f"{pod.namespace}/{pod.name}"):
                advice = advise(self._state, pod, node, self.thresholds.high, self.clock.now())
                if advice is not None:
                    published = await self._publish(placement_advice(pod.namespace, pod.name, pod.uid), advice)
                    self._metrics.advice.labels("published" if published else "dropped").inc()
            await self.clock.sleep(1.0 / self.settings.advice.per_second)

    async def _review_cluster(self) -> None:
        while True:
            await self.clock.sleep(_REVIEW_INTERVAL)
            with self.health.unreadable.guard("nodes", "the review of all nodes"):
                await self._review(self.clock.now())

    async def _review(self, now: float) -> None:
        names, load = self._state.nodes.current_load(now)
        self._metrics.on_cluster(load, self._state.nodes.requested())
        known = not self._state.coverage_problem(now)
        for review in self._reviewer.observe(
            names, load, now, known=known, pressures=self._state.nodes.pressures(names, now)
        ):
            message = msgspec.structs.replace(review, scores=self._metrics.scores_followed())
            # If a review is dropped, the next one includes it, unless it was the last of its hour.
            await self._publish(cluster_review(int(review.since // HOUR), int(review.since)), message)

    async def _prune_regularly(self) -> None:
        while True:
            await self.clock.sleep(_PRUNE_INTERVAL)
            with self.health.unreadable.guard("nodes", "the coverage"):
                self._prune()

    def _prune(self) -> None:
        """Remove expired state, and report what is known of the cluster."""
        now, state = self.clock.now(), self._state
        state.prune(now)
        self.health.set_problem("coverage", state.coverage_problem(now) or None)
        unmeasured = ", ".join(state.nodes.unmeasured_statistics())
        text = f"the policy uses {unmeasured}, which no node has: see collector.statistics and statisticsWindowLimit"
        self.health.set_problem("statistics", text if unmeasured else None)
        known = state.nodes.fresh_count(now)
        self._metrics.nodes.labels("known").set(known)
        self._metrics.nodes.labels("unknown").set(len(state.nodes) - known)
        self._metrics.reservations.set(len(state.reservations))

    def _report_missing_windows(self) -> None:
        """Windows of a policy that are not measured do not count; without any other, every score is neutral."""
        configured = [window.name for window in self.load.windows]
        for key, policy in (("policy", self.settings.policy), ("shadow", self.settings.shadow)):
            used = () if policy is None else policy.windows
            missing = [name for name in used if name not in configured]
            if missing:
                log.warning("windows not measured", policy=key, policy_windows=missing, load_windows=configured)
            text = None
            if missing and len(missing) == len(used):
                text = f"the {key} uses the windows {', '.join(missing)}, load.windows has {', '.join(configured)}"
            self.health.set_problem(key, text)
