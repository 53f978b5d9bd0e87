"""What the descheduler keeps between evaluations: counts, moves under way, cool-downs."""

from collections.abc import Callable, Sequence

import msgspec

from equipoise.contracts.fit import FitPod
from equipoise.contracts.messages import EvictionIntent, EvictionOutcome
from equipoise.contracts.workload import Workload
from equipoise.descheduler import cool_downs, flights
from equipoise.descheduler.cool_downs import MOVED, CoolDowns
from equipoise.descheduler.evaluations import Counts, Reading, abnormal_nodes, counted, restarted
from equipoise.descheduler.flights import Arrival, Flights
from equipoise.descheduler.settings import DeschedulerSettings


class Return(msgspec.Struct, frozen=True, kw_only=True):
    """A replacement that came back to the node its predecessor had left."""

    workload: Workload
    node: str


class Memory:
    """Filled by the bus and by our own intents. A new leader begins with what the bus still keeps."""

    def __init__(self, settings: DeschedulerSettings) -> None:
        self._settings = settings
        self._counts: dict[str, Counts] = {}
        self.flights: Flights = {}
        self.cool_downs: CoolDowns = {}

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

    def proposed(self, intent: EvictionIntent, *, known: Sequence[str], fit: FitPod) -> None:
        """Before an intent is published: its outcome may be here before the answer of the bus."""
        life = self._settings.intent_life
        self.flights = {**self.flights, intent.id: flights.proposed(intent, known=known, fit=fit, life=life)}

    def withdrawn(self, intent_id: str) -> None:
        """The bus did not take the intent."""
        self.flights = {id: flight for id, flight in self.flights.items() if id != intent_id}

    def settled(self, outcome: EvictionOutcome, now: float) -> None:
        """Take in an outcome; one that is told twice changes nothing the second time."""
        patience = self._settings.replacement_patience
        self.flights = flights.after_outcome(self.flights, outcome, patience=patience, now=now)
        self.cool_downs = cool_downs.after_outcome(self.cool_downs, outcome, self._settings.cool_down)
        if outcome.outcome in MOVED:
            self._counts = {strategy: restarted(counts, outcome.node) for strategy, counts in self._counts.items()}

    def tidied(self, arrivals: Callable[[set[Workload]], Sequence[Arrival]], now: float) -> list[Return]:
        """Ends the flights that landed or are given up; tells which came back to where they had left."""
        waiting = {flight.workload for flight in self.flights.values() if flight.evicted_at is not None}
        places = flights.landed(self.flights, arrivals({workload for workload in waiting if workload is not None}))
        returns: list[Return] = []
        for id, node in places.items():
            flight = self.flights[id]
            if node == flight.node and flight.workload is not None:
                returns.append(Return(workload=flight.workload, node=node))
                self.cool_downs = cool_downs.after_return(
                    self.cool_downs, flight.workload, node, self._settings.cool_down, now
                )
        kept = {id: flight for id, flight in self.flights.items() if id not in places}
        self.flights = flights.pruned(kept, now)
        self.cool_downs = cool_downs.pruned(self.cool_downs, self._settings.cool_down, now)
        return returns
