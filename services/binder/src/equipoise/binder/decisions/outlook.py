"""Which planned moves the limits allow now. The binders decide about each again, with the state of its workload."""

from collections.abc import Iterator, Sequence

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.limits.migrating_per_workload import MigratingPerWorkload
from equipoise.binder.decisions.limits.rule import Limit, ProposedEviction
from equipoise.binder.state.ledger import Ledger, LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.binder.state.ledger_json import clock_time
from equipoise.binder.state.ledger_times import with_possible_times
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.plan import PlannedMove

_replace = msgspec.structs.replace


def refusals_now(
    moves: Sequence[PlannedMove],
    ledger: Ledger,
    limits: Limits,
    now: float,
    *,
    dry_run: bool,
    cluster_pods: int | None = None,
) -> list[str]:
    """Why the limits do not allow a move now, and when they will, for each of `moves`; "" if they allow it.

    Each allowed move counts for the following ones. Limits that depend on the replicas of a workload are not checked.
    `dry_run`: whether binders only dry-run evictions. `cluster_pods`: the number of pods in the cluster; None: not
    counted.
    """
    view = with_possible_times(ledger, now).view(
        now, dry_run=dry_run, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
    )
    checked = dict(_checked(limits, cluster_pods))
    refusals = []
    for number, move in enumerate(moves):
        why = "" if move.later else _refusal(move, checked, view, cluster_pods or 0)
        refusals.append(why)
        if not why and not move.later:
            view = _replace(view, entries=(*view.entries, _evicted(move, str(number), now)))
    return refusals


def wave_ends(
    waves: Sequence[Sequence[PlannedMove]],
    ledger: Ledger,
    limits: Limits,
    now: float,
    *,
    interval: float,
    cluster_pods: int | None = None,
) -> list[float]:
    """The times at which the moves of each wave of a campaign are done, as far as the limits ever allow its moves.

    `interval`: seconds between two evaluations, of which each has one wave. Replacements become ready as fast as the
    pods did. A pod whose time is unknown, and limits that depend on the replicas of a workload, cause no wait here.
    """
    view = with_possible_times(ledger, now).view(
        now, dry_run=False, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
    )
    view = _replace(view, campaign=True)
    checked, ends = dict(_checked(limits, cluster_pods)), list[float]()
    at = now
    for number, moves in enumerate(waves):
        at = ready = max(at, now + number * interval)
        for move in moves:
            at += limits.rate.wait(_replace(view, now=at))
            allowed_at = _allowed_at(move, checked, _replace(view, now=at), cluster_pods or 0)
            if allowed_at is None:
                return ends
            at = allowed_at
            evicted = _replace(_evicted(move, str(len(view.entries)), at), recovered_at=at)
            view = _replace(view, entries=(*view.entries, evicted))
            ready = max(ready, at + ((move.cost.start if move.cost is not None else None) or 0.0))
        ends.append(ready)
    return ends


def _allowed_at(move: PlannedMove, limits: dict[str, Limit], view: LedgerView, cluster_pods: int) -> float | None:
    """The time from which all limits allow the move; None if time alone does not help."""
    eviction = _proposed(move, cluster_pods)
    while refusing := _refusing(eviction, limits, view):
        retry_at = refusing[1].retry_at(eviction, view)
        if retry_at is None:
            return None
        view = _replace(view, now=retry_at)
    return view.now


def _checked(limits: Limits, cluster_pods: int | None) -> Iterator[tuple[str, Limit]]:
    for name, limit in limits.table.items():
        counts_pods = isinstance(limit, EvictionsPerCluster) and not limit.enough_pods(0)
        if not (limit.delays or isinstance(limit, MigratingPerWorkload) or (counts_pods and cluster_pods is None)):
            yield name, limit


def _refusal(move: PlannedMove, limits: dict[str, Limit], view: LedgerView, cluster_pods: int) -> str:
    eviction = _proposed(move, cluster_pods)
    if (refusing := _refusing(eviction, limits, view)) is None:
        return ""
    name, limit = refusing
    retry_at = limit.retry_at(eviction, view)
    until = "" if retry_at is None else f", again at {clock_time(retry_at)}"
    return f"limits.{name}: {limit.refusal(eviction, view)}{until}"


def _proposed(move: PlannedMove, cluster_pods: int) -> ProposedEviction:
    return ProposedEviction(
        namespace=move.namespace,
        node=move.node,
        workload=move.workload,
        replicas=0,
        unready=0,
        cluster_pods=cluster_pods,
    )


def _refusing(eviction: ProposedEviction, limits: dict[str, Limit], view: LedgerView) -> tuple[str, Limit] | None:
    """The first limit that refuses; None if all allow the eviction."""
    named = (
        (name, limit) for name, limit in limits.items() if limit.holds(eviction, view) and limit.refusal(eviction, view)
    )
    return next(named, None)


def _evicted(move: PlannedMove, intent_id: str, now: float) -> LedgerEntry:
    return LedgerEntry(
        intent_id=f"planned {intent_id}",
        pod_uid="",
        namespace=move.namespace,
        pod=move.pod,
        node=move.node,
        workload=move.workload,
        reserved_at=now,
        expires_at=now,
        settled_at=now,
        outcome=Outcome.EVICTED,
    )
