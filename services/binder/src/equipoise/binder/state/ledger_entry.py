"""What the ledger has of one intent."""

from typing import Any

import msgspec

from equipoise.contracts.bounds import Count, Time
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.message import converted

TRANSIT_TIME = 1.0
"""Seconds that a POST sent at the end of an intent's lifetime may need to reach the API server."""

CERTAIN = (Outcome.EVICTED, Outcome.DRY_RUN)
"""Outcomes that follow from an observation: the API server had the POST when they were written."""

MAX_REASON = 300
"""Characters of a reason: the document is limited."""


class LedgerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the ledger keeps of an intent for as long as it keeps anything of it."""

    intent_id: str
    namespace: str
    pod: str
    node: str
    workload: Workload | None = None
    target: str = ""
    strategy: str = ""
    reason: str = ""
    """Why, in words, shortened. Empty: an earlier version reserved it."""

    dry_run: bool = False
    campaign: str = ""
    """The name of the campaign whose budget it uses; empty without one."""

    reserved_at: Time
    """The time of the decision."""

    unknown_fields: dict[str, Any] = {}
    """Fields of a later version, as they are in the document: this version keeps them. Fields that are added to a
    workload or an epoch would be lost."""


class LedgerEntry(LedgerRecord, frozen=True, kw_only=True, rename="camel"):
    """One intent: reserved, or settled. An outcome of a later version is in `unknown_fields` and reads as `failed`."""

    pod_uid: str
    expires_at: Time
    """No binder sends a POST for the intent after this time."""

    settled_at: Time | None = None
    outcome: Outcome | None = None
    detail: str = ""
    limit: str = ""
    limit_scope: str = ""
    retry_at: Time | None = None
    counted: bool = True
    """Whether it counts against the limits. False: refused after its reservation, and kept so that a redelivery gets
    the same outcome."""

    taken_over: bool = False
    """A second binder may send a POST for it too, so no refusal returns the reservation."""

    replicas: Count | None = None
    """Desired replicas of the workload when it was decided."""

    recovered_at: Time | None = None
    """The time of the read which found that the pod has left and its workload has its ready replicas again."""

    failing_since: Time | None = None
    """The time since which its replacement is known to fail at creation."""

    failure: str = ""
    """Why it cannot be created."""

    preempted_for: tuple[Workload, ...] = ()
    """The workloads whose evictions had the node of this pod as target, if the entry is a pod that kube-scheduler
    preempted there; it counts as evicted. Empty: the entry is an intent."""

    @property
    def latest(self) -> float:
        """The latest time at which the API server can have received its POST; windows count from here.

        An outcome that is not CERTAIN does not make it earlier than the end of the intent's life: a binder that was
        suspended may resume and send the POST until then.
        """
        if self.settled_at is not None and self.outcome in CERTAIN:
            return self.settled_at
        return max(self.settled_at or self.reserved_at, self.expires_at + TRANSIT_TIME)


class PastEviction(LedgerRecord, frozen=True, kw_only=True, rename="camel"):
    """What was carried out, with the reasons, for users: no limit reads it. It is kept longer than entries."""

    settled_at: Time


def new_entry(
    intent: EvictionIntent,
    now: float,
    *,
    workload: Workload | None,
    expires_at: float,
    dry_run: bool,
    replicas: int | None = None,
    campaign: str = "",
) -> LedgerEntry:
    """An entry without an outcome. `workload` and its desired `replicas` are those that were read live. `campaign`:
    the name of the campaign whose budget it uses."""
    return converted(
        intent,
        LedgerEntry,
        intent_id=intent.id,
        workload=workload,
        reason=intent.reason[:MAX_REASON],
        strategy=intent.strategy[:MAX_REASON],
        dry_run=dry_run,
        campaign=campaign,
        replicas=replicas,
        reserved_at=now,
        expires_at=expires_at,
    )
