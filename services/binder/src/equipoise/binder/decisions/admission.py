"""Decides from the ledger whether one more pod may be evicted. The same ledger gives the same result in every
binder."""

import math

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish, Proceed, Retry, paused
from equipoise.binder.state.ledger import Ledger, LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome

Admission = Proceed[None] | Finish | Retry


def admit(
    intent: EvictionIntent, eviction: ProposedEviction, ledger: Ledger, limits: Limits, now: float, *, dry_run: bool
) -> Admission:
    """Checks for a pause and another intent for the same pod, then the limits and the rate. `now`: the API server's
    time.

    The intent's own reservation does not count against it, and with one it does not wait for the rate again.
    """
    return _decide(intent, eviction, ledger, _view(intent, ledger, limits, now, dry_run=dry_run), limits)


def deciding_replacements(
    intent: EvictionIntent, eviction: ProposedEviction, ledger: Ledger, limits: Limits, now: float, *, dry_run: bool
) -> tuple[LedgerEntry, ...]:
    """The entries whose replacements must be read before `admit` is final.

    If the eviction would be allowed, these are all pending ones, because a failing replacement refuses it. If it would
    be refused, they are read only if their recovery would end the refusal.
    """
    view = _view(intent, ledger, limits, now, dry_run=dry_run)
    if isinstance(_decide(intent, eviction, ledger, view, limits), Retry):
        return ()
    if isinstance(_decide(intent, eviction, ledger, view.with_all_recovered(), limits), Finish):
        return ()
    return tuple(view.pending_replacements())


def _view(intent: EvictionIntent, ledger: Ledger, limits: Limits, now: float, *, dry_run: bool) -> LedgerView:
    view = ledger.view(
        now, dry_run=dry_run, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
    )
    return msgspec.structs.replace(
        view,
        entries=tuple(entry for entry in view.entries if entry.intent_id != intent.id),
        campaign=bool(campaign_of(intent, ledger, now, dry_run=dry_run)),
    )


def campaign_of(intent: EvictionIntent, ledger: Ledger, now: float, *, dry_run: bool) -> str:
    """The name of the campaign whose budget the move uses; empty if none has a move left for it. Dry runs use none."""
    campaign, entry = ledger.campaign, ledger.entry(intent.id)
    if campaign is None or dry_run:
        return ""
    reserved = entry is not None and entry.counted and entry.campaign == campaign.name
    if entry is not None and not reserved:
        return ""  # it was reserved within the usual limits
    return campaign.name if campaign.permits(now, reserved=reserved) else ""


def _decide(
    intent: EvictionIntent, eviction: ProposedEviction, ledger: Ledger, view: LedgerView, limits: Limits
) -> Admission:
    if ledger.paused:
        return paused(ledger.pause_reason)
    # The ledger keeps older entries until it is next written.
    kept = view.within(max(ledger.retention, limits.retention))
    other = next((entry for entry in kept if entry.pod_uid == intent.pod_uid), None)
    if other is not None:
        detail = f"intent {other.intent_id} is for the same pod"
        return Finish(outcome=Outcome.REJECTED_LIMIT, detail=detail)
    refusal = limits.refusal(eviction, view)
    if refusal is not None:
        return refusal
    wait = limits.rate.wait(view)
    if wait == math.inf:
        detail = f"{limits.rate.refusal(eviction, view)} (limits.rate)"
        return Finish(outcome=Outcome.REJECTED_LIMIT, detail=detail)
    if wait > 0 and ledger.entry(intent.id) is None:
        return Retry(after=wait, why="limits.rate")
    return Proceed(None)
