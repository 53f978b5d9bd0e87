"""A move without a gap that is under way, as the ledger holds it.

The pod is detached from its ReplicaSet, which creates a replacement at once, and evicted when the replacement is ready.
The stage of a move states which request may have been sent: it is written before the request. So any binder continues
with the move of one that has crashed.
"""

from typing import Any

import msgspec

from equipoise.contracts.bounds import Count, Time
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
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


DETACH_LIFETIME = 60.0
"""Seconds after which a request to remove the label cannot arrive any more if nobody knows its response: an API server
ends each request within a minute (`--request-timeout`). A move that has ended sooner would leave the pod without
owner."""


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

    do_not_disrupt: bool = False
    """Whether the pod gets the annotation that forbids its eviction to Karpenter while it is detached. Not a pod that
    has the annotation already, whatever its value: then it stays as it is."""

    stage: str
    """A constant of this module. A later version may have others."""

    stage_at: Time
    """The time since which the stage permits the same requests; 0 if no other request can arrive. Unix seconds."""

    ready_by: Time
    """The time at which the pod is restored if the workload is not complete without it. Unix seconds."""

    replacement: str = ""
    """The name of the replacement, once it is bound to a node."""

    replacement_node: str = ""
    misplaced: str = ""
    """Why the replacement should not run on this node; empty if it may. Judged when it was bound."""

    why: str = ""
    """The reason why the pod is restored."""

    unknown_fields: dict[str, Any] = {}
    """Fields of a later version, as in an entry of the ledger."""


def is_settled(move: SurgeMove, now: float) -> bool:
    """Whether no request of the stage before, and none that removes the label, can arrive any more."""
    return now - move.stage_at >= (DETACH_LIFETIME if move.stage == RESERVED else STEP_LIFETIME)


def restore_commands(move: SurgeMove) -> str:
    """What a person runs to give the pod back to its ReplicaSet."""
    pod = f"--namespace {move.intent.namespace} {move.intent.pod}"
    label = f"kubectl label pod --overwrite {pod} {TEMPLATE_HASH}={move.template_hash}"
    return f"{label} && kubectl annotate pod {pod} {DO_NOT_DISRUPT}-" if move.do_not_disrupt else label


def with_refused_request(move: SurgeMove) -> SurgeMove:
    """The move once the API server has refused its only request."""
    return msgspec.structs.replace(move, stage_at=0.0)


def with_stage(move: SurgeMove, stage: str, now: float, *, why: str = "") -> SurgeMove:
    """The move in another stage. When it leaves RESERVED, the label was removed: no request can arrive any more."""
    return msgspec.structs.replace(move, stage=stage, stage_at=0.0 if move.stage == RESERVED else now, why=why)


def with_replacement(move: SurgeMove, name: str, node: str, misplaced: str) -> SurgeMove:
    """The move once its replacement is bound. Nothing is requested, as in the stage before."""
    return msgspec.structs.replace(
        move, stage=PLACED, replacement=name, replacement_node=node, misplaced=misplaced, why=""
    )
