"""The moves that the live views show, from the intent of each to its effect. Memory is bounded."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from equipoise.cli.plan.summary import gain_and_cost
from equipoise.cli.views.rows import MoveRow
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.values.move import JustifiedMove

MAX_MOVES = 500

OUTCOME_DELAY = 60.0
"""Seconds after the expiry of an intent in which its outcome may still arrive."""

MOVE_TIME = 3_600.0
"""The same for a move without a gap, whose replacement must become ready first."""


class KnownMoves:
    """The moves that are known from intents, outcomes and decisions, which may arrive in any order."""

    def __init__(self) -> None:
        self._moves: OrderedDict[str, MoveRow] = OrderedDict()
        self._changed: dict[str, MoveRow] = {}

    def __iter__(self) -> Iterator[MoveRow]:
        """The moves, oldest first."""
        return iter(self._moves.values())

    def propose(self, intent: EvictionIntent) -> None:
        if intent.id not in self._moves:
            self._keep(_row(intent))

    def settle(self, outcome: EvictionOutcome) -> None:
        known = self._moves.get(outcome.intent_id)
        settled = _row(outcome, id=outcome.intent_id, outcome=outcome.outcome.value)
        if known is not None:
            settled = replace(
                known,
                outcome=settled.outcome,
                detail=settled.detail,
                limit=settled.limit,
                settled_at=settled.settled_at,
                retry_at=settled.retry_at,
                without_gap=settled.without_gap,
            )
        self._keep(settled)

    def evaluate(self, decision: DescheduleDecision) -> None:
        """Add the proposed moves of a decision, and what it states about earlier moves."""
        for move in decision.moves:
            if (known := self._moves.get(move.intent_id)) is None:
                row = _row(move, id=move.intent_id, strategy=decision.strategy, decided_at=decision.evaluated_at)
                self._keep(row)
            elif not known.strategy:
                self._keep(replace(known, strategy=decision.strategy))
        for placed in decision.replacements:
            if (known := self._moves.get(placed.intent_id)) is not None:
                self._keep(replace(known, replacement=placed.replacement, placed_on=placed.placed_on))
        for reduction in decision.load_reductions:
            for intent in reduction.intents:
                if (known := self._moves.get(intent)) is not None:
                    self._keep(replace(known, reduced=reduction.reduced))

    def expire(self, now: float) -> None:
        """Mark the outcome of a move as unknown if its intent has expired without an outcome."""
        for move in list(self._moves.values()):
            delay = MOVE_TIME if move.without_gap else OUTCOME_DELAY
            if not move.outcome and move.expires_at is not None and now > move.expires_at + delay:
                why = "the intent has expired, and no outcome was received"
                self._keep(replace(move, outcome="unknown", detail=why))

    def take_changes(self) -> list[MoveRow]:
        """The moves that changed since the last call."""
        changed = list(self._changed.values())
        self._changed = {}
        return changed

    def _keep(self, move: MoveRow) -> None:
        if self._moves.get(move.id) == move:
            return
        self._moves[move.id] = self._changed[move.id] = move
        while len(self._moves) > MAX_MOVES:
            oldest, _ = self._moves.popitem(last=False)
            self._changed.pop(oldest, None)


def _row(move: JustifiedMove, **fields: Any) -> MoveRow:
    return converted(move, MoveRow, workload=str(move.workload or ""), gain_and_cost=gain_and_cost(move), **fields)
