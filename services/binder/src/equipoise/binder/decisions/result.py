"""What a step decides about an intent: `Proceed`, `Finish` with an outcome, or `Retry` later."""

from typing import Generic, Literal, TypeVar

import msgspec

from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted

T = TypeVar("T")

_ATTEMPTS = 5
"""An intent that cannot be decided now is delivered this often in its lifetime."""

Reservation = Literal["none", "kept", "returned"]
"""What becomes of the reservation. none: this binder has none. kept: it counts against the limits. returned: it no
longer counts, because the eviction was definitely refused or never requested."""


class Proceed(msgspec.Struct, Generic[T], frozen=True):
    """No reason against the eviction at this step. `value`: what the next steps need."""

    value: T


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an intent, and what the ledger has to record."""

    outcome: Outcome
    detail: str = ""
    """The reason, for people."""

    limit: str = ""
    """Name of the limit that refused."""

    limit_scope: str = ""
    retry_at: float | None = None
    """The time at which that limit may agree, if that depends on time alone."""

    reservation: Reservation = "none"
    recorded: bool = False
    """The ledger has the outcome already, does not need it, or cannot be written."""

    settled_at: float | None = None
    """The time at which the outcome was recorded."""

    workload: Workload | None = None
    """The workload in the ledger's entry."""

    dry_run: bool | None = None
    """Whether it is the outcome of a dry run. None: it is if the binder that decides makes dry runs only."""

    campaign: str = ""
    """The name of the campaign whose budget the move used."""

    without_gap: bool = False
    """Whether the pod was moved without a gap, or was to be."""

    owner_must_act: bool = False
    """Whether only the owner of the workload can remove the cause: an Event on the workload then reports it."""

    def message(self, intent: EvictionIntent, settled_at: float, *, dry_runs: bool = False) -> EvictionOutcome:
        """`dry_runs`: whether the binder that decides makes dry runs only."""
        dry_run = dry_runs if self.dry_run is None else self.dry_run
        return converted(
            intent,
            EvictionOutcome,
            intent_id=intent.id,
            outcome=self.outcome,
            detail=self.detail,
            settled_at=settled_at,
            limit=self.limit,
            limit_scope=self.limit_scope,
            retry_at=self.retry_at,
            without_gap=self.without_gap,
            campaign=self.campaign,
            dry_run=self.outcome == Outcome.DRY_RUN or (dry_run and self.outcome != Outcome.EVICTED),
        )


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The pod is moved without a gap. The outcome of the intent is published at the end of the move."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The intent cannot be decided now: it is delivered again."""

    after: float
    """Seconds."""

    why: str
    reservation: Reservation = "none"


def retry(intent: EvictionIntent, why: str, *, at_least: float = 0.0, reservation: Reservation = "none") -> Retry:
    """The attempts are spread over the intent's lifetime, `at_least` seconds apart."""
    after = max(at_least, (intent.expires_at - intent.decided_at) / _ATTEMPTS)
    return Retry(after=after, why=why, reservation=reservation)


def retry_while_fresh(
    intent: EvictionIntent, why: str, otherwise: Outcome, *, now: float, sample_lifetime: float, at_least: float = 0.0
) -> Finish | Retry:
    """Another attempt as long as the intent has not expired by then and its samples are fresh enough, `otherwise`
    after that.

    `sample_lifetime`: seconds for which a sample is fresh enough for an eviction.
    """
    again = retry(intent, why, at_least=at_least)
    if fresh_at(now + again.after, intent, sample_lifetime):
        return again
    return Finish(outcome=otherwise, detail=why)


def fresh_at(time: float, intent: EvictionIntent, sample_lifetime: float) -> bool:
    """Whether an attempt at this time would still be before the intent expires and its samples are too old."""
    return time < min(intent.expires_at, intent.sampled_at + sample_lifetime)


def recorded(entry: LedgerEntry) -> Finish:
    """The outcome that the ledger has. Raises ValueError for an entry without an outcome."""
    if entry.outcome is None:
        raise ValueError(f"intent {entry.intent_id} is not settled")
    return converted(entry, Finish, recorded=True)


def published(outcome: EvictionOutcome) -> Finish:
    """The outcome that has been published for an intent: it is published again, unchanged."""
    return converted(outcome, Finish, recorded=True)


def pod_left(*, dry_run: bool) -> Finish:
    """The pod left after its eviction was reserved: because of a POST for it, unless that was a dry run."""
    if dry_run:
        return Finish(outcome=Outcome.ALREADY_GONE, detail="the pod left during the dry run", reservation="kept")
    detail = "the response was lost, but the pod has left"
    return Finish(outcome=Outcome.EVICTED, detail=detail, reservation="kept")


def paused(why: str) -> Finish:
    detail = f"paused: {why or 'no reason given'} (`equipoise resume` ends it)"
    return Finish(outcome=Outcome.PAUSED, detail=detail)
