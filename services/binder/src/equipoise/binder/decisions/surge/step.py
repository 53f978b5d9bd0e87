"""The steps of a move without a gap."""

import msgspec

from equipoise.binder.state.surge_move import SurgeMove, with_replacement, with_stage
from equipoise.contracts.messages.eviction import Outcome


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is done now."""

    why: str
    stuck: bool = False
    """Whether perhaps only a person can end the move; `why` then states what to do."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger gets another stage of the move. `next_step` is asked again with it."""

    stage: str
    why: str = ""
    """Why the pod is restored."""

    def applied(self, move: SurgeMove, now: float) -> SurgeMove:
        return with_stage(move, self.stage, now, why=self.why)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger gets the replacement, which is bound to a node. `next_step` is asked again with it."""

    replacement: str
    node: str
    misplaced: str = ""
    """Why it should not run there; empty if it may."""

    def applied(self, move: SurgeMove, _: float) -> SurgeMove:
        return with_replacement(move, self.replacement, self.node, self.misplaced)


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """The label is written back: the ReplicaSet adopts the pod, and deletes one that is not ready."""


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """The eviction of the pod is requested."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The move is removed from the ledger, and its intent has this outcome."""

    outcome: Outcome
    detail: str
    begun: bool = True
    """False if the pod was never detached: the move counts in no limit, and the pod may be moved at once."""


Step = Wait | Record | Place | Restore | Evict | End
