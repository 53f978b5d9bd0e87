"""The moves without a gap that the ledger has."""

from typing import Self

import msgspec

from equipoise.binder.state.surge_move import SurgeMove


class LedgerMoves(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The open moves, a part of the document."""

    surge_moves: tuple[SurgeMove, ...] = ()
    """The moves without a gap that are under way. Each has an entry, too, without an outcome."""

    @property
    def surge_pods(self) -> tuple[str, ...]:
        """The UIDs of the pods that are moved without a gap."""
        return tuple(move.intent.pod_uid for move in self.surge_moves)

    def surge_move(self, intent_id: str) -> SurgeMove | None:
        return next((move for move in self.surge_moves if move.intent.id == intent_id), None)

    def with_surge_move(self, move: SurgeMove) -> Self:
        """The ledger with this move, instead of what it had of it."""
        return msgspec.structs.replace(self, surge_moves=(*self.without_surge_move(move.intent.id).surge_moves, move))

    def without_surge_move(self, intent_id: str) -> Self:
        return msgspec.structs.replace(
            self, surge_moves=tuple(move for move in self.surge_moves if move.intent.id != intent_id)
        )
