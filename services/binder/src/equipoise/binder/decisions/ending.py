"""How an intent ends, and what has to be written down of it."""

import msgspec

from equipoise.binder.decisions.staleness import Verdict
from equipoise.binder.state.ledger import Entry
from equipoise.contracts.messages.eviction import Outcome


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an intent for good."""

    verdict: Verdict
    dry_run: bool = False
    reserved: bool = False
    """The reservation in the ledger is ours to settle."""

    counted: bool = True
    """Against the limits, if it was reserved."""

    recorded: bool = False
    """The ledger has it already, or there is no ledger."""

    settled_at: float | None = None
    of_workload: bool = False
    """Who owns the workload has to put something right, and should hear of it."""


def recorded(entry: Entry) -> Ending:
    """As the ledger has it. ValueError for an entry without an outcome."""
    return Ending(verdict=verdict_of(entry), recorded=True, settled_at=entry.settled_at)


def verdict_of(entry: Entry) -> Verdict:
    """The outcome that an entry has. ValueError when it has none."""
    if entry.outcome is None:
        raise ValueError(f"intent {entry.intent_id} is not settled")
    return Verdict(outcome=entry.outcome, detail=entry.detail, limit=entry.limit, room_at=entry.room_at)


def left(*, dry_run: bool) -> Verdict:
    """A pod that left after its eviction was reserved: by our POST, unless that was a dry run."""
    if dry_run:
        return Verdict(outcome=Outcome.ALREADY_GONE, detail="the pod left during the dry run")
    return Verdict(outcome=Outcome.EVICTED, detail="the answer was lost, but the pod has left")


def paused(why: str) -> Verdict:
    return Verdict(outcome=Outcome.PAUSED, detail=f"paused: {why or 'no reason given'}")
