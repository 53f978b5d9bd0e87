"""One replay: a trace, a scenario and a policy, with or without the descheduler, and its figures.

A replay has three parts of virtual time, each at least one day. In the first, profiles are learned. In the second, the
scenario takes place. The third is measured, hour by hour. Short traces are repeated.
"""

import random
import time
from functools import partial
from typing import Literal

import msgspec
import numpy as np

from equipoise.annotator.decisions.scale_down import LEAD
from equipoise.contracts.configuration.moves import surge_mode
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.descheduler.settings import HINT_POINTS, POINTS_PER_EXTENDER_WEIGHT
from equipoise.lab.model.cluster_objects import node_object
from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.descheduling.api_objects import ApiObjects
from equipoise.lab.model.descheduling.simulated_binder import MoveCounts, SimulatedBinder
from equipoise.lab.model.descheduling.simulated_descheduler import SimulatedDescheduler, paced
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.load_figures import cpu_loads, hourly_load, load_figures, spread
from equipoise.lab.model.trace import Array, Trace
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.replayed_trace import replayed_trace
from equipoise.lab.results import GREEDY, Run, RunFigures
from equipoise.lab.scenarios import DAY, DAYS_BEFORE_MEASUREMENT, SCENARIOS
from equipoise.lab.schedulers import GreedyScheduler, SimulatedScheduler
from equipoise.lab.simulated.cluster import SimulatedCluster
from equipoise.lab.simulated.collector import SimulatedCollector, load_settings
from equipoise.lab.simulated.deletion_costs import SimulatedDeletionCosts
from equipoise.lab.simulated.hints import SimulatedHints
from equipoise.lab.simulated.requests import SimulatedRequests
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.plugin_loading import load_plugins
from equipoise.scheduling.scheduler import Extender
from equipoise.scorer.settings import ScorerSettings
from equipoise.scorer.state.scoring_state import ScoringState

_HOUR = 3_600.0
_DEFAULT_START = 1_767_225_600.0
"""Start of traces without a date: 2026-01-01T00:00Z."""

_MOVE_PERIOD = 1.0
"""Seconds between two steps of a move without a gap, as in the binder."""

_LAG = 20.0
"""Seconds from a sample to the message: a scrape, a query, and the bus."""


class Replay:
    """One replay. Can be run once."""

    def __init__(self, trace: Trace, plan: ReplayPlan) -> None:
        """Raises ValueError for a trace whose steps do not divide a day, and for a plugin that cannot be used."""
        if DAY % trace.seconds_per_step:
            raise ValueError(f"steps of {trace.seconds_per_step:g} s do not divide a day: resample the trace")
        settings = plan.settings
        self._trace = trace = replayed_trace(trace, plan)
        self._plan = plan
        self._origin = trace.starts_at or _DEFAULT_START
        self._tick = min(plan.tick, trace.seconds_per_step) if plan.descheduler else trace.seconds_per_step
        load = load_settings(self._tick, settings.load)
        self._curves = UsageCurves(trace)
        self._cluster = ClusterUsage(trace, self._curves, now=DAY)
        self._events = EventQueue()
        self._collector = SimulatedCollector(
            trace,
            self._cluster,
            self._curves,
            load,
            tick=self._tick,
            origin=self._origin,
            missing=plan.missing,
            statistics=plan.scoring is not None and bool(plan.scoring.statistics),
            generator=np.random.default_rng(plan.seed),
        )
        self._numbers = {workload: number for number, workload in enumerate(self._collector.workloads)}
        self._scoring = None
        if plan.scoring is not None:
            scorer = msgspec.structs.replace(settings.scorer, policy=plan.scoring, shadow=None)
            self._scoring = ScoringState(load, scorer, max_score=scorer.extender.max_score)
        self._hints = None
        if self._scoring is not None and plan.placement == "hints":
            self._hints = SimulatedHints(self._scoring, settings.scorer.hints)
        self._scheduling = self._create_scheduler(settings.scorer)
        self._kubernetes = SimulatedCluster(
            trace, self._cluster, self._collector, self._scheduling, self._events, self._on_placement,
            origin=self._origin,
            received=plan.scoring is not None or plan.descheduler or settings.deletion_costs != "none",
        )  # fmt: skip
        self._costs = self._create_costs(settings, load)
        self._requests = SimulatedRequests(self._kubernetes, self._scheduling, self._events)
        self._binder: SimulatedBinder | None = None
        self._descheduler: SimulatedDescheduler | None = None
        if plan.descheduler:
            self._create_descheduler(settings, load)
        days = int(self._curves.length // DAY)
        self._end = max(3, days) * DAY
        self._sample: Literal["in", "out"] = "out" if days > DAYS_BEFORE_MEASUREMENT else "in"
        self._hours: list[Array] = []
        self._memory_peaks: list[Array] = []
        """The highest memory usage of each node in each measured hour."""

    def run(self) -> Run:
        """Run the replay."""
        started = time.monotonic()
        plan, trace, events = self._plan, self._trace, self._events
        start, end, tick = DAY, self._end, self._tick
        generator = random.Random(plan.seed)
        last_arrival = SCENARIOS[plan.scenario](trace, self._kubernetes, events, generator, start)
        # Without the descheduler, messages are needed only until the last pod is scheduled.
        messages_until = end if self._descheduler is not None else min(end, last_arrival + 2 * tick)
        self._collector.start(start)
        self._receive_all(start)
        step = trace.seconds_per_step
        events.every(step, self._cluster.step, first=start + step, until=end)
        events.every(_HOUR, self._collector.learn, first=start + _HOUR, until=end)
        events.every(tick, self._collector.sample, first=start, until=messages_until)
        for window, length in self._collector.early.items():
            sample = partial(self._collector.sample_early, window)
            events.every(tick, sample, first=start + tick - length, until=messages_until)
        events.every(tick, self._receive_round, first=start + _LAG, until=messages_until)
        if self._hints is not None:
            self._update_hints(start + _LAG)
            interval = self._plan.settings.scorer.hints.interval
            events.every(interval, self._update_hints, first=start + _LAG + interval, until=messages_until)
        events.every(_HOUR, self._record_hour, first=2 * DAY, until=end + 1.0)
        if self._costs is not None:
            events.every(_HOUR, self._write_costs, first=start + _HOUR - LEAD + 2 * _LAG, until=end)
        if self._descheduler is not None:
            evaluation = max(tick, self._descheduler.interval)
            events.every(evaluation, self._evaluate, first=start + tick + 2 * _LAG, until=end)
        events.run(end)
        return self._result(time.monotonic() - started)

    # wiring

    def _create_scheduler(self, settings: ScorerSettings) -> SimulatedScheduler:
        generator = random.Random(self._plan.seed)
        if self._plan.policy == GREEDY:
            return GreedyScheduler(self._trace, generator)
        create = partial(
            SimulatedScheduler,
            self._trace,
            generator,
            percentage_of_nodes_to_score=self._plan.percentage_of_nodes_to_score,
            plugins=load_plugins([self._plan.plugin] if self._plan.plugin else []),
            plugin_weight=self._plan.plugin_weight,
        )
        scoring, names = self._scoring, [node.name for node in self._trace.nodes]
        if self._hints is not None:
            return create(preferred=self._hints.preferred)
        if scoring is None or self._plan.placement == "none":
            return create()

        def extender(pod: PodDemand, now: float) -> Extender | None:
            if not self._collector.started:
                return None  # a preempted pod of the initial placement, which is older than Equipoise

            def scores(rows: Rows) -> Ints:
                # The collector publishes every workload in each round. Only the requested one is needed here.
                if pod.workload is not None:
                    message = self._collector.workload(self._numbers[pod.workload], now)
                    if message is not None:
                        scoring.nodes.on_workload(message, self._origin + now)
                requested = [names[row] for row in rows.tolist()]
                return scoring.prioritize(pod, requested, self._origin + now).scores.scores

            weight, max_score = self._plan.weight, settings.extender.max_score
            return Extender(scores=scores, weight=weight, max_score=max_score)

        return create(extender)

    def _create_costs(self, settings: Settings, load: LoadSettings) -> SimulatedDeletionCosts | None:
        if settings.deletion_costs == "none" or self._trace.replicas_by_step is None:
            return None
        return SimulatedDeletionCosts(
            first=settings.deletion_costs,
            trace=self._trace,
            numbers=self._numbers,
            window=load.shortest.name,
            kubernetes=self._kubernetes,
            origin=self._origin,
        )

    def _create_descheduler(self, settings: Settings, load: LoadSettings) -> None:
        points = self._target_points()
        objects = ApiObjects(
            replicas=lambda workload: self._kubernetes.replicas(self._numbers[workload]),
            excluded=self._excluded,
            all_nodes={node.name: node_object(node) for node in self._trace.nodes},
            template=lambda uid: self._kubernetes.pods[uid].scheduled.pod,
        )
        self._binder = SimulatedBinder(
            limits=settings.limits,
            surge=settings.surge,
            sample_lifetime=load.freshness.eviction,
            objects=objects,
            requests=self._requests,
            publish=self._on_outcome,
            started_at=self._origin,
        )
        self._descheduler = SimulatedDescheduler(
            settings=paced(msgspec.structs.replace(settings.descheduler, target_points=points), self._tick),
            load=load,
            thresholds=settings.thresholds,
            protection=settings.protection,
            level=settings.level,
            surge=surge_mode(settings.level, settings.surge.mode),
            objects=objects,
            usage_of=self._collector.usage_of,
            days=self._daily_profiles,
            budgets=lambda: self._scheduling.budgets,
            propose=self._on_intent,
        )

    def _target_points(self) -> int:
        """The points of a target in this replay, instead of the configured `DeschedulerSettings.target_points`."""
        if self._scoring is None:
            return 0
        return HINT_POINTS if self._hints is not None else POINTS_PER_EXTENDER_WEIGHT * self._plan.weight

    def _on_placement(self, message: NodePlacement, now: float) -> None:
        if self._scoring is not None:
            placed = self._scoring.on_placement(message, self._origin + now)
            if self._hints is not None:
                pods = [placement.pod for placement in placed or ()]
                self._hints.on_placement(message, pods, self._origin + now)
        if self._descheduler is not None:
            self._descheduler.on_placement(message)
        if self._costs is not None:
            self._costs.on_placement(message, now)

    def _receive_workloads(self, now: float) -> None:
        for number in range(len(self._trace.workloads)):
            message = self._collector.workload(number, now)
            if self._scoring is not None and message is not None:
                self._scoring.nodes.on_workload(message, self._origin + now)

    def _receive_all(self, now: float) -> None:
        """Process the latest message of every subject, as at the start of a service."""
        self._receive_workloads(now)
        for node in range(len(self._trace.nodes)):
            self._on_placement(self._collector.placement(node, now), now)
        self._receive_round(now)

    def _receive_round(self, now: float) -> None:
        if self._scoring is None and self._descheduler is None and self._costs is None:
            self._kubernetes.retry(now)  # nobody receives messages
            return
        if self._hints is not None:
            self._receive_workloads(now)
        for message in self._collector.utilization_messages(now):
            if isinstance(message, UtilizationCycle):
                if self._scoring is not None:
                    self._scoring.on_cycle(message, self._origin + now)
                if self._descheduler is not None:
                    self._descheduler.on_cycle(message)
                continue
            if self._scoring is not None:
                self._scoring.nodes.on_utilization(message, self._origin + now)
            if self._descheduler is not None:
                self._descheduler.on_utilization(message)
            if self._costs is not None:
                self._costs.on_utilization(message)
        self._kubernetes.retry(now)

    def _daily_profiles(self) -> dict[Workload, Array]:
        """Daily profiles as the descheduler knows them."""
        now = self._events.now
        match self._plan.forecast:
            case "profile":
                return self._collector.daily_profiles()
            case "past":
                return self._collector.daily_profiles(since=DAY, now=now)
            case "6h":
                mean = self._curves.mean(now, now + 6 * _HOUR)[:, :, np.newaxis]
                return dict(zip(self._collector.workloads, np.repeat(mean, 24, axis=2), strict=True))

    def _excluded(self, workload: Workload) -> list[str]:
        excluded = self._scheduling.excluded(self._numbers[workload])
        return [self._trace.nodes[node].name for node in excluded]

    def _on_intent(self, intent: EvictionIntent, without_gap: bool) -> None:
        assert self._binder is not None
        if self._scoring is not None:
            self._scoring.replacements.on_intent(intent, intent.decided_at)
        self._write_hints()
        self._binder.decide(intent, without_gap=without_gap, now=self._origin + self._events.now)

    def _on_outcome(self, outcome: EvictionOutcome) -> None:
        assert self._descheduler is not None
        self._descheduler.on_outcome(outcome)
        if self._scoring is not None:
            self._scoring.replacements.on_outcome(outcome, outcome.settled_at)
        self._write_hints()

    def _write_hints(self) -> None:
        """Intents and outcomes change hints: the scorer publishes them at once."""
        if self._hints is not None:
            self._hints.write(self._origin + self._events.now)

    def _evaluate(self, now: float) -> None:
        assert self._descheduler is not None
        assert self._binder is not None
        carried_on = self._binder.has_open_moves
        self._binder.update(self._origin + now)
        self._descheduler.evaluate(self._origin + now)
        if not carried_on:
            self._carry_on_later(now)

    def _carry_on_later(self, now: float) -> None:
        if self._binder is not None and self._binder.has_open_moves:
            self._events.at(now + _MOVE_PERIOD, self._carry_on)

    def _carry_on(self, now: float) -> None:
        assert self._binder is not None
        self._binder.carry_on(self._origin + now)
        self._carry_on_later(now)

    def _write_costs(self, now: float) -> None:
        assert self._costs is not None
        self._costs.write(self._collector.daily_profiles(), now)

    def _record_hour(self, now: float) -> None:
        self._cluster.pass_time(now)
        peak = self._cluster.take_memory_peak()
        if self._hours:
            self._memory_peaks.append(peak)
        self._hours.append(self._cluster.used.copy())

    def _update_hints(self, now: float) -> None:
        assert self._hints is not None
        hints, origin = self._hints, self._origin
        hints.update(origin + now)
        self._events.at(now + self._plan.hint_delay, lambda written: hints.write(origin + written))

    # result

    def _result(self, seconds: float) -> Run:
        plan, cluster = self._plan, self._cluster
        load = hourly_load(np.array(self._hours), cluster.base)
        tally = MoveCounts() if self._binder is None else self._binder.tally
        movable = None if self._descheduler is None else self._descheduler.movable
        hours = (self._end - DAY) / _HOUR
        used = float(cluster.used[:, 0].sum())
        figures = RunFigures(
            scenario=plan.scenario,
            policy=plan.policy,
            placement="none" if plan.scoring is None else plan.placement,
            descheduler=plan.descheduler,
            arrival_seed=plan.seed,
            sample=self._sample,
            nodes=len(self._trace.nodes),
            pods=len(self._trace.pods),
            work_lost=round(cluster.lost / used, 6) if used else 0.0,
            moved=tally.evicted,
            moved_share=round(tally.evicted / max(1, len(self._trace.pods)), 4),
            without_gap=tally.without_gap,
            gap_seconds=round(self._kubernetes.gaps.seconds(self._end), 1),
            moves_per_hour=round(tally.evicted / hours, 2),
            moves_executable=round(tally.evicted / tally.proposed, 4) if tally.proposed else 1.0,
            moves_landed=self._requests.landed(self._trace.nodes),
            refused=dict(tally.refused.most_common()),
            movable={} if movable is None else dict(movable.most_common()),
            unplaced=self._kubernetes.unplaced,
            preempted=self._kubernetes.preempted,
            plugin_problems=dict(self._scheduling.plugin_problems.most_common()),
            violations=self._scheduling.anti_affinity.violations(),
            memory_hours_above_100=float((np.array(self._memory_peaks) > cluster.base[:, 1]).sum()),
            seconds=round(seconds, 2),
            **load_figures(load, cluster.base),
        )
        after = cpu_loads(load)
        return Run(
            figures=figures,
            node_names=tuple(node.name for node in self._trace.nodes),
            before=after,  # `with_baseline` replaces it
            after=after,
            spread=tuple(round(float(value), 2) for value in spread(load[:, :, 0])),
        )
