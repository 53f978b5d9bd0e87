"""Why an intent must not be acted upon, whatever its pod: too old, another leader's, too little of the fleet known."""

from collections.abc import Iterable

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects import Lease
from equipoise.contracts.load.correction import is_fresh
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.utilization import UtilizationCycle

_FORGOTTEN_AFTER = 15.0
"""Lives of a sample after which a silent shard counts as dissolved: by default as long as the bus keeps its word."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an intent, and why as people read it."""

    outcome: Outcome
    detail: str = ""
    limit: str = ""
    """Name of the limit that refused."""

    room_at: float | None = None
    """When that limit may have room again, as far as time alone decides."""

    def on(self, intent: EvictionIntent, settled_at: float) -> EvictionOutcome:
        """The intent's outcome."""
        return EvictionOutcome(
            intent_id=intent.id,
            outcome=self.outcome,
            detail=self.detail,
            pod_uid=intent.pod_uid,
            namespace=intent.namespace,
            pod=intent.pod,
            node=intent.node,
            workload=intent.workload,
            target=intent.target,
            reason=intent.reason,
            expected_reduction=intent.expected_reduction,
            decided_at=intent.decided_at,
            settled_at=settled_at,
            limit=self.limit,
            retry_at=self.room_at,
        )


def _stale(detail: str) -> Verdict:
    return Verdict(outcome=Outcome.REJECTED_STALE, detail=detail)


def doubt_of_time(intent: EvictionIntent, load: LoadSettings, now: float) -> Verdict | None:
    """Expired, or standing on samples that are too old or from the future."""
    if now >= intent.expires_at:
        return Verdict(outcome=Outcome.EXPIRED, detail=f"{now - intent.expires_at:.1f} s past its life")
    if not is_fresh(intent.sampled_at, now, load.freshness.eviction):
        age = now - intent.sampled_at
        return _stale(f"its oldest sample is {age:.1f} s old, {load.freshness.eviction} allowed (load.freshness)")
    return None


def doubt_of_coverage(cycles: Iterable[UtilizationCycle], load: LoadSettings, now: float) -> Verdict | None:
    """Too little of the fleet is measured to say that anything is high or low.

    A shard that fell silent still expects its nodes, and has none. Every shard must be covered, and so must the whole.
    """
    life = load.freshness.eviction
    current = [cycle for cycle in cycles if now - cycle.queried_at <= life * _FORGOTTEN_AFTER]
    if not current:
        return _stale("no collector has ended a round yet")
    expected = fresh = 0
    for cycle in current:
        speaking = is_fresh(cycle.queried_at, now, life, skew=cycle.skew, skew_limit=load.freshness.skew_unknown)
        known = cycle.fresh if speaking and not cycle.problem else 0
        if known < load.coverage.eviction * cycle.expected:
            why = cycle.problem or ("" if speaking else "it is silent, or Prometheus' clock is off")
            return _stale(
                f"shard {cycle.shard}: the load of {known} of {cycle.expected} nodes is known, "
                f"{load.coverage.eviction:.0%} needed{': ' if why else ''}{why}"
            )
        expected, fresh = expected + cycle.expected, fresh + known
    return None if expected > 0 else _stale("no node is expected to have a load yet")


def doubt_of_readiness(ready: int, nodes: int, load: LoadSettings) -> Verdict | None:
    """Too many nodes are away: whatever is seen of the others, this is no time to move anything."""
    if ready >= load.coverage.eviction * nodes:
        return None
    return _stale(f"{ready} of {nodes} nodes are Ready, {load.coverage.eviction:.0%} needed (load.coverage.eviction)")


def doubt_of_epoch(intent: EvictionIntent, lease: Lease | None, seen: LeaseEpoch | None) -> Verdict | None:
    """Said by a descheduler that does not hold the Lease, or by one that was followed by another already.

    `seen`: the newest epoch in the ledger. The Lease may have been read a moment ago, the ledger is written by
    compare-and-swap: so nothing moves for an older leader once something has moved for a newer one.
    """
    if lease is None:
        return _stale("the descheduler's Lease does not exist, so nobody may propose")
    live = LeaseEpoch(
        lease_uid=lease.metadata.uid,
        transitions=lease.spec.lease_transitions,
        holder=lease.spec.holder_identity,
    )
    said = intent.epoch
    if said != live:
        return _stale(
            f"{said.holder} (transition {said.transitions}) does not hold the Lease: "
            f"{live.holder or 'nobody'} (transition {live.transitions}) does"
        )
    if seen is not None and seen.lease_uid == said.lease_uid and seen.transitions > said.transitions:
        return _stale(f"a newer descheduler has acted already: {seen.holder} (transition {seen.transitions})")
    return None
