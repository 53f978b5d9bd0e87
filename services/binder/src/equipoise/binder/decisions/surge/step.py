"""The steps of a move without a gap."""

import msgspec

from equipoise.contracts.messages.eviction import Outcome


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is done now."""

    why: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger gets another stage of the move. `next_step` is asked again with it."""

    stage: str
    replacement: str = ""
    """The name of the replacement, when it was bound to a node."""

    node: str = ""
    """The node of the replacement."""

    why: str = ""
    """Why the pod is restored."""


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """The label is written back: the ReplicaSet adopts the pod, and deletes one that is not ready."""


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """The eviction of the pod is requested."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The move is removed from the ledger, and its intent has this outcome."""

    outcome: Outcome
    detail: str


Step = Wait | Record | Restore | Evict | End
