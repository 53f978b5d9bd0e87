"""One intent in the ledger: what is known of it, and what was seen of its replacement. Times: the API server's."""

from typing import Literal

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import Outcome

IN_TRANSIT = 1.0
"""Seconds that a POST sent in the last moment of an intent's life may need until the API server has received it."""

CERTAIN = (Outcome.EVICTED, Outcome.DRY_RUN)
"""Outcomes that stand on what was seen: the API server had the POST when they were written."""


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """How the workload of an evicted pod is doing."""

    state: Literal["back", "coming", "failing", "unknown"]
    """back: all replicas ready. coming: not yet. failing: it cannot even be created. unknown: not readable."""

    why: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One intent: reserved, carried out, or answered without either."""

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
    """Nothing is posted for the intent after this, by any binder."""

    settled_at: float | None = None
    outcome: Outcome | None = None
    detail: str = ""
    limit: str = ""
    room_at: float | None = None
    counted: bool = True
    """Against the limits. False: refused before or by the API server, remembered only to answer the same again."""

    taken_over: bool = False
    """Another binder than the one that reserved it may post it too, so no refusal gives its place back."""

    recovered_at: float | None = None
    """When its pod was seen gone and its workload with all replicas ready."""

    failing_since: float | None = None
    """Since when its replacement is known not even to be created."""

    failing: str = ""
    """What keeps it from being created."""

    stops: tuple[Workload, ...] = ()
    """Not empty: no intent of ours, but a pod that kube-scheduler preempted on the target of a move of these workloads,
    which counts as if we had evicted it."""

    @property
    def latest(self) -> float:
        """The latest time at which the API server can have received its POST; windows are counted from here.

        Whatever else was written for it while it was reserved: a binder that sleeps may wake up and still post.
        """
        if self.settled_at is not None and self.outcome in CERTAIN:
            return self.settled_at
        return max(self.settled_at or self.reserved_at, self.expires_at + IN_TRANSIT)
