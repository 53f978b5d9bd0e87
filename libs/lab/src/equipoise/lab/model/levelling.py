"""The descheduler and the binder in a replay: their own strategies, counts, cool-downs and limits, on its world.

What is simulated is the API server only: an eviction that the limits allow happens. Times: Unix seconds.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish
from equipoise.binder.state.ledger import Ledger, LedgerEntry, ReplacementStatus, new_entry
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.fit import FitNode, FitPod, placed_node
from equipoise.contracts.kubernetes.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import corrected, is_fresh, partial_lifetimes, plus, usable_window
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.descheduler.decisions.evaluation.messages import intent_of
from equipoise.descheduler.decisions.strategies import name_of, readings
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.cluster import Fleet, FleetNode, MovablePod
from equipoise.descheduler.state.cool_downs import resting, resting_node
from equipoise.descheduler.state.daily_usage import Days, Part, Working, WorkloadDays
from equipoise.descheduler.state.lazy import Later
from equipoise.descheduler.state.pending_moves import Arrival, busy_workloads, unsettled
from equipoise.descheduler.state.relief_trials import Sources
from equipoise.descheduler.state.tracker import Memory

_EPOCH = LeaseEpoch(lease_uid="lab", transitions=0, holder="lab")

Evict = Callable[[EvictionIntent], bool]
"""Carries an eviction out and says whether it did: not when no node has room for the replacement."""


class Tally(msgspec.Struct, kw_only=True):
    """What became of the moves that were proposed."""

    proposed: int = 0
    evicted: int = 0
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    """By why."""


class Levelling:
    """Hears what the collector tells, and evaluates when it is told to."""

    def __init__(
        self,
        *,
        settings: DeschedulerSettings,
        limits: Limits,
        load: LoadSettings,
        thresholds: Thresholds,
        minimum_replicas: int,
        replicas: Mapping[Workload, int],
        usage_of: Callable[[Workload | None], Resources],
        days: Callable[[], WorkloadDays],
        closed: Callable[[Workload], Collection[str]],
        evict: Evict,
        say: Callable[[EvictionIntent | EvictionOutcome], None],
        begin: float,
    ) -> None:
        """`replicas`: how many pods each workload should have; those with fewer than `minimum_replicas` stay.

        `usage_of`: what a pod of a workload was measured to use last; `days`: what profiles foretell of each workload;
        `closed`: the nodes that anti-affinity rules close to a workload's pods.
        """
        self._settings = settings
        self._limits = limits
        self._load = load
        self._thresholds = thresholds
        self._minimum_replicas = minimum_replicas
        self._replicas = replicas
        self._usage_of = usage_of
        self._days = days
        self._closed = closed
        self._evict = evict
        self._say = say
        self._memory = Memory(settings.tracker)
        self._utilizations: dict[str, NodeUtilization] = {}
        self._placements: dict[str, NodePlacement] = {}
        self._fits: dict[str, FitNode] = {}
        # Long in use: the grace after a start is over.
        self._ledger = Ledger(created_at=begin, started_at=begin - limits.startup_grace_period)
        self.tally = Tally()

    @property
    def interval(self) -> float:
        """Seconds between evaluations."""
        return self._settings.interval

    def on_utilization(self, message: NodeUtilization) -> None:
        self._utilizations[message.node] = message

    def on_placement(self, message: NodePlacement) -> None:
        self._placements[message.node] = message
        self._fits[message.node] = placed_node(message)

    def evaluate(self, now: float) -> None:
        """One evaluation of every strategy, and what the binder makes of each intent."""
        self._memory.tidied(self._arrivals, now)
        self._look_for_replacements(now)
        fleet = self._fleet(now)
        self._memory.judged(fleet.nodes, self._load.shortest, now)
        for strategy in self._settings.strategies:
            name = name_of(strategy)
            verdicts = strategy.verdicts(fleet)
            sources = Sources.of(fleet, verdicts)
            self._memory.count(name, readings(strategy, fleet, verdicts), now)
            plan = strategy.plan(fleet, self._memory.abnormal(name))
            for move in plan.moves:
                intent = intent_of(move, strategy=name, now=now, life=self._settings.intent_life, epoch=_EPOCH)
                known = [arrival.uid for arrival in self._arrivals({move.pod.workload})]
                self._memory.proposed(
                    intent,
                    known=known,
                    fit=move.pod.fit,
                    before=sources.usage.get(intent.node, Resources()),
                    over=sources.over.get(intent.node, ()),
                )
                self._say(intent)
                self._settle(intent, now)

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
                finish = Finish(outcome=Outcome.REJECTED_FIT, detail="no node has room for the replacement")
        if finish.outcome is not Outcome.EVICTED:
            self.tally.refused[finish.limit or finish.detail] += 1
        outcome = finish.message(intent, now)
        self._memory.settled(outcome, now)
        self._say(outcome)

    def _refusal(self, intent: EvictionIntent, now: float) -> Finish | None:
        limits = self._limits
        view = self._ledger.view(
            now, dry_run=False, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
        )
        move = ProposedEviction(
            namespace=intent.namespace,
            node=intent.node,
            workload=intent.workload,
            replicas=0 if intent.workload is None else self._replicas[intent.workload],
            unready=sum(entry.workload == intent.workload for entry in view.migrating()),
            cluster_pods=sum(len(placement.pods) for placement in self._placements.values()),
        )
        return limits.refusal(move, view)

    def _look_for_replacements(self, now: float) -> None:
        """Evicted pods whose workload has all its replicas running again, and what no limit needs any more."""
        missing = [entry for entry in self._ledger.entries if entry.recovered_at is None]
        if missing:
            running = Counter(
                pod.workload
                for placement in self._placements.values()
                for pod in placement.pods
                if pod.running_since is not None and not pod.terminating
            )
            ready = ReplacementStatus(state="ready")
            back = {entry.intent_id: ready for entry in missing if self._is_back(entry, running)}
            self._ledger = self._ledger.with_replacements(back, now)
        self._ledger = self._ledger.pruned(now, memory=self._limits.memory)

    def _is_back(self, entry: LedgerEntry, running: Mapping[Workload | None, int]) -> bool:
        return entry.workload is None or running[entry.workload] >= self._replicas[entry.workload]

    # the fleet as it is seen

    def _fleet(self, now: float) -> Fleet:
        settings, flights = self._settings, self._memory.flights
        return Fleet(
            now=now,
            nodes=[self._node(name, now) for name in sorted(self._placements)],
            thresholds=self._thresholds,
            windows=[window.name for window in self._load.windows],
            limits=settings.intent_limits,
            busy_workloads=busy_workloads(flights),
            in_flight=unsettled(flights),
            days=Days(self._days(), self._working),
        )

    def _working(self, names: Sequence[str]) -> list[Working | None]:
        """What stays on the nodes and what is on its way there."""
        reliefs: dict[str, Resources] = {}
        coming: dict[str, list[Part]] = {}
        for flight in self._memory.flights.values():
            reliefs[flight.pod_uid] = flight.relief
            coming.setdefault(flight.target, []).append((flight.pod_uid, flight.workload))
        found: list[Working | None] = []
        for name in names:
            heard = self._utilizations.get(name)
            staying = [(pod.uid, pod.workload) for pod in self._placements[name].pods if not pod.terminating]
            usages = reliefs if heard is None else {**heard.pods, **reliefs}

            def usage_of(uid: str, workload: Workload | None, usages: Mapping[str, Resources] = usages) -> Resources:
                return usages.get(uid) or self._usage_of(workload)

            found.append(None if heard is None else Working(heard, staying + coming.get(name, []), usage_of))
        return found

    def _node(self, name: str, now: float) -> FleetNode:
        placement, heard = self._placements[name], self._utilizations.get(name)
        fit = self._fits[name]
        if heard is None or not is_fresh(heard.sampled_at, now, self._load.freshness.eviction):
            return FleetNode(name=name, base=placement.allocatable, unknown="its newest sample is too old", fit=fit)
        lifetimes = [lifetime for _, lifetime in partial_lifetimes(heard, placement, self._pod_usage, load=self._load)]
        usage = {
            window.name: corrected(
                value.mean, lifetimes, sampled_at=value.sampled_at, length=window.length, load=self._load
            )
            for window in self._load.windows
            if (value := usable_window(heard, window, self._load, now)) is not None
        }
        coming, leaving = self._under_way(placement)
        return FleetNode(
            name=name,
            base=heard.base,
            usage=usage,
            sampled_at={window: heard.windows[window].sampled_at for window in usage},
            coming=coming,
            source_refusal=resting_node(self._memory.cool_downs, name, now),
            leaving=leaving,
            pods=Later(
                lambda: [
                    self._movable(pod, name, heard, fits, now)
                    for pod, fits in zip(placement.pods, fit.pods, strict=True)
                ]
            ),
            fit=fit,
        )

    def _pod_usage(self, pod: PlacedPod | GonePod, measured: Resources) -> Resources:
        return measured if measured != Resources() else self._usage_of(pod.workload)

    def _under_way(self, placement: NodePlacement) -> tuple[Resources, int]:
        """What replacements that are seen nowhere yet will bring to the node, and how many pods are leaving it."""
        coming, leaving = Resources(cpu=0.0, memory=0.0), 0
        for flight in self._memory.flights.values():
            if flight.target == placement.node:
                coming = plus(coming, flight.relief)
            leaving += flight.node == placement.node
        return coming, leaving

    def _movable(self, pod: PlacedPod, node: str, heard: NodeUtilization, fit: FitPod, now: float) -> MovablePod:
        return MovablePod(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            node=node,
            workload=pod.workload,
            usage=heard.pods.get(pod.uid, Resources()),
            priority=pod.priority,
            qos=pod.qos,
            created_at=pod.placed_at,
            protection=self._protection(pod, node, now),
            fit=self._kept_apart(pod, fit),
        )

    def _kept_apart(self, pod: PlacedPod, fit: FitPod) -> FitPod:
        """The trace's rules of anti-affinity, as far as they close nodes to the pod at present."""
        closed = self._closed(pod.workload) if pod.workload is not None else ()
        if not closed:
            return fit
        rule = NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=list(closed))
        term = NodeSelectorTerm(match_fields=[rule])
        return msgspec.structs.replace(fit, node_affinity=NodeSelector(node_selector_terms=[term]))

    def _protection(self, pod: PlacedPod, node: str, now: float) -> str:
        if pod.terminating:
            return "it is leaving"
        if any(flight.pod_uid == pod.uid for flight in self._memory.flights.values()):
            return "its move is under way"
        if pod.workload is None or self._replicas[pod.workload] < self._minimum_replicas:
            return "its workload has too few replicas"
        return resting(
            self._memory.cool_downs, uid=pod.uid, namespace=pod.namespace, workload=pod.workload, node=node, now=now
        )

    def _arrivals(self, workloads: Collection[Workload | None]) -> list[Arrival]:
        if not workloads:
            return []
        return [
            Arrival(uid=pod.uid, workload=pod.workload, node=placement.node, created_at=pod.placed_at)
            for placement in self._placements.values()
            for pod in placement.pods
            if pod.workload is not None and pod.workload in workloads
        ]


def paced(settings: DeschedulerSettings, tick: float) -> DeschedulerSettings:
    """The settings for a world that is measured only each `tick` seconds: fewer evaluations, each worth more.

    Evaluations in a row still cover as much time, at least one, and as many pods may be proposed in any time.
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
