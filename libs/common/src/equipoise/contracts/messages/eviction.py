"""`eviction.>`: the evictions that the descheduler proposes, and what the binder did with each."""

from enum import StrEnum

from equipoise.contracts.bounds import Time
from equipoise.contracts.messages.example import (
    HOT_NODE,
    IDLE_NODE,
    INTENT_ID,
    LEASE_EPOCH,
    NOW,
    POD,
    POD_UID,
    REASON,
    USAGE,
    WORKLOAD,
)
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.move import EvictionMove


class EvictionIntent(EvictionMove, Message, frozen=True, kw_only=True, omit_defaults=False):
    """`eviction.intent.<namespace>.<pod>`: a pod to evict, and why."""

    id: str
    """The identifier of the intent, and the Nats-Msg-Id."""

    strategy: str
    sampled_at: Time
    """The time of the oldest sample on which the decision is based."""

    decided_at: Time
    expires_at: Time
    epoch: LeaseEpoch


class Outcome(StrEnum):
    """The result of an intent."""

    EVICTED = "evicted"
    ALREADY_GONE = "already_gone"
    UID_CHANGED = "uid_changed"
    BLOCKED_PDB = "blocked_pdb"
    REJECTED_POLICY = "rejected_policy"
    REJECTED_LIMIT = "rejected_limit"
    REJECTED_FIT = "rejected_fit"
    REJECTED_STALE = "rejected_stale"
    PAUSED = "paused"
    EXPIRED = "expired"
    FAILED = "failed"
    DRY_RUN = "dry_run"

    @classmethod
    def _missing_(cls, value: object) -> "Outcome":
        """The value for an outcome that only a later version knows. The intent is settled, but the reason is
        unknown."""
        return cls.FAILED


class EvictionOutcome(EvictionMove, Message, frozen=True, kw_only=True, omit_defaults=False):
    """`eviction.outcome.<namespace>.<pod>`: the outcome of an intent. Each intent has exactly one."""

    intent_id: str
    outcome: Outcome
    detail: str = ""
    """The reason of the outcome, in words."""

    decided_at: Time
    settled_at: Time
    limit: str = ""
    """The name of the limit that refused the eviction, as in the configuration."""

    limit_scope: str = ""
    """The scope to which the limit applies: "pod", "workload", "namespace" or "cluster"."""

    retry_at: Time | None = None
    """The time at which the limit may allow the eviction; None if waiting does not help."""

    campaign: str = ""
    """The name of the campaign whose budget the move used; empty without one."""

    dry_run: bool = False
    """Whether the binder only makes dry runs, so that no eviction was executed or refused."""


EVICTION_INTENT = EvictionIntent(
    id=INTENT_ID,
    pod_uid=POD_UID,
    namespace="shop",
    pod=POD,
    node=HOT_NODE,
    workload=WORKLOAD,
    strategy="low_node_load",
    reason=REASON,
    sampled_at=NOW - 6,
    decided_at=NOW,
    expires_at=NOW + 180,
    expected_reduction=USAGE,
    target=IDLE_NODE,
    epoch=LEASE_EPOCH,
)

EVICTION_OUTCOME = EvictionOutcome(
    intent_id=INTENT_ID,
    outcome=Outcome.EVICTED,
    pod_uid=POD_UID,
    namespace="shop",
    pod=POD,
    node=HOT_NODE,
    workload=WORKLOAD,
    target=IDLE_NODE,
    reason=REASON,
    expected_reduction=USAGE,
    decided_at=NOW,
    settled_at=NOW + 0.4,
)
