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
            view = msgspec.structs.replace(view, entries=(*view.entries, _evicted(move, str(number), now)))
    return refusals


def _checked(limits: Limits, cluster_pods: int | None) -> Iterator[tuple[str, Limit]]:
    for name, limit in limits.table.items():
        counts_pods = isinstance(limit, EvictionsPerCluster) and not limit.enough_pods(0)
        if not (limit.delays or isinstance(limit, MigratingPerWorkload) or (counts_pods and cluster_pods is None)):
            yield name, limit


def _refusal(move: PlannedMove, limits: dict[str, Limit], view: LedgerView, cluster_pods: int) -> str:
    eviction = ProposedEviction(
        namespace=move.namespace,
        node=move.node,
        workload=move.workload,
        replicas=0,
        unready=0,
        cluster_pods=cluster_pods,
    )
    for name, limit in limits.items():
        if why := limit.refusal(eviction, view):
            retry_at = limit.retry_at(eviction, view)
            until = "" if retry_at is None else f", again at {clock_time(retry_at)}"
            return f"limits.{name}: {why}{until}"
    return ""


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
