"""What `equipoise status` shows of the ledger: whether evictions are allowed, what is pending, how full limits are."""

import math
from collections.abc import Iterator
from typing import Literal

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.limits.maintenance import Maintenance
from equipoise.binder.decisions.limits.rule import CountingLimit, Limit, ProposedEviction, halved
from equipoise.binder.state.ledger import DAY, Ledger, LedgerClosed, LedgerEntry, LedgerView
from equipoise.binder.state.ledger_json import clock_time

LAST = 20
"""Outcomes shown, the latest ones."""


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much of one limit is used, for one object."""

    limit: str
    scope: str
    """A workload, a namespace, a node, or "the cluster"."""

    counted: int
    max: str
    """As configured, not halved."""

    allowed: int | None = None
    """What that comes to now, halved if limits are; None: unlimited, or it depends on the workload, or is not known."""

    window: str = ""


class LedgerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Times: Unix seconds at the API server."""

    evictions: Literal["allowed", "dry run", "paused", "closed", "unknown"]
    """By the ledger alone they are never "dry run": only binders and their configuration have that."""

    why: str = ""
    """Why not. With "allowed": the maintenance times that forbid evictions now, and until when."""

    halved_until: float | None = None
    """Until then every limit is half of itself."""

    halved_by: str = ""
    last_day: int | None = None
    """Evictions in the last 24 hours; None without a ledger that can be read."""

    dry_runs_last_day: int | None = None
    usage: list[LimitUsage] = []
    """Of dry runs, while there are no evictions in the windows."""

    pending: list[LedgerEntry] = []
    """Reserved, or evicted and not replaced yet."""

    last: list[LedgerEntry] = []
    """The latest outcomes, newest first."""


def ledger_status(
    ledger: Ledger | LedgerClosed, limits: Limits, now: float, *, cluster_pods: int | None = None
) -> LedgerStatus:
    """The status at API server time `now`, with these limits. `cluster_pods`: None if they were not counted."""
    if isinstance(ledger, LedgerClosed):
        return LedgerStatus(evictions="unknown" if ledger.unreadable or ledger.newer else "closed", why=ledger.why)
    timeout, grace = limits.migration_timeout, limits.startup_grace_period
    real, dry = (
        ledger.view(now, dry_run=dry_run, migration_timeout=timeout, grace_period=grace) for dry_run in (False, True)
    )
    grace_ends_at = ledger.grace_ends_at(grace)
    after_outage = ledger.outage_ended_at is not None and ledger.outage_ended_at > ledger.started_at
    settled = [entry for entry in ledger.entries if entry.outcome is not None]
    shown = real if real.within(limits.retention) or not dry.within(limits.retention) else dry
    pending = [entry for entry in ledger.entries if entry.outcome is None]
    pending += [entry for entry in real.pending_replacements() if entry.outcome is not None]
    return LedgerStatus(
        evictions="paused" if ledger.paused else "allowed",
        why=ledger.pause_reason if ledger.paused else _maintenance_refusal(limits.maintenance, now),
        halved_until=grace_ends_at if now < grace_ends_at else None,
        halved_by=ledger.outage if after_outage else "setup or `equipoise resume`",
        last_day=round(ledger.mean_rate(now, dry_run=False) * DAY),
        dry_runs_last_day=round(ledger.mean_rate(now, dry_run=True) * DAY),
        usage=list(_usage(limits, shown, cluster_pods)),
        pending=pending,
        last=sorted(settled, key=lambda entry: entry.settled_at or 0.0, reverse=True)[:LAST],
    )


def _maintenance_refusal(maintenance: Maintenance, now: float) -> str:
    why = maintenance.refusal_at(now)
    opens_at = maintenance.opens_at(now) if why else None
    return f"{why}, until {clock_time(opens_at)}" if opens_at is not None else why


def _usage(limits: Limits, view: LedgerView, cluster_pods: int | None) -> Iterator[LimitUsage]:
    for name, limit in limits.table.items():
        window, allowed = str(getattr(limit, "window", "")), _allowed(limit, view, cluster_pods)
        for scope, counted in sorted(limit.usage(view).items()):
            yield LimitUsage(
                limit=name, scope=scope, counted=counted, max=limit.maximum_text, allowed=allowed, window=window
            )


def _allowed(limit: Limit, view: LedgerView, cluster_pods: int | None) -> int | None:
    """As the limit itself computes it for an eviction, of whatever pod."""
    if not isinstance(limit, CountingLimit) or limit.per == "workload":
        return None
    if isinstance(limit, EvictionsPerCluster) and cluster_pods is None and not limit.enough_pods(0):
        return None
    any_pod = ProposedEviction(
        namespace="", node="", workload=None, replicas=0, unready=0, cluster_pods=cluster_pods or 0
    )
    maximum = limit.maximum(any_pod, view)
    return None if maximum == math.inf else math.floor(halved(maximum) if view.halved else maximum)


def maximum_text(usage: LimitUsage, *, in_half: bool) -> str:
    """For people: `5`, `3 (half of 5)`, `6 (1% of the pods, at most 20)`."""
    if usage.allowed is None or str(usage.allowed) == usage.max:
        return usage.max
    return f"{usage.allowed} ({'half of ' if in_half else ''}{usage.max})"


def state_text(entry: LedgerEntry) -> str:
    """The state of an intent, as a short text."""
    if entry.outcome is None:
        return "taken over" if entry.taken_over else "reserved"
    if entry.failing_since is not None and entry.recovered_at is None:
        return f"no replacement can be created: {entry.failure}"
    if entry.preempted_for:
        return "preempted"
    return entry.outcome.value
