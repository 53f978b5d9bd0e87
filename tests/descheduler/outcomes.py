"""Outcomes of intents, and moves in every state."""

from typing import Any

from builders import NOW, an_intent
from descheduler.cluster_states import pod_info

from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted
from equipoise.descheduler.state.moves.pending_moves import PendingMoves, TrackedMove, after_outcome

DAY = 86_400.0
INFO = pod_info("web-1")


def an_outcome(outcome: Outcome, intent: EvictionIntent | None = None, **fields: Any) -> EvictionOutcome:
    intent = intent or an_intent()
    return converted(
        intent, EvictionOutcome, **({"intent_id": intent.id, "outcome": outcome, "settled_at": NOW} | fields)
    )


def a_proposed_move(intent: EvictionIntent | None = None, **fields: Any) -> TrackedMove:
    intent = intent or an_intent()
    defaults = {"siblings": frozenset({"uid-web-1", "uid-web-2"}), "info": INFO, "until": intent.expires_at + 180}
    return converted(intent, TrackedMove, **(defaults | fields))


def dry_run_moves(*intents: EvictionIntent, at: float = NOW) -> PendingMoves:
    """The moves after a dry run of each of these intents."""
    moves: PendingMoves = {}
    for intent in intents:
        moves = after(moves, an_outcome(Outcome.DRY_RUN, intent, settled_at=at), now=at)
    return moves


def after(moves: PendingMoves, outcome: EvictionOutcome, *, now: float = NOW) -> PendingMoves:
    return after_outcome(moves, outcome, replacement_timeout=600.0, dry_run_lifetime=DAY, now=now)
