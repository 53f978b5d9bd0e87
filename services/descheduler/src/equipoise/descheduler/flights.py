"""Moves under way: proposed, not yet settled, or evicted with no replacement seen. Nothing else remembers them."""

from collections.abc import Iterable, Mapping

import msgspec

from equipoise.contracts.fit import FitPod
from equipoise.contracts.messages import EvictionIntent, EvictionOutcome, Outcome, Resources
from equipoise.contracts.workload import Workload


class Flight(msgspec.Struct, frozen=True, kw_only=True):
    """One pod on its way from a node to another."""

    id: str
    """The intent's."""

    pod_uid: str
    node: str
    target: str
    workload: Workload | None
    relief: Resources
    until: float
    """When it is given up: nobody settled the intent, or the replacement was seen nowhere."""

    evicted_at: float | None = None
    known: frozenset[str] = frozenset()
    """UIDs of the workload's pods when it was proposed: none of them is the replacement."""

    fit: FitPod | None = None
    """What it needs at its target; None when another leader proposed it."""


Flights = Mapping[str, Flight]
"""By intent id."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as far as it may be a replacement."""

    uid: str
    workload: Workload
    node: str
    """Empty while it waits for one."""

    created_at: float


def proposed(intent: EvictionIntent, *, known: Iterable[str], fit: FitPod, life: float) -> Flight:
    """A flight for an intent just published. It is kept a life longer than the intent: the outcome may be late."""
    return Flight(
        id=intent.id,
        pod_uid=intent.pod_uid,
        node=intent.node,
        target=intent.target,
        workload=intent.workload,
        relief=intent.relief,
        until=intent.expires_at + life,
        known=frozenset(known),
        fit=fit,
    )


def after_outcome(flights: Flights, outcome: EvictionOutcome, *, patience: float, now: float) -> dict[str, Flight]:
    """The flights once an intent's outcome is known: an evicted pod's flight goes on, every other ends.

    An eviction that another leader proposed becomes a flight too, so that a change of leaders forgets nothing.
    """
    rest = {id: flight for id, flight in flights.items() if id != outcome.intent_id}
    until = outcome.settled_at + patience
    if outcome.outcome is not Outcome.EVICTED or until <= now:
        return rest
    flight = flights.get(outcome.intent_id) or Flight(
        id=outcome.intent_id,
        pod_uid=outcome.pod_uid,
        node=outcome.node,
        target=outcome.target,
        workload=outcome.workload,
        relief=outcome.relief,
        until=until,
    )
    rest[outcome.intent_id] = msgspec.structs.replace(flight, evicted_at=outcome.settled_at, until=until)
    return rest


def landed(flights: Flights, arrivals: Iterable[Arrival]) -> dict[str, str]:
    """By intent id the node on which the replacement of an evicted pod was seen; one pod replaces one."""
    waiting: dict[Workload, list[Flight]] = {}
    for flight in sorted(flights.values(), key=lambda flight: (flight.evicted_at or 0.0, flight.id)):
        if flight.evicted_at is not None and flight.workload is not None:
            waiting.setdefault(flight.workload, []).append(flight)
    nodes: dict[str, str] = {}
    for arrival in sorted(arrivals, key=lambda arrival: (arrival.created_at, arrival.uid)):
        for flight in waiting.get(arrival.workload, []):
            if arrival.node and _replaces(arrival, flight):
                nodes[flight.id] = arrival.node
                waiting[arrival.workload].remove(flight)
                break
    return nodes


def _replaces(arrival: Arrival, flight: Flight) -> bool:
    if arrival.uid == flight.pod_uid or arrival.uid in flight.known:
        return False
    # The API server tells whole seconds, and an eviction is settled a moment after it happened. A flight of our own
    # needs no time: it knows who was there before.
    assert flight.evicted_at is not None
    return bool(flight.known) or arrival.created_at >= int(flight.evicted_at) - 1


def pruned(flights: Flights, now: float) -> dict[str, Flight]:
    """Without those that are given up."""
    return {id: flight for id, flight in flights.items() if flight.until > now}
