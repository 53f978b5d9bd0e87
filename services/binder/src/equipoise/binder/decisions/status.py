"""What a person wants to know of the ledger: may anything move, what is under way, how much of each limit is used."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from equipoise.binder.decisions.limits import EvictionsPerCluster, Limits, Maintenance
from equipoise.binder.state.ledger import DAY, Closed, Entry, Ledger, View
from equipoise.binder.state.ledger_json import clock_time
from equipoise.contracts.configuration.duration import Duration

LAST = 20
"""Outcomes shown, the latest ones."""


class Use(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much of one limit is used, of one object it is about."""

    limit: str
    of: str
    """A workload, a namespace, a node, or "the cluster"."""

    counted: int
    most: str
    """As the configuration has it, before any halving."""

    window: str = ""


class Overview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Times: Unix seconds at the API server."""

    evictions: Literal["allowed", "paused", "closed"]
    why: str = ""
    """Why not; for how long not, while a time of maintenance forbids it."""

    halved_until: float | None = None
    """Until then every limit is half of itself."""

    halved_by: str = ""
    last_day: int = 0
    """Evictions in the last 24 hours."""

    dry_runs_last_day: int = 0
    uses: list[Use] = []
    """Of the dry runs, while there are no evictions in the windows."""

    under_way: list[Entry] = []
    """Reserved, or evicted and without their replacement."""

    last: list[Entry] = []
    """The latest outcomes, newest first."""


def overview(held: Ledger | Closed, limits: Limits, now: float) -> Overview:
    """What the ledger says at API server time `now`, read with these limits."""
    if isinstance(held, Closed):
        return Overview(evictions="closed", why=held.why)
    real, dry = (
        held.view(now, dry_run=dry_run, migration_timeout=limits.migration_timeout) for dry_run in (False, True)
    )
    ends_at = held.grace_ends_at(limits.start_up_grace)
    disturbed = held.disturbed_at is not None and held.disturbed_at > held.started_at
    settled = [entry for entry in held.entries if entry.outcome is not None]
    shown = real if real.within(limits.memory) or not dry.within(limits.memory) else dry
    return Overview(
        evictions="paused" if held.paused else "allowed",
        why=held.paused_why if held.paused else _closed_now(limits.maintenance, now),
        halved_until=ends_at if now < ends_at else None,
        halved_by=held.disturbance if disturbed else "setup or `equipoise resume`",
        last_day=round(held.usual(now, dry_run=False) * DAY),
        dry_runs_last_day=round(held.usual(now, dry_run=True) * DAY),
        uses=list(_uses(limits, shown)),
        under_way=[*(entry for entry in held.entries if entry.outcome is None), *_moving(real)],
        last=sorted(settled, key=lambda entry: entry.settled_at or 0.0, reverse=True)[:LAST],
    )


def _moving(view: View) -> list[Entry]:
    return [entry for entry in view.awaited() if entry.outcome is not None]


def _closed_now(maintenance: Maintenance, now: float) -> str:
    why = maintenance.closed(now)
    opens_at = maintenance.opens_at(now) if why else None
    return f"{why}, until {clock_time(opens_at)}" if opens_at is not None else why


def _uses(limits: Limits, view: View) -> Iterator[Use]:
    """Of every limit that counts something, for every object that something was counted of."""
    workload, namespace, cluster = (
        limits.evictions_per_workload,
        limits.evictions_per_namespace,
        limits.evictions_per_cluster,
    )
    rate, moving, failing = limits.unusual_rate, view.in_migration(), view.failing()
    late = [entry for entry in view.awaited() if view.now - entry.latest > limits.late_replacements.after]
    yield from _by("evictionsPerWorkload", _workload, view, workload.most, workload.window)
    yield from _by("evictionsPerNamespace", _namespace, view, namespace.most, namespace.window)
    yield _of_cluster("evictionsPerCluster", view.within(cluster.window), _most_of(cluster), cluster.window)
    yield _of_cluster("unusualRate", view.within(rate.window), f"{rate.most} times the usual", rate.window)
    yield from _by("inMigrationPerNode", _node, moving, limits.in_migration_per_node.most)
    yield from _by("inMigrationPerWorkload", _workload, moving, limits.in_migration_per_workload.most or "default")
    yield _of_cluster("lateReplacements", late, limits.late_replacements.most)
    yield _of_cluster("failingReplacements", failing, limits.failing_replacements.most)
    stopped = [workload for entry in view.within(limits.preemptions.window) for workload in entry.stops]
    for name, counted in sorted(Counter(map(str, stopped)).items()):
        most, window = str(limits.preemptions.most), str(limits.preemptions.window)
        yield Use(limit="preemptions", of=name, counted=counted, most=most, window=window)


def _by(
    limit: str, of: Callable[[Entry], str], entries: View | list[Entry], most: object, window: Duration | None = None
) -> Iterator[Use]:
    """One use for each object; of a View those in its window count."""
    if isinstance(entries, View):
        entries = entries.within(window or 0.0)
    for name, counted in sorted(Counter(of(entry) for entry in entries).items()):
        yield Use(limit=limit, of=name, counted=counted, most=str(most), window=str(window or ""))


def _of_cluster(limit: str, entries: list[Entry], most: object, window: Duration | None = None) -> Use:
    return Use(limit=limit, of="the cluster", counted=len(entries), most=str(most), window=str(window or ""))


def _most_of(cluster: EvictionsPerCluster) -> str:
    return f"{cluster.most} of the pods, at most {cluster.at_most}"


def _workload(entry: Entry) -> str:
    return str(entry.workload)


def _namespace(entry: Entry) -> str:
    return f"namespace {entry.namespace}"


def _node(entry: Entry) -> str:
    return f"node {entry.node}"


def state_of(entry: Entry) -> str:
    """What is with an intent, in few words."""
    if entry.outcome is None:
        return "taken over" if entry.taken_over else "reserved"
    if entry.failing_since is not None and entry.recovered_at is None:
        return f"no replacement can be created: {entry.failing}"
    if entry.stops:
        return "preempted"
    return entry.outcome.value
