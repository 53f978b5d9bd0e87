"""The shell of the scorer: hears the bus, keeps the picture, answers kube-scheduler and the bus."""

import asyncio
from collections.abc import Sequence

import structlog
from prometheus_client import CollectorRegistry

from equipoise.contracts.messages import (
    EvictionIntent,
    EvictionOutcome,
    Filtering,
    NodePlacement,
    NodeUtilization,
    PodDemand,
    PrioritizeQuestion,
    Ranking,
    ScoreDecision,
    UtilizationCycle,
    WorkloadUtilization,
)
from equipoise.contracts.settings import LoadSettings, Thresholds
from equipoise.contracts.subjects import PREFIX, SCORE_FILTER, SCORE_PRIORITIZE, decision
from equipoise.runtime.bus import Bus, BusError, Delivery, Endpoint
from equipoise.runtime.clock import Clock
from equipoise.runtime.health import Health
from equipoise.scorer.answer import Answer, neutral
from equipoise.scorer.extender import Extender
from equipoise.scorer.metrics import ScorerMetrics
from equipoise.scorer.picture import Picture, Prioritized
from equipoise.scorer.policies import POLICIES
from equipoise.scorer.sampling import Sampler
from equipoise.scorer.settings import ScorerSettings

log = structlog.get_logger()

_HOUSEKEEPING_SECONDS = 5.0
_WAITING_DECISIONS = 100


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
        policy = settings.policy
        self._picture = Picture(
            load=load,
            policy=policy,
            policy_name=next(name for name, kind in POLICIES.items() if isinstance(policy, kind)),
            least_spread=settings.least_spread,
            reservation=settings.reservation,
            after_eviction=settings.after_eviction,
        )
        self._sampler = Sampler(settings.decisions_per_second)
        self._decisions: asyncio.Queue[ScoreDecision] = asyncio.Queue(_WAITING_DECISIONS)
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Where kube-scheduler is answered, once it is."""

    async def attach(self) -> None:
        """Subscribe. Returns when the last values of all are known: from then on answers are worth asking for."""
        self._say_missing_windows()
        follow = self._bus.follow
        await follow(f"{PREFIX}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization)
        await self._bus.listen(f"{PREFIX}.eviction.intent.*.*", EvictionIntent, self.on_eviction_intent)
        await follow(f"{PREFIX}.eviction.outcome.*.*", EvictionOutcome, self.on_eviction_outcome)
        await follow(f"{PREFIX}.placement.node.*", NodePlacement, self.on_node_placement)
        await follow(f"{PREFIX}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await follow(f"{PREFIX}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.serve(
            "scorer",
            [
                Endpoint(subject=SCORE_PRIORITIZE, question=PrioritizeQuestion, answer=self.on_prioritize_question),
                Endpoint(subject=SCORE_FILTER, question=PrioritizeQuestion, answer=self.on_filter_question),
            ],
        )
        self._look_after_picture()
        self._health.warmed_up()

    async def run(self) -> None:
        """Answer until cancelled. Raises ConfigurationError when the address cannot be had."""
        extender = Extender(self, self._settings.extender, self._clock, self._metrics)
        async with extender.serve(self._settings.listen) as port, asyncio.TaskGroup() as tasks:
            self.port.set_result(port)
            log.info("answering", listen=self._settings.listen, port=port, neutral=self._settings.neutral)
            tasks.create_task(self._publish_decisions())
            tasks.create_task(self._keep_house())

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
            self._metrics.on_placed(followed=arrival.followed, chance=arrival.booking.chance)

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

    def prioritize(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> Answer:
        """One integer 0..10 per node. Late questions are answered at once and neutrally."""
        now = self._clock.now()
        if self._settings.neutral:
            answer = neutral(len(names), "scores are set to neutral (scorer.neutral)")
            prioritized = Prioritized(answer=answer, reason="setting")
        elif late:
            answer = neutral(len(names), "the question was too late to be looked at")
            prioritized = Prioritized(answer=answer, reason="late")
        else:
            prioritized = self._picture.prioritize(pod, names, now)
        if prioritized.reason:
            self._metrics.neutral.labels(prioritized.reason).inc()
        if self._sampler.take(self._clock.monotonic()):
            self._tell(self._picture.explain(prioritized, pod, len(names), now))
        return prioritized.answer

    def filter(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> Filtering:
        """Which nodes stay; all of them on any doubt."""
        if late or self._settings.neutral:
            return Filtering(nodes=list(names))
        return self._picture.filter(pod, names, self._thresholds.high, self._clock.now())

    def on_asked(self, *, whole_nodes: bool) -> None:
        text = None
        if whole_nodes and self._settings.extender.filter:
            text = "kube-scheduler sends whole nodes: set nodeCacheCapable: true, else filtered nodes lose their pods"
        self._health.problem("extender", text)

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

    async def _keep_house(self) -> None:
        while True:
            await self._clock.sleep(_HOUSEKEEPING_SECONDS)
            self._look_after_picture()

    def _look_after_picture(self) -> None:
        now = self._clock.now()
        picture = self._picture
        picture.forget(now)
        self._health.problem("coverage", picture.doubt(now) or None)
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
        missing = [name for name in self._settings.policy.windows if name not in configured]
        if missing:
            log.warning("windows not measured", policy_windows=missing, load_windows=configured)
        text = None
        if len(missing) == len(self._settings.policy.windows):
            text = f"the policy looks at windows {', '.join(missing)}, load.windows has {', '.join(configured)}"
        self._health.problem("policy", text)
