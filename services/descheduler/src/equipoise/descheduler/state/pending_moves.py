"""Moves under way: proposed, not yet settled, or evicted with no replacement seen. Nothing else remembers them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from equipoise.contracts.fit import FitPod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.cluster import Move


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

    namespace: str = ""
    pod: str = ""
    before: Resources = Resources()
    """What its node used when it was proposed; unknown when another leader proposed it."""

    over: tuple[str, ...] = ()
    """The resources in which its node was over its mark."""


Flights = Mapping[str, Flight]
"""By intent id."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as far as it may be a replacement."""

    uid: str
    workload: Workload
    node: str
    """Empty while it waits for one."""

    created_at: float
    name: str = ""


def proposed(intent: EvictionIntent, *, known: Iterable[str], fit: FitPod, life: float) -> Flight:
    """A flight for an intent just published. It is kept a life longer than the intent: the outcome may be late."""
    return Flight(
        id=intent.id,
        pod_uid=intent.pod_uid,
        node=intent.node,
        target=intent.target,
        workload=intent.workload,
        relief=intent.expected_reduction,
        until=intent.expires_at + life,
        known=frozenset(known),
        fit=fit,
        namespace=intent.namespace,
        pod=intent.pod,
    )


def planned(move: Move) -> Flight:
    """A flight for a move that is only looked at: what is planned after it goes on from it."""
    return Flight(
        id=f"planned {move.pod.uid}",
        pod_uid=move.pod.uid,
        node=move.pod.node,
        target=move.target,
        workload=move.pod.workload,
        relief=move.pod.usage,
        until=math.inf,
        fit=move.pod.fit,
        namespace=move.pod.namespace,
        pod=move.pod.name,
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
        relief=outcome.expected_reduction,
        until=until,
        namespace=outcome.namespace,
        pod=outcome.pod,
    )
    rest[outcome.intent_id] = msgspec.structs.replace(flight, evicted_at=outcome.settled_at, until=until)
    return rest


def landed(flights: Flights, arrivals: Iterable[Arrival]) -> dict[str, Arrival]:
    """By intent id the pod that replaces an evicted one, once it is on a node; one pod replaces one."""
    waiting: dict[Workload, list[Flight]] = {}
    for flight in sorted(flights.values(), key=lambda flight: (flight.evicted_at or 0.0, flight.id)):
        if flight.evicted_at is not None and flight.workload is not None:
            waiting.setdefault(flight.workload, []).append(flight)
    found: dict[str, Arrival] = {}
    for arrival in sorted(arrivals, key=lambda arrival: (arrival.created_at, arrival.uid)):
        for flight in waiting.get(arrival.workload, []):
            if arrival.node and _replaces(arrival, flight):
                found[flight.id] = arrival
                waiting[arrival.workload].remove(flight)
                break
    return found


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


def busy_workloads(flights: Flights) -> dict[Workload, int]:
    """How many pods of each workload are on the move."""
    return dict(Counter(flight.workload for flight in flights.values() if flight.workload is not None))


def unsettled(flights: Flights) -> int:
    """Intents that nobody has settled yet."""
    return sum(flight.evicted_at is None for flight in flights.values())
