"""`eviction.>`: which pods the descheduler wants moved, and what the binder did about it."""

from enum import StrEnum

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.resources import Resources


class EvictionIntent(Message, frozen=True, kw_only=True):
    """`eviction.intent.<namespace>.<pod>`: a pod that should leave its node, and why."""

    id: str
    """Also the Nats-Msg-Id."""

    pod_uid: str
    namespace: str
    pod: str
    node: str
    workload: Workload | None = None
    strategy: str
    reason: str
    """As people read it: `node is overutilized, cpu usage(68.53%)>threshold(50.00%)`."""

    sampled_at: float
    """Oldest sample the decision stands on."""

    decided_at: float
    expires_at: float
    expected_reduction: Resources
    """What the node is expected to lose."""

    target: str
    """Where the replacement is expected to go. A hint, never a reservation."""

    epoch: LeaseEpoch


class Outcome(StrEnum):
    """What became of an intent."""

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


class EvictionOutcome(Message, frozen=True, kw_only=True):
    """`eviction.outcome.<namespace>.<pod>`: exactly one per intent."""

    intent_id: str
    outcome: Outcome
    detail: str = ""
    """Why, as people read it."""

    pod_uid: str
    namespace: str
    pod: str
    node: str
    workload: Workload | None = None
    target: str
    reason: str
    expected_reduction: Resources
    decided_at: float
    settled_at: float
    limit: str = ""
    """The limit that refused, as the configuration calls it."""

    limit_scope: str = ""
    """What that limit refuses together with the pod: "pod", "workload", "namespace" or "cluster"."""

    retry_at: float | None = None
    """When that limit may agree again; None when time alone does not help."""
