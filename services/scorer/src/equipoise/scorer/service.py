"""The shell of the scorer: hears the bus, keeps the picture, answers kube-scheduler and the bus."""

import asyncio
import math
from collections.abc import Sequence

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus.subjects import (
    PREFIX,
    SCORE_EXPLAIN,
    SCORE_FILTER,
    SCORE_PRIORITIZE,
    cluster_review,
    decision,
    placement_advice,
)
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import Filtering, PrioritizeQuestion, Ranking, ScoreDecision
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.bus import Bus, BusError, Delivery, Endpoint
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health
from equipoise.scorer.decisions.fleet_review import HOUR, Reviewer
from equipoise.scorer.decisions.placement_advice import deserves_advice
from equipoise.scorer.decisions.policies import name_of
from equipoise.scorer.decisions.score_integers import Answer, neutral
from equipoise.scorer.decisions.scoring_state import Picture, Prioritized
from equipoise.scorer.decisions.shadow import Shadow
from equipoise.scorer.settings import ScorerSettings
from equipoise.scorer.shell.decision_sampler import Sampler
from equipoise.scorer.shell.extender_server import Extender
from equipoise.scorer.shell.metrics import ScorerMetrics

log = structlog.get_logger()

_HOUSEKEEPING_SECONDS = 5.0
_WAITING_DECISIONS = 100
_REVIEW_SECONDS = 10.0
_SET_TO_NEUTRAL = "scores are set to neutral (scorer.neutral)"


class Scorer:
    """Scores pods. Fails open: on any doubt an answer is neutral, and kube-scheduler decides alone."""

    def __init__(
        self,
        *,
        settings: ScorerSettings,
        load: LoadSettings,
        thresholds: Thresholds,
        bus: Bus,
        clock: Clock,
        health: Health,
        metrics: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._load = load
        self._thresholds = thresholds
        self._bus = bus
        self._clock = clock
        self._health = health
        self._metrics = ScorerMetrics(metrics)
        policy, shadow = settings.policy, settings.shadow
        self._shadow = None if shadow is None else Shadow(shadow, name_of(shadow), least_spread=settings.least_spread)
        self._picture = Picture(
            load=load,
            policy=policy,
            policy_name=name_of(policy),
            least_spread=settings.least_spread,
            reservation=settings.reservation,
            after_eviction=settings.after_eviction,
            resolution=settings.extender.resolution,
            shadow=self._shadow,
        )
        self._reviewer = Reviewer(thresholds.high)
        self._to_advise: asyncio.Queue[tuple[str, PlacedPod]] = asyncio.Queue(
            max(1, math.ceil(settings.advice.per_second))
        )
        self._advising = False
        self._sampler = Sampler(settings.decisions_per_second)
        self._decisions: asyncio.Queue[ScoreDecision] = asyncio.Queue(_WAITING_DECISIONS)
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Where kube-scheduler is answered, once it is."""

    async def attach(self) -> None:
        """Subscribe. Returns when the last values of all are known: from then on answers are worth asking for."""
        self._say_missing_windows()
        follow = self._bus.subscribe_latest
        await follow(f"{PREFIX}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization)
        await self._bus.subscribe(f"{PREFIX}.eviction.intent.*.*", EvictionIntent, self.on_eviction_intent)
        await follow(f"{PREFIX}.eviction.outcome.*.*", EvictionOutcome, self.on_eviction_outcome)
        await follow(f"{PREFIX}.placement.node.*", NodePlacement, self.on_node_placement)
        await follow(f"{PREFIX}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await follow(f"{PREFIX}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.serve(
            "scorer",
            [
                Endpoint(
                    subject=SCORE_PRIORITIZE, request_type=PrioritizeQuestion, handler=self.on_prioritize_question
                ),
                Endpoint(subject=SCORE_FILTER, request_type=PrioritizeQuestion, handler=self.on_filter_question),
                Endpoint(subject=SCORE_EXPLAIN, request_type=ExplainRequest, handler=self.on_explain_question),
            ],
        )
        self._look_after_picture()
        self._health.warmed_up()
        self._advising = self._settings.advice.per_second > 0

    async def run(self) -> None:
        """Answer until cancelled. Raises ConfigurationError when the address cannot be had."""
        extender = Extender(self, self._settings.extender, self._clock, self._metrics)
        async with extender.serve(self._settings.listen) as port, asyncio.TaskGroup() as tasks:
            self.port.set_result(port)
            log.info("answering", listen=self._settings.listen, port=port, neutral=self._settings.neutral)
            tasks.create_task(self._publish_decisions())
            tasks.create_task(self._keep_house())
            tasks.create_task(self._advise())
            tasks.create_task(self._review_fleet())
            tasks.create_task(extender.follow_certificates(self._health))

    # what is heard

    async def on_workload_utilization(self, delivery: Delivery[WorkloadUtilization]) -> None:
        self._count_outdated("workload_utilization", self._picture.on_workload(delivery.message))

    async def on_node_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        taken = self._picture.on_utilization(delivery.message, self._clock.now())
        self._count_outdated("node_utilization", taken)

    async def on_utilization_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        self._count_outdated("utilization_cycle", self._picture.on_cycle(delivery.message))
        self._look_after_picture()

    async def on_eviction_intent(self, delivery: Delivery[EvictionIntent]) -> None:
        self._picture.on_intent(delivery.message, self._clock.now())

    async def on_eviction_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        self._picture.on_outcome(delivery.message, self._clock.now())

    async def on_node_placement(self, delivery: Delivery[NodePlacement]) -> None:
        arrivals = self._picture.on_placement(delivery.message, self._clock.now())
        self._count_outdated("node_placement", arrivals is not None)
        for arrival in arrivals or ():
            if arrival.booking is not None:
                self._metrics.on_placed(followed=arrival.followed, chance=arrival.booking.chance)
            self._may_advise(arrival.pod, arrival.node)

    # what is asked

    async def on_prioritize_question(self, question: PrioritizeQuestion) -> Ranking:
        """`score.prioritize`, for schedulers that speak NATS."""
        names = list(dict.fromkeys(question.nodes))
        answer = self.prioritize(question.pod, names)
        scores = dict(zip(names, answer.scores.tolist(), strict=True))
        return Ranking(scores=scores, neutral=answer.neutral, why=answer.why)

    async def on_filter_question(self, question: PrioritizeQuestion) -> Filtering:
        """`score.filter`. Who asks it wants the answer: it needs no opting in."""
        return self.filter(question.pod, list(dict.fromkeys(question.nodes)))

    async def on_explain_question(self, question: ExplainRequest) -> Explanation:
        """`score.explain`: why a pod would go where, as if asked now."""
        by = _SET_TO_NEUTRAL if self._settings.neutral else ""
        return self._picture.explain_question(question, self._clock.now(), neutral_by=by)

    def prioritize(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> Answer:
        """One integer per node, 0..`scorer.extender.resolution`. Late questions are answered at once and neutrally."""
        now = self._clock.now()
        if self._settings.neutral:
            answer = neutral(len(names), _SET_TO_NEUTRAL)
            prioritized = Prioritized(answer=answer, reason="setting")
        elif late:
            answer = neutral(len(names), "the question was too late to be looked at")
            prioritized = Prioritized(answer=answer, reason="late")
        else:
            prioritized = self._picture.prioritize(pod, names, now)
        if prioritized.reason:
            self._metrics.neutral.labels(prioritized.reason).inc()
        if prioritized.shadow is not None:
            self._metrics.shadow_questions.inc()
            self._metrics.shadow_disagreements.inc(not prioritized.shadow.agrees)
        elif self._shadow is not None and self._shadow.failure:
            self._metrics.shadow_failures.inc()
            self._health.set_problem("shadow", f"the shadow policy failed and is off: {self._shadow.failure}")
            self._shadow = None  # said once
        if self._sampler.take(self._clock.monotonic()):
            self._tell(self._picture.explain(prioritized, pod, len(names), now))
        return prioritized.answer

    def filter(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> Filtering:
        """Which nodes stay; all of them on any doubt."""
        if late or self._settings.neutral:
            return Filtering(nodes=list(names))
        return self._picture.filter(pod, names, self._thresholds.high, self._clock.now())

    def on_asked(self, *, whole_nodes: bool) -> None:
        self._metrics.asked += 1
        text = None
        if whole_nodes and self._settings.extender.filter:
            text = "kube-scheduler sends whole nodes: set nodeCacheCapable: true, else filtered nodes lose their pods"
        self._health.set_problem("extender", text)

    # what goes on by itself

    def _tell(self, told: ScoreDecision) -> None:
        try:
            self._decisions.put_nowait(told)
        except asyncio.QueueFull:
            self._metrics.dropped.inc()

    async def _publish_decisions(self) -> None:
        """Beside the answers, so that a slow bus delays none."""
        while True:
            told = await self._decisions.get()
            try:
                await self._bus.publish(decision("scorer", told.pod.namespace, told.pod.name), told)
            except BusError as error:
                self._metrics.dropped.inc()
                log.debug("decision dropped", pod=told.pod.name, error=str(error))

    def _may_advise(self, pod: PlacedPod, node: str) -> None:
        """Not of what was there when this scorer began: nobody knows how the fleet was then."""
        life = self._load.freshness.score
        if not self._advising or not deserves_advice(pod, node, life=life, now=self._clock.now()):
            return
        try:
            self._to_advise.put_nowait((node, pod))
        except asyncio.QueueFull:
            self._reviewer.skip()
            self._metrics.advice.labels("skipped").inc()

    async def _advise(self) -> None:
        """At a steady pace, so that between two of them there is time to answer."""
        while True:
            node, pod = await self._to_advise.get()
            told = self._picture.advise(pod, node, self._thresholds.high, self._clock.now())
            if told is not None:
                try:
                    await self._bus.publish(placement_advice(pod.namespace, pod.name, pod.uid), told)
                    self._metrics.advice.labels("told").inc()
                except BusError as error:
                    self._metrics.advice.labels("dropped").inc()
                    log.debug("advice dropped", pod=pod.name, error=str(error))
            await self._clock.sleep(1.0 / self._settings.advice.per_second)

    async def _review_fleet(self) -> None:
        while True:
            await self._clock.sleep(_REVIEW_SECONDS)
            now = self._clock.now()
            names, load = self._picture.fleet.current_load(now)
            for review in self._reviewer.look(names, load, now, known=not self._picture.doubt(now)):
                told = msgspec.structs.replace(review, scores=self._metrics.scores())
                try:
                    await self._bus.publish(cluster_review(int(review.since // HOUR), int(review.since)), told)
                except BusError as error:
                    log.debug("review dropped", error=str(error))  # the next one holds it too, but for an hour's last

    async def _keep_house(self) -> None:
        while True:
            await self._clock.sleep(_HOUSEKEEPING_SECONDS)
            self._look_after_picture()

    def _look_after_picture(self) -> None:
        now = self._clock.now()
        picture = self._picture
        picture.forget(now)
        self._health.set_problem("coverage", picture.doubt(now) or None)
        unmeasured = ", ".join(picture.fleet.unmeasured())
        text = (
            f"the policy looks at {unmeasured}, which no node has: see collector.statistics and statisticsWindowLimit"
        )
        self._health.set_problem("statistics", text if unmeasured else None)
        known = picture.fleet.fresh_count(now)
        self._metrics.nodes.labels("known").set(known)
        self._metrics.nodes.labels("unknown").set(len(picture.fleet) - known)
        self._metrics.bookings.set(len(picture.reservations))

    def _count_outdated(self, kind: str, taken: bool) -> None:
        if not taken:
            self._metrics.late.labels(kind).inc()

    def _say_missing_windows(self) -> None:
        """Windows that a policy weighs but nobody measures are left out; with none left every score is neutral."""
        configured = [window.name for window in self._load.windows]
        for key, policy in (("policy", self._settings.policy), ("shadow", self._settings.shadow)):
            wanted = () if policy is None else policy.windows
            missing = [name for name in wanted if name not in configured]
            if missing:
                log.warning("windows not measured", policy=key, policy_windows=missing, load_windows=configured)
            text = None
            if missing and len(missing) == len(wanted):
                text = f"the {key} looks at windows {', '.join(missing)}, load.windows has {', '.join(configured)}"
            self._health.set_problem(key, text)
