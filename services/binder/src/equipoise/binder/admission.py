"""May one more pod move, as the ledger has it? Pure: the same ledger gives the same answer in every binder."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from equipoise.binder.doubts import Verdict
from equipoise.binder.ledger import Entry, Ledger, View
from equipoise.binder.limits import Limits, Move
from equipoise.contracts.messages import EvictionIntent, Outcome


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with an intent."""

    say: Literal["go", "wait", "refuse", "look"]
    verdict: Verdict | None = None
    """Set to refuse. With look: the verdict if nothing has recovered."""

    wait: float = 0.0
    """Seconds until its turn in the pace."""

    look_at: tuple[Entry, ...] = ()
    """Moves that may be over by now: the intent could go if they were."""


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
        unseen = _unseen(view, limits)
        if unseen and not limits.refusal(move, view.assuming_recovered()):
            return Admission(say="look", verdict=verdict, look_at=unseen)
        return Admission(say="refuse", verdict=verdict)
    wait = limits.pace.wait(view)
    if wait == math.inf:
        return _refuse(Outcome.REJECTED_LIMIT, f"{limits.pace.refusal(move, view)} (limits.pace)")
    return Admission(say="wait", wait=wait) if wait > 0 else Admission(say="go")


def _unseen(view: View, limits: Limits) -> tuple[Entry, ...]:
    """Real moves that may be over, for all that is known. A workload's status is trusted after a settling time only."""
    entries: Sequence[Entry] = view.in_migration()
    return tuple(
        entry
        for entry in entries
        if not entry.dry_run
        and entry.settled_at is not None
        and view.now - entry.settled_at >= limits.replacement_settling
    )
