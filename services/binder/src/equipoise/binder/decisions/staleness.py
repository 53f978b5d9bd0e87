"""Reasons to refuse an intent that do not depend on its pod: the intent is too old, too few nodes are Ready, or its
descheduler no longer leads.
"""

from equipoise.binder.decisions.result import Finish
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.load.correction import FUTURE_TOLERANCE, is_fresh
from equipoise.contracts.load.node_coverage import readiness_problem
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch


def _stale(detail: str) -> Finish:
    return Finish(outcome=Outcome.REJECTED_STALE, detail=detail)


def check_age(intent: EvictionIntent, load: LoadSettings, max_lifetime: float, now: float) -> Finish | None:
    """Refuses an expired intent, one that lives for too long, and one whose samples are too old or from the future.

    The lifetime counts from now as well, because the intent itself states when it was decided.
    """
    if now >= intent.expires_at:
        return Finish(outcome=Outcome.EXPIRED, detail=f"expired {now - intent.expires_at:.1f} s ago")
    lifetime = max(intent.expires_at - intent.decided_at, intent.expires_at - now - FUTURE_TOLERANCE)
    if lifetime > max_lifetime:
        return _stale(f"its lifetime is {lifetime:.0f} s, {max_lifetime:.0f} s allowed (binder.maxIntentLifetime)")
    if not is_fresh(intent.sampled_at, now, load.freshness.eviction):
        age = now - intent.sampled_at
        return _stale(f"its oldest sample is {age:.1f} s old, {load.freshness.eviction} allowed (load.freshness)")
    return None


def check_readiness(ready: int, nodes: int, load: LoadSettings) -> Finish | None:
    """Refuses while too many nodes are not Ready, whatever is measured of the others."""
    why = readiness_problem(ready, nodes, load)
    return _stale(why) if why else None


def check_epoch(intent: EvictionIntent, lease: Lease | None, newest: LeaseEpoch | None) -> Finish | None:
    """Refuses an intent of a descheduler that does not hold the Lease, or that a newer one has replaced.

    `newest`: the newest epoch in the ledger. The read of the Lease may be late; the ledger is written by
    compare-and-swap. So once a pod was evicted for a newer leader, none is evicted for an older one.
    """
    if lease is None:
        return _stale("the descheduler's Lease does not exist, so no descheduler may propose")
    live = LeaseEpoch(
        lease_uid=lease.metadata.uid,
        transitions=lease.spec.lease_transitions,
        holder=lease.spec.holder_identity,
    )
    epoch = intent.epoch
    if epoch != live:
        return _stale(
            f"{epoch.holder} (transition {epoch.transitions}) does not hold the Lease: "
            f"{live.holder or 'no descheduler'} (transition {live.transitions}) does"
        )
    if newest is not None and newest.lease_uid == epoch.lease_uid and newest.transitions > epoch.transitions:
        return _stale(f"a newer descheduler is active: {newest.holder} (transition {newest.transitions})")
    return None
