"""One replay: a trace, a scenario, a policy, with or without the descheduler; from an empty agenda to figures.

Three spans of virtual time, each at least a day. In the first nothing happens: profiles are learned. In the second the
scenario takes place. What follows is judged, hour by hour. A trace of one day is all three spans, over and over.
"""

import random
import time
from collections.abc import Mapping
from functools import partial
from typing import Literal

import msgspec
import numpy as np

from equipoise.binder.decisions.limits import Limits
from equipoise.contracts.configuration.settings import LoadSettings, Protection, Section, Thresholds
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.model.cluster_usage import ClusterUsage, Curves
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.levelling import Levelling, paced
from equipoise.lab.model.levelness import hourly_load, levelness, picture, spread
from equipoise.lab.model.trace import Array, Trace
from equipoise.lab.results import Figures, Foresight, Picture, Run, Scenario
from equipoise.lab.scenarios import DAY, SCENARIOS
from equipoise.lab.schedulers import GreedyScheduler, StockOnly, WithScorer
from equipoise.lab.simulated_cluster import SimulatedCluster
from equipoise.lab.simulated_collector import SimulatedCollector, load_settings
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.scoring_state import Picture as Knowledge
from equipoise.scorer.settings import ScorerSettings

STOCK = "stock"
"""kube-scheduler alone."""

GREEDY = "greedy"
"""The reference of `greedy.py`."""

_HOUR = 3_600.0
_UNDATED = 1_767_225_600.0
"""Where traces without dates begin: 2026-01-01T00:00Z."""

_LEARNED_AND_ACTED = 2
"""Days before the judged ones. A shorter trace is repeated, so that what is judged was learned before."""

_FINEST_TICK = 300.0
_LAG = 20.0
"""Seconds from a sample to its being heard: a scrape, a query, a message."""


class Settings(Section, frozen=True, kw_only=True):
    """The parts of a configuration that a replay looks at."""

    load: LoadSettings = LoadSettings()
    thresholds: Thresholds = Thresholds()
    protection: Protection = Protection()
    scorer: ScorerSettings = ScorerSettings()
    descheduler: DeschedulerSettings = DeschedulerSettings()
    limits: Limits = Limits()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one replay is to be."""

    scenario: Scenario
    policy: str
    """A policy's name, or STOCK or GREEDY."""

    scoring: ScoringPolicy | None = None
    """The policy itself; None for STOCK and GREEDY."""

    descheduler: bool = False
    seed: int = 1
    """Of the order of arrivals and of everything else that is chance."""

    weight: int = 5
    """Of the extender's entry."""

    missing: float = 0.01
    """Share (0..1) of samples that are lost."""

    foresight: Foresight = "profile"


class Replay:
    """Runs once."""

    def __init__(self, trace: Trace, plan: Plan, settings: Settings | None = None) -> None:
        """Raises ValueError for a trace whose steps do not divide a day."""
        if DAY % trace.seconds_per_step:
            raise ValueError(f"steps of {trace.seconds_per_step:g} s do not divide a day: resample the trace")
        settings = settings or Settings()
        self._trace = trace = _shuffled(_whole_days(trace))
        self._plan = plan
        self._origin = trace.starts_at or _UNDATED
        self._tick = min(_FINEST_TICK, trace.seconds_per_step) if plan.descheduler else trace.seconds_per_step
        load = load_settings(self._tick, settings.load)
        self._curves = Curves(trace)
        self._world = ClusterUsage(trace, self._curves)
        self._agenda = EventQueue()
        self._collector = SimulatedCollector(
            trace,
            self._world,
            self._curves,
            load,
            tick=self._tick,
            origin=self._origin,
            missing=plan.missing,
            statistics=plan.scoring is not None and bool(plan.scoring.statistics),
            chance=np.random.default_rng(plan.seed),
        )
        self._numbers = {workload: number for number, workload in enumerate(self._collector.workloads)}
        self._knowledge = None if plan.scoring is None else _knowledge(plan, plan.scoring, settings.scorer, load)
        self._scheduling = self._scheduler(settings.scorer)
        self._kubernetes = SimulatedCluster(
            trace, self._world, self._collector, self._scheduling, self._agenda, self._on_placement,
            origin=self._origin,
        )  # fmt: skip
        self._levelling = self._leveller(settings, load) if plan.descheduler else None
        days = int(self._curves.length // DAY)
        self._begin = DAY
        self._judged_from = 2 * DAY
        self._end = max(3, days) * DAY
        self._sample: Literal["in", "out"] = "out" if days > _LEARNED_AND_ACTED else "in"
        self._hours: list[Array] = []

    def run(self) -> Run:
        """Everything, start to end."""
        begun = time.monotonic()
        plan, trace, agenda = self._plan, self._trace, self._agenda
        begin, end, tick = self._begin, self._end, self._tick
        self._world.begin(begin)
        chance = random.Random(plan.seed)
        over = SCENARIOS[plan.scenario](trace, self._kubernetes, agenda, chance, begin)
        # Once nothing more asks, nobody needs to know.
        heard_until = end if self._levelling is not None else over + 2 * tick
        self._collector.begin(begin)
        self._hear_everything(begin)
        step = trace.seconds_per_step
        agenda.every(step, self._world.step, first=begin + step, until=end)
        agenda.every(_HOUR, self._collector.learn, first=begin + _HOUR, until=end)
        agenda.every(tick, self._collector.sample, first=begin, until=heard_until)
        for window, length in self._collector.early.items():
            sample = partial(self._collector.sample_early, window)
            agenda.every(tick, sample, first=begin + tick - length, until=heard_until)
        agenda.every(tick, self._hear_round, first=begin + _LAG, until=heard_until)
        agenda.every(_HOUR, self._note_hour, first=self._judged_from, until=end + 1.0)
        if self._levelling is not None:
            evaluation = max(tick, self._levelling.interval)
            agenda.every(evaluation, self._evaluate, first=begin + tick + 2 * _LAG, until=end)
        agenda.run(end)
        return self._judge(time.monotonic() - begun)

    # wiring

    def _scheduler(self, settings: ScorerSettings) -> StockOnly:
        chance = random.Random(self._plan.seed)
        if self._plan.policy == GREEDY:
            return GreedyScheduler(self._trace, chance)
        if self._knowledge is None:
            return StockOnly(self._trace, chance)
        return WithScorer(
            self._trace,
            chance,
            self._knowledge,
            collector=self._collector,
            origin=self._origin,
            weight=self._plan.weight,
            resolution=settings.extender.resolution,
        )

    def _leveller(self, settings: Settings, load: LoadSettings) -> Levelling:
        replicas = dict(zip(self._collector.workloads, self._trace.replicas().tolist(), strict=True))
        return Levelling(
            settings=paced(settings.descheduler, self._tick),
            limits=settings.limits,
            load=load,
            thresholds=settings.thresholds,
            minimum_replicas=settings.protection.min_replicas,
            replicas=replicas,
            usage_of=self._collector.usage_of,
            days=self._days,
            closed=self._closed,
            evict=self._evict,
            say=self._on_said,
            begin=self._origin,
        )

    def _on_placement(self, message: NodePlacement, now: float) -> None:
        if self._knowledge is not None:
            self._knowledge.on_placement(message, self._origin + now)
        if self._levelling is not None:
            self._levelling.on_placement(message)

    def _hear_everything(self, now: float) -> None:
        """Who starts knows the last word of every subject."""
        for number in range(len(self._trace.workloads)):
            message = self._collector.workload(number, now)
            if self._knowledge is not None and message is not None:
                self._knowledge.on_workload(message)
        for node in range(len(self._trace.nodes)):
            self._on_placement(self._collector.placement(node, now), now)
        self._hear_round(now)

    def _hear_round(self, now: float) -> None:
        for message in self._collector.utilizations(now):
            if isinstance(message, UtilizationCycle):
                if self._knowledge is not None:
                    self._knowledge.on_cycle(message)
                continue
            if self._knowledge is not None:
                self._knowledge.on_utilization(message, self._origin + now)
            if self._levelling is not None:
                self._levelling.on_utilization(message)
        self._kubernetes.retry(now)

    def _days(self) -> dict[Workload, Array]:
        """What the descheduler believes of the coming day."""
        now = self._agenda.now
        match self._plan.foresight:
            case "profile":
                return self._collector.days()
            case "past":
                return self._collector.days(since=self._begin, now=now)
            case "6h":
                mean = self._curves.mean(now, now + 6 * _HOUR)[:, :, np.newaxis]
                return dict(zip(self._collector.workloads, np.repeat(mean, 24, axis=2), strict=True))

    def _closed(self, workload: Workload) -> list[str]:
        closed = self._scheduling.closed(self._numbers[workload])
        return [self._trace.nodes[node].name for node in closed]

    def _on_said(self, message: EvictionIntent | EvictionOutcome) -> None:
        if self._knowledge is None:
            return
        if isinstance(message, EvictionIntent):
            self._knowledge.on_intent(message, message.decided_at)
        else:
            self._knowledge.on_outcome(message, message.settled_at)

    def _evict(self, intent: EvictionIntent) -> bool:
        pod = self._kubernetes.pods[intent.pod_uid]
        if not self._scheduling.has_room(pod.kind):
            return False
        self._kubernetes.evict(pod, self._agenda.now)
        return True

    def _evaluate(self, now: float) -> None:
        assert self._levelling is not None
        self._levelling.evaluate(self._origin + now)

    def _note_hour(self, now: float) -> None:
        self._world.pass_time(now)
        self._hours.append(self._world.used.copy())

    # the verdict

    def _judge(self, seconds: float) -> Run:
        plan, world = self._plan, self._world
        load = hourly_load(np.array(self._hours), world.base)
        tally = None if self._levelling is None else self._levelling.tally
        hours = (self._end - self._begin) / _HOUR
        moved = 0 if tally is None else tally.evicted
        refused: Mapping[str, int] = {} if tally is None else dict(tally.refused.most_common())
        done = float(world.used[:, 0].sum())
        figures = Figures(
            scenario=plan.scenario,
            policy=plan.policy,
            descheduler=plan.descheduler,
            arrival_seed=plan.seed,
            sample=self._sample,
            nodes=len(self._trace.nodes),
            pods=len(self._trace.pods),
            work_lost=round(world.lost / done, 6) if done else 0.0,
            moved=moved,
            moved_share=round(moved / max(1, len(self._trace.pods)), 4),
            moves_per_hour=round(moved / hours, 2),
            moves_executable=round(moved / tally.proposed, 4) if tally is not None and tally.proposed else 1.0,
            refused=dict(refused),
            unplaced=self._kubernetes.unplaced,
            violations=self._scheduling.violations(),
            seconds=round(seconds, 2),
            **levelness(load, world.base),
        )
        after: Picture = picture(load)
        return Run(
            figures=figures,
            node_names=tuple(node.name for node in self._trace.nodes),
            before=after,
            after=after,
            spread=tuple(round(float(value), 2) for value in spread(load[:, :, 0])),
        )


def _whole_days(trace: Trace) -> Trace:
    """Without the part of a day at its end: repeated, it would shift the hours."""
    steps = trace.steps - trace.steps % round(DAY / trace.seconds_per_step)
    if not steps:
        return trace
    return msgspec.structs.replace(trace, cpu_milli=trace.cpu_milli[:, :steps], memory_mib=trace.memory_mib[:, :steps])


def _shuffled(trace: Trace) -> Trace:
    """The same nodes in no order. kube-scheduler looks at a part of them at a time, one after the other, and in some
    traces the small ones come first: it would look at nothing else.
    """
    nodes = list(trace.nodes)
    random.Random(0).shuffle(nodes)
    return msgspec.structs.replace(trace, nodes=tuple(nodes))


def _knowledge(plan: Plan, policy: ScoringPolicy, settings: ScorerSettings, load: LoadSettings) -> Knowledge:
    return Knowledge(
        load=load,
        policy=policy,
        policy_name=plan.policy,
        least_spread=settings.least_spread,
        reservation=settings.reservation,
        after_eviction=settings.after_eviction,
        resolution=settings.extender.resolution,
    )
