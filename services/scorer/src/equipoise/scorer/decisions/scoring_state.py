"""All that the scorer knows, and the answers it gives from it. State and rules, no I/O: times are handed in."""

from collections.abc import Sequence

import msgspec
import numpy as np

from equipoise.contracts.configuration.settings import LoadSettings, ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.coverage import coverage_problem
from equipoise.contracts.load.latest import supersedes_measurement
from equipoise.contracts.messages.advice import PlacementAdvice
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.score import Filtering, ScoreDecision, ShadowResult
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.scorer.decisions.explanation import NOBODY, Heard, asked_about, candidates, explanation
from equipoise.scorer.decisions.filtering import above_marks, filtered
from equipoise.scorer.decisions.placement_advice import advice, as_asked
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.ranking import Ranked, decision, rank
from equipoise.scorer.decisions.score_integers import HIGHEST, Answer, neutral
from equipoise.scorer.decisions.shadow import Shadow
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Rows
from equipoise.scorer.state.demand import expected_demand
from equipoise.scorer.state.node_table import Fleet
from equipoise.scorer.state.replacement_hints import AfterEviction, Hint
from equipoise.scorer.state.reservations import Booking, Reservations


class Prioritized(msgspec.Struct, frozen=True, kw_only=True):
    """An answer; `ranked` and `hint` are there when nodes were looked at."""

    answer: Answer
    reason: str = ""
    """Why it is neutral, as a word for metrics; empty when it is not."""

    ranked: Ranked | None = None
    hint: Hint = Hint()
    shadow: ShadowResult | None = None


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was newly seen on `node`, with its booking if its answer was still booked."""

    node: str
    pod: PlacedPod
    booking: Booking | None

    @property
    def followed(self) -> bool:
        return self.booking is not None and self.node in self.booking.best


class Picture:
    """The fleet, what is promised on it, and what was evicted from it."""

    def __init__(
        self,
        *,
        load: LoadSettings,
        policy: ScoringPolicy,
        policy_name: str,
        least_spread: float,
        reservation: float,
        after_eviction: float,
        resolution: int = HIGHEST,
        shadow: Shadow | None = None,
    ) -> None:
        looking = (policy,) if shadow is None else (policy, shadow.policy)
        self.fleet = Fleet(
            load,
            policy.demand_chain,
            statistics=tuple(dict.fromkeys(name for each in looking for name in each.statistics)),
            counted_within=policy.counted_within,
            also_counted_within=() if shadow is None else shadow.policy.counted_within,
            days=any(each.looks_at_days for each in looking),
        )
        self._shadow = shadow
        self.reservations = Reservations(reservation)
        self._after_eviction = AfterEviction(after_eviction)
        self._cycles: dict[str, UtilizationCycle] = {}
        self._load = load
        self._policy = policy
        self._policy_name = policy_name
        self._least_spread = least_spread
        self._resolution = resolution

    # what is heard; False: older than what is held

    def on_utilization(self, message: NodeUtilization, now: float) -> bool:
        return self.fleet.utilization(message, now)

    def on_workload(self, message: WorkloadUtilization) -> bool:
        return self.fleet.workload(message)

    def on_cycle(self, message: UtilizationCycle) -> bool:
        if not supersedes_measurement(message, self._cycles.get(message.shard)):
            return False
        self._cycles[message.shard] = message
        return True

    def on_placement(self, message: NodePlacement, now: float) -> list[Arrival] | None:
        """Pods that found their node take their bookings along; None for an outdated message."""
        pods = self.fleet.placement(message, now)
        if pods is None:
            return None
        self._after_eviction.on_placed(pods, now)
        return [Arrival(node=message.node, pod=pod, booking=self.reservations.release(pod.uid)) for pod in pods]

    def on_intent(self, message: EvictionIntent, now: float) -> None:
        self._after_eviction.on_intent(message, now)

    def on_outcome(self, message: EvictionOutcome, now: float) -> None:
        self._after_eviction.on_outcome(message, now)

    def forget(self, now: float) -> None:
        """Drop what has ended, so that a year of nodes, workloads and evictions does not fill the memory."""
        self.fleet.forget(now)
        self._after_eviction.forget(now)

    # what is asked

    def doubt(self, now: float) -> str:
        """Why every score is neutral now; empty when there is no reason."""
        known = self.fleet.fresh_count(now)
        return coverage_problem(self._cycles.values(), known=known, load=self._load, use="score", now=now)

    def prioritize(self, pod: PodDemand, names: Sequence[str], now: float) -> Prioritized:
        """Score the nodes for the pod, and book it on the best ones."""
        if why := self.doubt(now):
            return Prioritized(answer=neutral(len(names), why), reason="coverage")
        if not names:
            return Prioritized(answer=neutral(0, "no node was asked about"), reason="no_nodes")
        hint = self._after_eviction.ask(pod.uid, pod.workload, names, now)
        self.reservations.release(pod.uid)
        demand, rows, nodes = self._look(pod, names, now)
        ranked = rank(
            self._policy, names, nodes, demand, hint, least_spread=self._least_spread, highest=self._resolution
        )
        self._book(pod, ranked, rows, now)
        return Prioritized(
            answer=ranked.answer,
            reason="alike" if ranked.answer.neutral else "",
            ranked=ranked,
            hint=hint,
            shadow=self._opinion(ranked, pod, rows, hint, now),
        )

    def advise(self, pod: PlacedPod, node: str, high: ResourceThresholds, now: float) -> PlacementAdvice | None:
        """Score a placed pod as if its scheduler had asked; None when it is not there any more. Changes nothing.

        It counts nowhere. Those that came at the same time do, where they are; nobody is taken for a replacement.
        """
        _, placement = self.fleet.last_words(node)
        if placement is None or all(each.uid != pod.uid for each in placement.pods):
            return None
        ranked: Ranked | None = None
        if not (why := self.doubt(now) or self.fleet.why_unknown(node, now)):
            fleet = self.fleet.without(node, pod, now)
            names, rows = fleet.candidates(np.nan_to_num(amounts(pod.requests)), node)
            workload = fleet.usage_of(pod.workload, now)
            chain, day = self._policy.demand_chain, fleet.day_of(pod.workload)
            demand = expected_demand(as_asked(pod), workload, windows=fleet.windows, chain=chain, day=day)
            nodes = fleet.loads(names, rows, now, self._booked(pod.uid, now))
            hint = self._after_eviction.hint("", pod.workload, (), now)
            ranked = rank(self._policy, names, nodes, demand, hint, least_spread=self._least_spread)
        return advice(pod, node, ranked, policy_name=self._policy_name, high=high, why=why, now=now)

    def filter(self, pod: PodDemand, names: Sequence[str], high: ResourceThresholds, now: float) -> Filtering:
        """Refuse nodes that are too hot for the pod; nobody, when too little is known."""
        if not names or self.doubt(now):
            return Filtering(nodes=list(names))
        self._after_eviction.ask(pod.uid, pod.workload, names, now)
        demand, _, nodes = self._look(pod, names, now)
        refused = self._policy.refuse(nodes, demand)
        return filtered(names, above_marks(nodes, demand, high) if refused is None else refused)

    def explain(self, prioritized: Prioritized, pod: PodDemand, count: int, now: float) -> ScoreDecision:
        """The answer as it is published."""
        if prioritized.ranked is None:
            return ScoreDecision(
                pod=pod,
                policy=self._policy_name,
                demand=Resources(),
                demand_source="",
                best=[],
                considered=count,
                neutral=True,
                why=prioritized.answer.why,
                decided_at=now,
            )
        told = decision(
            prioritized.ranked,
            pod,
            prioritized.hint,
            policy=self._policy,
            policy_name=self._policy_name,
            why_unknown=lambda node: self.fleet.why_unknown(node, now),
            now=now,
        )
        return msgspec.structs.replace(told, shadow=prioritized.shadow)

    def _opinion(self, ranked: Ranked, pod: PodDemand, rows: Rows, hint: Hint, now: float) -> ShadowResult | None:
        """What the second policy says; None without one."""
        if self._shadow is None:
            return None
        placed = self.fleet.placed(rows, self._shadow.policy.counted_within, now)
        nodes = msgspec.structs.replace(ranked.nodes, placed=placed)
        return self._shadow.opinion(
            ranked, nodes, pod, self.fleet.usage_of(pod.workload, now), hint, day=self.fleet.day_of(pod.workload)
        )

    def explain_question(self, question: ExplainRequest, now: float, *, neutral_by: str = "") -> Explanation:
        """Everything about an answer, as if asked now; books nothing. `neutral_by`: what makes every answer neutral."""
        asked = asked_about(question, self.fleet)
        if isinstance(asked, str):
            return Explanation(problem=asked, explained_at=now)
        fleet = self.fleet if asked.placed is None else self.fleet.without(asked.runs_on, asked.placed, now)
        pod, names = asked.pod or NOBODY, candidates(question, asked, fleet)
        if not names:
            return Explanation(problem="no node that the scorer knows has room for it by requests", explained_at=now)
        hint = self._after_eviction.hint(pod.uid, pod.workload, names, now)
        demand, rows, nodes = self._look(pod, names, now, fleet)
        ranked = rank(
            self._policy, names, nodes, demand, hint, least_spread=self._least_spread, highest=self._resolution
        )
        doubt = self.doubt(now)
        if why := neutral_by or doubt:
            ranked = msgspec.structs.replace(ranked, answer=neutral(len(names), why))
        booked = self._booked(pod.uid, now)
        replacements = self._after_eviction.booked(now, asking=pod.uid, answered=self.reservations)

        def heard(node: str) -> Heard:
            utilization, placement = fleet.last_words(node)
            row = rows[names.index(node)]
            return Heard(
                utilization=utilization,
                placement=placement,
                booked=None if booked is None or row < 0 else np.maximum(booked[row], 0.0),
                answers_booked=self.reservations.count(row, asking=pod.uid),
                replacements_booked=sum(target == node for target, _ in replacements),
                why_unknown=fleet.why_unknown(node, now),
            )

        return explanation(
            ranked,
            asked,
            heard,
            rows=rows,
            policy=self._policy,
            policy_name=self._policy_name,
            hint=hint,
            usage_of=fleet.pod_usage(now),
            load=self._load,
            doubt=doubt,
            now=now,
        )

    def _look(
        self, pod: PodDemand, names: Sequence[str], now: float, fleet: Fleet | None = None
    ) -> tuple[Demand, Rows, NodeLoads]:
        """`fleet`: another than that of now."""
        fleet = fleet or self.fleet
        workload = fleet.usage_of(pod.workload, now)
        chain, day = self._policy.demand_chain, fleet.day_of(pod.workload)
        demand = expected_demand(pod, workload, windows=fleet.windows, chain=chain, day=day)
        rows = fleet.rows(names)
        return demand, rows, fleet.loads(names, rows, now, self._booked(pod.uid, now))

    def _booked(self, asking: str, now: float) -> Array | None:
        """Bookings of answers, and replacements that have none, but for the one that asks."""
        booked = self.reservations.booked(self.fleet.capacity, now, asking=asking)
        replacements = self._after_eviction.booked(now, asking=asking, answered=self.reservations)
        if not replacements:
            return booked
        if booked is None:
            booked = np.zeros((self.fleet.capacity, len(self.fleet.windows), len(RESOURCES)))
        else:
            booked = booked.copy()
        rows = self.fleet.rows([node for node, _ in replacements])
        for row, (_, relief) in zip(rows, replacements, strict=True):
            if row >= 0:
                booked[row] += [relief.cpu or 0.0, relief.memory or 0.0]
        return booked

    def _book(self, pod: PodDemand, ranked: Ranked, rows: Rows, now: float) -> None:
        """A question without a UID is a question only: nothing will be placed."""
        best = ranked.answer.best
        heard_of = rows[best][rows[best] >= 0]
        if pod.uid and len(heard_of):
            self.reservations.book(
                pod.uid,
                rows=heard_of,
                usage=ranked.demand.usage,
                best=frozenset(ranked.names[index] for index in best),
                chance=len(best) / len(ranked.names),
                now=now,
            )
