"""A move without a gap that is under way, as the ledger holds it.

The pod is detached from its ReplicaSet, which creates a replacement at once, and evicted when the replacement is ready.
The stage of a move states which request may have been sent: it is written before the request. So any binder continues
with the move of one that has crashed.
"""

from typing import Any

import msgspec

from equipoise.contracts.bounds import Count, Time
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent

RESERVED = "reserved"
"""The label of the pod may be removed."""

DETACHED = "detached"
"""The label is removed. Nothing else is requested in this stage."""

PLACED = "placed"
"""The replacement is bound to a node. Nothing is requested."""

READY = "ready"
"""The workload is complete without the pod, whose eviction may be requested."""

RESTORING = "restoring"
"""The label may be written back."""

STEP_LIFETIME = 5.0
"""Seconds after a change of the stage in which a request of the stage before may still arrive: a binder sends a request
within `MAX_READ_AGE` after it has read the stage in the ledger. Evicting and restoring a pod contradict each other, so
none of the two stages follows the other within this time."""


class SurgeMove(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One pod that is moved without a gap."""

    intent: EvictionIntent
    """The intent, whose outcome is published when the move ends."""

    workload: Workload
    """The Deployment of the pod."""

    replica_set: str
    """The name of the ReplicaSet of the pod."""

    template_hash: str
    """The value of the label that is removed."""

    replicas: Count
    """The desired replicas of the Deployment when the move was reserved."""

    stage: str
    """A constant of this module. A later version may have others."""

    stage_at: Time
    """The time since which the stage permits the same requests. Unix seconds."""

    ready_by: Time
    """The time at which the pod is restored if the workload is not complete without it. Unix seconds."""

    replacement: str = ""
    """The name of the replacement, once it is bound to a node."""

    replacement_node: str = ""
    why: str = ""
    """The reason why the pod is restored."""

    unknown_fields: dict[str, Any] = {}
    """Fields of a later version, as in an entry of the ledger."""


def with_stage(
    move: SurgeMove, stage: str, now: float, *, replacement: str = "", node: str = "", why: str = ""
) -> SurgeMove:
    """The move in another stage. `replacement` and `node`: those that it keeps if they are empty."""
    return msgspec.structs.replace(
        move,
        stage=stage,
        stage_at=move.stage_at if stage == PLACED else now,  # nothing is requested, as in the stage before
        replacement=replacement or move.replacement,
        replacement_node=node or move.replacement_node,
        why=why,
    )
