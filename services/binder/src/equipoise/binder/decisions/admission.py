"""May one more pod move, as the ledger has it? Pure: the same ledger gives the same answer in every binder."""

import math
from typing import Literal

import msgspec

from equipoise.binder.decisions.limits import Limits, Move
from equipoise.binder.decisions.staleness import Verdict
from equipoise.binder.state.ledger import Entry, Ledger
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with an intent."""

    say: Literal["go", "wait", "refuse", "look"]
    verdict: Verdict | None = None
    """Set to refuse. With look: the verdict if nothing has recovered."""

    wait: float = 0.0
    """Seconds until its turn in the pace."""

    look_at: tuple[Entry, ...] = ()
    """Moves to look after first: the intent could go if they were over by now, or may not if they fail."""


def _refuse(outcome: Outcome, detail: str) -> Admission:
    return Admission(say="refuse", verdict=Verdict(outcome=outcome, detail=detail))


def admit(
    intent: EvictionIntent, move: Move, ledger: Ledger, limits: Limits, now: float, *, dry_run: bool
) -> Admission:
    """Pause, replays, the same pod twice, then the limits, then the pace. `now` is the API server's."""
    if ledger.paused:
        return _refuse(Outcome.PAUSED, f"paused: {ledger.paused_why or 'no reason given'} (`equipoise resume` ends it)")
    moved = ledger.entry_of_pod(intent.pod_uid, dry_run=dry_run)
    if moved is not None:
        return _refuse(Outcome.REJECTED_LIMIT, f"intent {moved.intent_id} has this pod already")
    view = ledger.view(now, dry_run=dry_run, migration_timeout=limits.migration_timeout, grace=limits.start_up_grace)
    refusal = limits.refusal(move, view)
    if refusal is not None:
        verdict = Verdict(
            outcome=Outcome.REJECTED_LIMIT, detail=refusal.why, limit=refusal.limit, room_at=refusal.room_at
        )
        unseen = tuple(view.awaited())
        if unseen and not limits.refusal(move, view.assuming_recovered()):
            return Admission(say="look", verdict=verdict, look_at=unseen)
        return Admission(say="refuse", verdict=verdict)
    wait = limits.pace.wait(view)
    if wait == math.inf:
        return _refuse(Outcome.REJECTED_LIMIT, f"{limits.pace.refusal(move, view)} (limits.pace)")
    return Admission(say="wait", wait=wait) if wait > 0 else Admission(say="go", look_at=tuple(view.awaited()))
