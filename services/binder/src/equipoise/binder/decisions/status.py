"""What `equipoise status` shows of the ledger: whether evictions are allowed, what is pending, how full limits are."""

import math
from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.limits.rule import CountingLimit, Limit, ProposedEviction, WindowedLimit, halved
from equipoise.binder.state.campaign import EXHAUSTED, Campaign
from equipoise.binder.state.ledger import Ledger, LedgerClosed, LedgerView, clock_tolerance
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.binder.state.ledger_json import clock_time
from equipoise.binder.state.ledger_times import with_possible_times

LAST = 20
"""Outcomes shown, the latest ones."""


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much of one limit is used, for one object."""

    limit: str
    scope: str
    """A workload, a namespace, a node, or "the cluster"."""

    counted: int
    max: str
    """The configured limit, not halved."""

    allowed: int | None = None
    """What that comes to now, halved if limits are; None: unlimited, or it depends on the workload, or is not known."""

    free_at: float | None = None
    """The time at which a full limit of a window allows one more eviction, if no other is counted until then."""

    window: str = ""


class LedgerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Times: Unix seconds at the API server."""

    evictions: Literal["allowed", "dry run", "paused", "closed", "unknown"]
    """Whether pods are evicted. Never "dry run" by the ledger alone: only binders and their configuration have that."""

    why: str = ""
    """Why not. With "allowed": the maintenance times that forbid evictions now, and until when."""

    halved_until: float | None = None
    """The time until which every limit is half of itself."""

    halved_by: str = ""
    last_day: int | None = None
    """Evictions in the last 24 hours; None without a ledger that can be read."""

    dry_runs_last_day: int | None = None
    campaign: Campaign | None = None
    """The last campaign, also after its end; None if there was none."""

    usage: list[LimitUsage] = []
    """The usage of each limit by evictions; by dry runs while the windows contain no evictions."""

    usage_of_dry_runs: bool = False
    """Whether `usage` is that of dry runs, which take nothing from the limits of evictions."""

    pending: list[LedgerEntry] = []
    """Reserved, or evicted and not replaced yet."""

    last: list[LedgerEntry] = []
    """The latest outcomes of entries that are not pending, newest first."""


def ledger_status(
    ledger: Ledger | LedgerClosed, limits: Limits | None, now: float, *, cluster_pods: int | None = None
) -> LedgerStatus:
    """The status at API server time `now`, with these limits. `cluster_pods`: None if they were not counted.

    `limits`: those that binders use; None if these are not known: then nothing is stated that depends on them.
    """
    if isinstance(ledger, LedgerClosed):
        return LedgerStatus(evictions="unknown" if ledger.unreadable or ledger.newer else "closed", why=ledger.why)
    ledger = with_possible_times(ledger, now)
    status = LedgerStatus(
        evictions="paused" if ledger.paused else "allowed",
        why=ledger.pause_reason if ledger.paused else "",
        last_day=ledger.last_day(now).evictions,
        dry_runs_last_day=ledger.last_day(now).dry_runs,
        campaign=ledger.campaign,
        pending=[entry for entry in ledger.entries if entry.outcome is None and entry.recovered_at is None],
        last=_latest_outcomes(ledger, ()),
    )
    return status if limits is None else _with_limits(status, ledger, limits, now, cluster_pods)


def _latest_outcomes(ledger: Ledger, pending: Collection[LedgerEntry]) -> list[LedgerEntry]:
    pending_ids = {entry.intent_id for entry in pending}
    settled = [entry for entry in ledger.entries if entry.outcome is not None and entry.intent_id not in pending_ids]
    return sorted(settled, key=lambda entry: entry.settled_at or 0.0, reverse=True)[:LAST]


def _with_limits(
    status: LedgerStatus, ledger: Ledger, limits: Limits, now: float, cluster_pods: int | None
) -> LedgerStatus:
    timeout, grace = limits.migration_timeout, limits.startup_grace_period
    real, dry = (
        ledger.view(now, dry_run=dry_run, migration_timeout=timeout, grace_period=grace) for dry_run in (False, True)
    )
    grace_ends_at = ledger.grace_ends_at(grace)
    after_outage = ledger.outage_ended_at is not None and ledger.outage_ended_at >= ledger.started_at
    shown = real if real.within(limits.retention) or not dry.within(limits.retention) else dry
    migrating = [entry for entry in real.pending_replacements() if entry.outcome is not None]
    return msgspec.structs.replace(
        status,
        why=status.why if ledger.paused else limits.maintenance.refusal_until(now),
        halved_until=grace_ends_at if now < grace_ends_at else None,
        halved_by=ledger.outage if after_outage else "setup or `equipoise resume`",
        usage=list(_usage(limits, shown, cluster_pods)),
        usage_of_dry_runs=shown is dry,
        pending=[*status.pending, *migrating],
        last=_latest_outcomes(ledger, migrating),
    )


def _usage(limits: Limits, view: LedgerView, cluster_pods: int | None) -> Iterator[LimitUsage]:
    for name, limit in limits.table.items():
        window = str(getattr(limit, "window", ""))
        for scope, counted in sorted(limit.usage(view).items()):
            allowed = _allowed(limit, view, scope, cluster_pods)
            yield LimitUsage(
                limit=name,
                scope=scope,
                counted=counted,
                max=limit.maximum_text,
                allowed=allowed,
                free_at=_free_at(limit, view, scope, counted, allowed),
                window=window,
            )


def _allowed(limit: Limit, view: LedgerView, scope: str, cluster_pods: int | None) -> int | None:
    """The maximum that the limit itself computes for an eviction in this scope; None: unlimited, or not known."""
    if not isinstance(limit, CountingLimit):
        return None
    replicas = _replicas(limit, view, scope)
    if replicas is None and limit.per == "workload" and type(limit).maximum is not CountingLimit.maximum:
        return None  # it depends on the replicas
    if isinstance(limit, EvictionsPerCluster) and cluster_pods is None and not limit.enough_pods(0):
        return None
    any_pod = ProposedEviction(
        namespace="", node="", workload=None, replicas=replicas or 0, unready=0, cluster_pods=cluster_pods or 0
    )
    maximum = limit.maximum(any_pod, view)
    return None if maximum == math.inf else math.floor(halved(maximum) if view.halved else maximum)


def _replicas(limit: CountingLimit, view: LedgerView, scope: str) -> int | None:
    """The replicas of the workload at its last eviction that the limit counts; None: no entry has them."""
    if limit.per != "workload":
        return None
    entries = [entry for entry in limit.entries(view) if entry.replicas is not None and str(limit.key(entry)) == scope]
    return max(entries, key=lambda entry: entry.latest).replicas if entries else None


def _free_at(limit: Limit, view: LedgerView, scope: str, counted: int, allowed: int | None) -> float | None:
    if not isinstance(limit, WindowedLimit) or not allowed or counted < allowed:
        return None
    after = limit.window + clock_tolerance(limit.window)
    ends = sorted(entry.latest + after for entry in limit.entries(view) if str(limit.key(entry)) == scope)
    index = len(ends) - allowed
    return ends[index] if 0 <= index < len(ends) else None


def campaign_text(campaign: Campaign) -> str:
    """The campaign and its state as a short text."""
    by = f", started by {campaign.started_by}" if campaign.started_by else ""
    done = f"campaign {campaign.name}{by}: {campaign.used} of {campaign.budget} moves"
    if campaign.spread is not None:
        expected = campaign.expected_spread()
        planned = "" if expected is None else f" (planned {100 * expected:.1f})"
        done = f"{done}, spread of {campaign.resource} {100 * campaign.spread:.1f} points{planned}"
    if campaign.ended_at is not None:
        return f"{done}, ended at {clock_time(campaign.ended_at)}: {campaign.ended}"
    held = (
        f", nothing beyond the usual limits because {campaign.detail}"
        if campaign.finding not in ("", EXHAUSTED)
        else ""
    )
    if not campaign.observed_at:
        held = ", nothing beyond the usual limits because no evaluation was compared with its plan yet"
    state = "paused, expires" if campaign.paused else "running until"
    return f"{done}, {state} {clock_time(campaign.expires_at)}{held}"


def allowed_text(usage: LimitUsage) -> str:
    """The number as text, or the rule if the number depends on the workload: `6`, `10%`."""
    return usage.max if usage.allowed is None else str(usage.allowed)


def rule_text(usage: LimitUsage, *, in_half: bool) -> str:
    """How the number is derived, if it is not the setting itself: `half of 5`."""
    if usage.allowed is None or str(usage.allowed) == usage.max:
        return ""
    return f"half of {usage.max}" if in_half else usage.max


def state_text(entry: LedgerEntry) -> str:
    """The state of an intent, as a short text."""
    if entry.outcome is None:
        return "taken over" if entry.taken_over else "reserved"
    if entry.failing_since is not None and entry.recovered_at is None:
        return f"no replacement can be created: {entry.failure}"
    if entry.preempted_for:
        return "preempted"
    return entry.outcome.value
