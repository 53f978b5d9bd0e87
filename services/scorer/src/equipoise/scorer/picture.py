"""All that the scorer knows, and the answers it gives from it. State and rules, no I/O: times are handed in."""

from collections.abc import Sequence

import msgspec
import numpy as np

from equipoise.contracts.load import RESOURCES
from equipoise.contracts.messages import (
    EvictionIntent,
    EvictionOutcome,
    Filtering,
    NodePlacement,
    NodeUtilization,
    PodDemand,
    Resources,
    ScoreDecision,
    UtilizationCycle,
    WorkloadUtilization,
)
from equipoise.contracts.settings import LoadSettings, Marks
from equipoise.scorer import coverage
from equipoise.scorer.after_eviction import AfterEviction, Hint
from equipoise.scorer.answer import Answer, neutral
from equipoise.scorer.demand import expected_demand
from equipoise.scorer.filtering import refuse_hot
from equipoise.scorer.fleet import Fleet, supersedes
from equipoise.scorer.loads import Array, Demand, NodeLoads, Rows
from equipoise.scorer.policies import ScoringPolicy
from equipoise.scorer.prioritize import Ranked, decision, rank
from equipoise.scorer.reservations import Booking, Reservations


class Prioritized(msgspec.Struct, frozen=True, kw_only=True):
    """An answer; `ranked` and `hint` are there when nodes were looked at."""

    answer: Answer
    reason: str = ""
    """Why it is neutral, as a word for metrics; empty when it is not."""

    ranked: Ranked | None = None
    hint: Hint = Hint()


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A pod whose answer was still booked when it was placed on `node`."""

    node: str
    booking: Booking

    @property
    def followed(self) -> bool:
        return self.node in self.booking.best


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
    ) -> None:
        self.fleet = Fleet(load, policy.demand_chain)
        self.reservations = Reservations(reservation)
        self._after_eviction = AfterEviction(after_eviction)
        self._cycles: dict[str, UtilizationCycle] = {}
        self._load = load
        self._policy = policy
        self._policy_name = policy_name
        self._least_spread = least_spread

    # what is heard; False: older than what is held

    def on_utilization(self, message: NodeUtilization, now: float) -> bool:
        return self.fleet.utilization(message, now)

    def on_workload(self, message: WorkloadUtilization) -> bool:
        return self.fleet.workload(message)

    def on_cycle(self, message: UtilizationCycle) -> bool:
        held = self._cycles.get(message.shard)
        if held is not None and not supersedes(message, held):
            return False
        self._cycles[message.shard] = message
        return True

    def on_placement(self, message: NodePlacement, now: float) -> list[Arrival] | None:
        """Pods that found their node take their bookings along; None for an outdated message."""
        pods = self.fleet.placement(message, now)
        if pods is None:
            return None
        self._after_eviction.on_placed(pods, now)
        bookings = [self.reservations.release(pod.uid) for pod in pods]
        return [Arrival(node=message.node, booking=booking) for booking in bookings if booking is not None]

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
        return coverage.doubt(self._cycles.values(), fresh_here=self.fleet.fresh_count(now), load=self._load, now=now)

    def prioritize(self, pod: PodDemand, names: Sequence[str], now: float) -> Prioritized:
        """Score the nodes for the pod, and book it on the best ones."""
        if why := self.doubt(now):
            return Prioritized(answer=neutral(len(names), why), reason="coverage")
        if not names:
            return Prioritized(answer=neutral(0, "no node was asked about"), reason="no_nodes")
        hint = self._after_eviction.ask(pod.uid, pod.workload, set(names), now)
        self.reservations.release(pod.uid)
        demand, rows, nodes = self._look(pod, names, now)
        ranked = rank(self._policy, names, nodes, demand, hint, least_spread=self._least_spread)
        self._book(pod, ranked, rows, now)
        return Prioritized(
            answer=ranked.answer, reason="alike" if ranked.answer.neutral else "", ranked=ranked, hint=hint
        )

    def filter(self, pod: PodDemand, names: Sequence[str], high: Marks, now: float) -> Filtering:
        """Refuse nodes that are too hot for the pod; nobody, when too little is known."""
        if not names or self.doubt(now):
            return Filtering(nodes=list(names))
        self._after_eviction.ask(pod.uid, pod.workload, set(names), now)
        demand, _, nodes = self._look(pod, names, now)
        return refuse_hot(names, nodes, demand, high)

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
        return decision(
            prioritized.ranked,
            pod,
            prioritized.hint,
            policy=self._policy,
            policy_name=self._policy_name,
            why_unknown=lambda node: self.fleet.why_unknown(node, now),
            now=now,
        )

    def _look(self, pod: PodDemand, names: Sequence[str], now: float) -> tuple[Demand, Rows, NodeLoads]:
        workload = self.fleet.usage_of(pod.workload, now)
        demand = expected_demand(pod, workload, windows=self.fleet.windows, chain=self._policy.demand_chain)
        rows = self.fleet.rows(names)
        return demand, rows, self.fleet.loads(rows, now, self._booked(pod.uid, now))

    def _booked(self, asking: str, now: float) -> Array | None:
        """Bookings of answers, and replacements that have none, but for the one that asks."""
        booked = self.reservations.booked(self.fleet.capacity, now)
        replacements = self._after_eviction.booked(now, asking=asking, answered=self.reservations)
        if not replacements:
            return booked
        if booked is None:
            booked = np.zeros((self.fleet.capacity, len(self.fleet.windows), len(RESOURCES)))
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
