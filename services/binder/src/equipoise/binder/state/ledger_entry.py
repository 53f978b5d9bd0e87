"""One intent in the ledger: what was decided, and what is known of its replacement. Times: the API server's."""

from typing import Literal

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import Outcome

TRANSIT_TIME = 1.0
"""Seconds that a POST sent at the end of an intent's lifetime may need to reach the API server."""

CERTAIN = (Outcome.EVICTED, Outcome.DRY_RUN)
"""Outcomes that follow from an observation: the API server had the POST when they were written."""


class ReplacementStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of an evicted pod, as its workload's status shows it."""

    state: Literal["ready", "pending", "failing", "unknown"]
    """ready: all replicas of the workload are. failing: it cannot be created. unknown: not readable."""

    why: str = ""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One intent: reserved, settled, or refused without a reservation."""

    intent_id: str
    pod_uid: str
    namespace: str
    pod: str
    node: str
    workload: Workload | None = None
    target: str = ""
    dry_run: bool = False
    reserved_at: float
    """When it was decided."""

    expires_at: float
    """No binder sends a POST for the intent after this time."""

    settled_at: float | None = None
    outcome: Outcome | None = None
    detail: str = ""
    limit: str = ""
    limit_scope: str = ""
    retry_at: float | None = None
    counted: bool = True
    """Against the limits. False: refused, and kept so that a redelivery gets the same outcome."""

    taken_over: bool = False
    """A second binder may send a POST for it too, so no refusal returns the reservation."""

    recovered_at: float | None = None
    """When a read found the pod gone and all replicas of its workload ready."""

    failing_since: float | None = None
    """Since when its replacement is known to fail at creation."""

    failure: str = ""
    """Why it cannot be created."""

    preempted_for: tuple[Workload, ...] = ()
    """Not empty: no intent, but a pod that kube-scheduler preempted on the target of an eviction of these workloads. It
    counts as evicted."""

    @property
    def latest(self) -> float:
        """The latest time at which the API server can have received its POST; windows count from here.

        Another outcome than CERTAIN does not move it: a binder that was suspended may resume and send the POST.
        """
        if self.settled_at is not None and self.outcome in CERTAIN:
            return self.settled_at
        return max(self.settled_at or self.reserved_at, self.expires_at + TRANSIT_TIME)
