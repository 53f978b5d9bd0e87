"""What the descheduler keeps between evaluations: counts, moves under way or assumed, what came of them, cool-downs."""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import Window
from equipoise.contracts.fit import FitPod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import LoadReduction, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state import cool_downs
from equipoise.descheduler.state import dry_run_moves as assumptions
from equipoise.descheduler.state import pending_moves as flights
from equipoise.descheduler.state import relief_trials as reliefs
from equipoise.descheduler.state.abnormal_counts import Counts, Reading, abnormal_nodes, counted, restarted
from equipoise.descheduler.state.cluster import FleetNode
from equipoise.descheduler.state.cool_downs import MOVED, CoolDown, CoolDowns
from equipoise.descheduler.state.dry_run_moves import Assumptions, Place
from equipoise.descheduler.state.pending_moves import Arrival, Flights
from equipoise.descheduler.state.relief_trials import Trials

UNKNOWN = Resources()


class TrackerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long moves, counts and cool-downs are kept: the fields of the descheduler's section of the same names."""

    interval: float
    consecutive_abnormalities: int
    intent_life: float
    replacement_patience: float
    assumption_life: float
    cool_down: CoolDown


class Memory:
    """Filled by the bus and by our own intents. A new leader begins with what the bus still keeps."""

    def __init__(self, settings: TrackerSettings) -> None:
        self._settings = settings
        self._counts: dict[str, Counts] = {}
        self.flights: Flights = {}
        self.cool_downs: CoolDowns = {}
        self.assumptions: Assumptions = {}
        self._trials: Trials = {}

    @property
    def counts(self) -> Mapping[str, Counts]:
        """By strategy."""
        return self._counts

    def forget_counts(self) -> None:
        """A new leader has evaluated nothing yet."""
        self._counts = {}

    def count(self, strategy: str, readings: Sequence[Reading], now: float) -> Counts:
        """The counts of a strategy after this evaluation."""
        before = self._counts.get(strategy, {})
        self._counts[strategy] = counted(before, readings, now=now, interval=self._settings.interval)
        return self._counts[strategy]

    def abnormal(self, strategy: str) -> frozenset[str]:
        return abnormal_nodes(self._counts.get(strategy, {}), self._settings.consecutive_abnormalities)

    def proposed(
        self,
        intent: EvictionIntent,
        *,
        known: Sequence[str],
        fit: FitPod,
        before: Resources = UNKNOWN,
        over: Sequence[str] = (),
    ) -> None:
        """Before an intent is published: its outcome may be here before the answer of the bus.

        `before`: usage of its node, cores and bytes; `over`: the resources in which it is over its mark.
        """
        life = self._settings.intent_life
        flight = flights.proposed(intent, known=known, fit=fit, life=life)
        flight = msgspec.structs.replace(flight, before=before, over=tuple(over))
        self.flights = {**self.flights, intent.id: flight}

    def withdrawn(self, intent_id: str) -> None:
        """The bus did not take the intent."""
        self.flights = {id: flight for id, flight in self.flights.items() if id != intent_id}

    def settled(self, outcome: EvictionOutcome, now: float) -> None:
        """Take in an outcome; one that is told twice changes nothing the second time."""
        patience = self._settings.replacement_patience
        self.flights = flights.after_outcome(self.flights, outcome, patience=patience, now=now)
        self.cool_downs = cool_downs.after_outcome(self.cool_downs, outcome, self._settings.cool_down)
        self.assumptions = assumptions.after_outcome(
            self.assumptions, outcome, life=self._settings.assumption_life, now=now
        )
        if outcome.outcome is Outcome.EVICTED and outcome.intent_id in self.flights:
            self._trials = reliefs.begun(self._trials, self.flights[outcome.intent_id])
        if outcome.outcome in MOVED:
            self._counts = {strategy: restarted(counts, outcome.node) for strategy, counts in self._counts.items()}

    def waiting(self) -> set[Workload]:
        """The workloads of which a replacement is looked for."""
        workloads = {flight.workload for flight in self.flights.values() if flight.evicted_at is not None}
        return {workload for workload in workloads if workload is not None}

    def tidied(self, arrivals: Callable[[set[Workload]], Sequence[Arrival]], now: float) -> list[ReplacementPlaced]:
        """Ends the flights that landed or are given up; tells where they landed.

        One that came back to where its predecessor had left lets its workload rest.
        """
        landings: list[ReplacementPlaced] = []
        for id, arrival in flights.landed(self.flights, arrivals(self.waiting())).items():
            flight = self.flights[id]
            landings.append(
                ReplacementPlaced(
                    intent_id=id,
                    namespace=flight.namespace,
                    pod=flight.pod,
                    node=flight.node,
                    target=flight.target,
                    replacement=arrival.name,
                    placed_on=arrival.node,
                )
            )
            if arrival.node == flight.node and flight.workload is not None:
                self.cool_downs = cool_downs.after_return(
                    self.cool_downs, flight.workload, flight.node, self._settings.cool_down, now
                )
        done = {landing.intent_id for landing in landings}
        self.flights = flights.pruned({id: flight for id, flight in self.flights.items() if id not in done}, now)
        self.cool_downs = cool_downs.pruned(self.cool_downs, self._settings.cool_down, now)
        return landings

    def judged(self, nodes: Sequence[FleetNode], window: Window, now: float) -> list[LoadReduction]:
        """What earlier evictions did to the load of their nodes, as far as `window` (the shortest) shows it by now.

        Nodes that did not get better, time and again, rest.
        """
        found = reliefs.judged(self._trials, nodes, window=window.name, length=window.length)
        self._trials = reliefs.open_trials(self._trials, found, length=window.length, now=now)
        for relief in found:
            self.cool_downs = cool_downs.after_relief(self.cool_downs, relief, self._settings.cool_down, now)
        return found

    def assume(self, places: Mapping[str, Place], nodes: Collection[str], now: float) -> None:
        """Keeps the assumptions that still hold; see `assumptions.standing`."""
        self.assumptions = assumptions.standing(self.assumptions, places, nodes, now)

    def evictions_are_real(self) -> None:
        """From now on what was only assumed would hide what has to be done."""
        self.assumptions = {}
