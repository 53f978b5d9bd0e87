"""The ledger: every eviction that was reserved or carried out lately, and whether any may be.

It is one JSON document that all binders share. Who writes it proves by compare-and-swap that it read the newest one.
So a limit that holds on the document holds in the cluster, for any number of binders and whenever they crash. All times
are the API server's. Its clock is known within bounds only. A decision uses the earliest time that it can be there, and
the end of an eviction is recorded with the latest time that it can be. So no window ends early.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from equipoise.binder.state.campaign import Campaign
from equipoise.binder.state.ledger_entry import CERTAIN, LedgerEntry, PastEviction
from equipoise.binder.state.open_moves import LedgerMoves
from equipoise.contracts.bounds import Count, Time
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.values.lease import LeaseEpoch

FORMAT_VERSION = 1
"""Version of the document. It is raised when an older binder must not use it, not for a new field: those are kept."""

HOUR = 3_600.0
DAY = 24 * HOUR

MIN_CLOCK_TOLERANCE, MAX_CLOCK_TOLERANCE = 0.05, 4.0
"""Seconds by which the clocks of several API servers may differ: of two synchronized ones, and of one that is two
seconds ahead and one that is two seconds behind. Binders may use different ones, and one binder both in turn."""

MAX_PAST = 200
"""Evictions and dry runs of the last day whose reasons are kept, the latest ones: the document is limited."""

MAX_REFUSALS = 100
"""Entries that do not count and are kept for redeliveries. Another one gets its outcome from the bus."""

_replace = msgspec.structs.replace


def clock_tolerance(window: float) -> float:
    """Seconds by which a window is longer, so that it does not end early on another server's clock.

    At most 2 % of it: a short window is a rate, which many evictions must keep.
    """
    return min(max(window / 50, MIN_CLOCK_TOLERANCE), MAX_CLOCK_TOLERANCE)


class ReplacementStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of an evicted pod, as its workload's status shows it."""

    state: Literal["ready", "pending", "failing", "unknown"]
    """ready: all replicas of the workload are. failing: it cannot be created. unknown: not readable."""

    why: str = ""


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that count for a real eviction or for a dry run, at one time."""

    now: float
    entries: tuple[LedgerEntry, ...]
    migration_timeout: float
    """Seconds after which a missing replica is no longer waited for."""

    halved: bool = False
    """Grace period after a start or an outage: every limit is half of itself, rounded up."""

    campaign: bool = False
    """Whether the budget of a campaign replaces the windows of the cluster and of namespaces."""

    mean_rate: float = 0.0
    """Evictions per second (for a dry run, also dry runs), the mean of the last 24 hours."""

    def within(self, window: float) -> list[LedgerEntry]:
        """Entries whose eviction may have happened in the last `window` seconds."""
        return [entry for entry in self.entries if self.now - entry.latest < window + clock_tolerance(window)]

    def migrating(self) -> list[LedgerEntry]:
        """Entries whose workload may miss a replica."""
        return [entry for entry in self.within(self.migration_timeout) if entry.recovered_at is None]

    def failing(self) -> list[LedgerEntry]:
        """Entries whose replacement cannot be created. They never expire: only an observation ends them."""
        return [entry for entry in self.entries if entry.failing_since is not None and entry.recovered_at is None]

    def pending_replacements(self) -> list[LedgerEntry]:
        """Evictions whose replacements are not known to be ready; dry runs have none."""
        pending = {entry.intent_id: entry for entry in (*self.migrating(), *self.failing())}
        return [entry for entry in pending.values() if not entry.dry_run]

    def with_all_recovered(self) -> "LedgerView":
        """The view if every replica were ready again."""
        entries = tuple(_replace(entry, recovered_at=self.now) for entry in self.entries)
        return _replace(self, entries=entries)


class HourlyCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was carried out in one hour."""

    begin: Time
    """A full hour, Unix seconds."""

    evictions: Count = 0
    dry_runs: Count = 0
    unknown_fields: dict[str, Any] = {}
    """Fields that this version does not know, as in an entry."""


class Ledger(LedgerMoves, frozen=True, kw_only=True, rename="camel"):
    """The whole document. Every change returns a new one."""

    format_version: int = FORMAT_VERSION
    unknown_fields: dict[str, Any] = {}  # noqa: RUF012  a Struct copies it
    """Fields that this version does not know, as in an entry."""

    created_at: Time
    started_at: Time
    """The time at which evictions were last allowed: at creation, or by `equipoise resume`."""

    outage_ended_at: Time | None = None
    """End of the last outage; any binder that saw it records it. The grace period counts from the later of both."""

    outage: str = ""
    """What was unavailable, and for how long."""

    paused: bool = False
    pause_reason: str = ""
    campaign: Campaign | None = None
    """The last campaign, also after its end; None if there was none."""

    epoch: LeaseEpoch | None = None
    """The newest descheduler that anything was reserved for."""

    retention: Time = 0.0
    """Seconds for which some binder needs the entries: the longest, because binders differ while a change of their
    limits is rolled out."""

    retention_needed_at: Time = 0.0
    """The time at which a binder last needed the retention, which is forgotten when all entries that it keeps are
    older, after a day at least."""

    complete_since: Time = 0.0
    """The time since which no entry that counted was dropped: `problem` misses none of an earlier hour. A clock that
    was ahead drops entries early, and a longer retention needs entries that were dropped."""

    hours: tuple[HourlyCount, ...] = ()
    """Each hour of the last day, oldest first; hours without evictions are left out."""

    past: tuple[PastEviction, ...] = ()
    """The latest evictions and dry runs of the last day, oldest first."""

    entries: tuple[LedgerEntry, ...] = ()

    def entry(self, intent_id: str) -> LedgerEntry | None:
        return next((entry for entry in self.entries if entry.intent_id == intent_id), None)

    def view(self, now: float, *, dry_run: bool, migration_timeout: float, grace_period: float = 0.0) -> LedgerView:
        """The entries that count: for a real eviction the real ones only, for a dry run all.

        So a dry run takes nothing from the limits of evictions, and is limited as a real eviction would be. The pod of
        a move that is under way may be evicted at any time, so its windows have not begun.
        """
        moved = {move.intent.id for move in self.surge_moves}
        counted = (entry for entry in self.entries if entry.counted and (dry_run or not entry.dry_run))
        return LedgerView(
            now=now,
            entries=tuple(
                _replace(entry, expires_at=max(now, entry.latest)) if entry.intent_id in moved else entry
                for entry in counted
            ),
            migration_timeout=migration_timeout,
            halved=now < self.grace_ends_at(grace_period),
            mean_rate=self.mean_rate(now, dry_run=dry_run),
        )

    def grace_ends_at(self, grace_period: float) -> float:
        return max(self.started_at, self.outage_ended_at or 0.0) + grace_period

    def mean_rate(self, now: float, *, dry_run: bool) -> float:
        """Evictions per second: the mean of the last 24 hours, even if the ledger is younger. `dry_run`: whether dry
        runs count, too."""
        last_day = self.last_day(now)
        return (last_day.evictions + (last_day.dry_runs if dry_run else 0)) / DAY

    def last_day(self, now: float) -> HourlyCount:
        """What was carried out in the hours that began in the last 24 hours."""
        counted = [hour for hour in self.hours if hour.begin > now - DAY]
        return HourlyCount(
            begin=max(0.0, now - DAY),
            evictions=sum(hour.evictions for hour in counted),
            dry_runs=sum(hour.dry_runs for hour in counted),
        )

    def reserve(self, entry: LedgerEntry, *, epoch: LeaseEpoch) -> "Ledger":
        """The entry counts from now on, also against the budget of its campaign. Raises ValueError when the intent has
        an entry, or when the campaign has ended or has no move left."""
        if self.entry(entry.intent_id) is not None:
            raise ValueError(f"intent {entry.intent_id} is in the ledger already")
        campaign = self.campaign
        if entry.campaign:
            if campaign is None or campaign.name != entry.campaign:
                raise ValueError(f"campaign {entry.campaign} is not in the ledger")
            campaign = campaign.taking_one()
        return _replace(self, entries=(*self.entries, entry), epoch=epoch, campaign=campaign)

    def settle(
        self, intent_id: str, outcome: Outcome, now: float, *, detail: str = "", counted: bool = True
    ) -> "Ledger":
        """Records the outcome of a reserved entry. An entry that has an outcome keeps it.

        `counted=False` returns the reservation: only when its POST was never sent or definitely refused.
        """
        entry = self.entry(intent_id)
        if entry is None or entry.settled_at is not None:
            return self
        counts = counted or entry.taken_over
        settled = self._update(intent_id, outcome=outcome, detail=detail, settled_at=now, counted=counts)
        if not counts:
            return settled._returning_budget(entry)
        if outcome not in CERTAIN:
            return settled
        return settled._counting(now, dry_run=outcome == Outcome.DRY_RUN)._remembering(entry, now)

    def _remembering(self, entry: LedgerEntry, now: float) -> "Ledger":
        """The ledger with the reason of one more entry; reasons that are older than a day are dropped."""
        one = converted(entry, PastEviction, settled_at=now, unknown_fields={})
        kept = [each for each in self.past if each.settled_at > now - DAY and each.intent_id != entry.intent_id]
        return _replace(self, past=(*kept, one)[-MAX_PAST:])

    def _counting(self, now: float, *, dry_run: bool) -> "Ledger":
        """One more in its hour; hours older than a day are dropped."""
        begin = now - now % HOUR
        hours = {hour.begin: hour for hour in self.hours if hour.begin > now - DAY - HOUR}
        hour = hours.get(begin, HourlyCount(begin=begin))
        hours[begin] = _replace(hour, evictions=hour.evictions + (not dry_run), dry_runs=hour.dry_runs + bool(dry_run))
        return _replace(self, hours=tuple(hours[key] for key in sorted(hours)))

    def take_over(self, intent_id: str) -> "Ledger":
        """A second binder continues with a reservation that is not settled."""
        return self._update(intent_id, taken_over=True)

    def release(self, intent_id: str) -> "Ledger":
        """The ledger without a reservation whose POST was surely refused for now: the intent will be decided again."""
        entry = self.entry(intent_id)
        if entry is None or entry.settled_at is not None or entry.taken_over:
            return self
        return self._keeping(lambda kept: kept.intent_id != intent_id)._returning_budget(entry)

    def _returning_budget(self, entry: LedgerEntry) -> "Ledger":
        """The ledger after this entry, which no longer counts, has returned its move to the budget of its campaign."""
        campaign = self.campaign
        if campaign is None or not entry.campaign or entry.campaign != campaign.name:
            return self
        return _replace(self, campaign=campaign.returning_one())

    def with_replacements(self, statuses: Mapping[str, ReplacementStatus], now: float) -> "Ledger":
        """The ledger with what was read of the replacements of these intents."""

        def update(entry: LedgerEntry) -> LedgerEntry:
            status = statuses.get(entry.intent_id)
            if status is None or status.state == "unknown" or entry.recovered_at is not None:
                return entry
            if status.state == "ready":
                return _replace(entry, recovered_at=now, failing_since=None, failure="")
            since = (entry.failing_since or now) if status.state == "failing" else None
            return _replace(entry, failing_since=since, failure=status.why if since else "")

        return self._with_each(update)

    def after_outage(self, outage: str, now: float) -> "Ledger":
        """Something that evictions depend on was unavailable until now."""
        return _replace(self, outage_ended_at=now, outage=outage)

    def retaining(self, retention: float, now: float) -> "Ledger":
        """Kept at least as long as this binder needs, in seconds, and as long as other binders have needed lately."""
        if retention < self.retention and now - self.retention_needed_at <= max(self.retention, DAY):
            return self
        return _replace(self, retention=retention, retention_needed_at=now)

    def pruned(self, now: float) -> "Ledger":
        """The ledger without the entries that no limit reads (older than `retention`) and no redelivery needs.

        Of those that do not count, only the latest are kept: they must never fill the document.
        """
        refusals = [entry.intent_id for entry in self.entries if not entry.counted]
        excess = frozenset(refusals[:-MAX_REFUSALS])
        kept = self._keeping(
            lambda entry: (
                (now <= entry.expires_at and entry.intent_id not in excess)
                or (entry.counted and now - entry.latest <= self.retention + clock_tolerance(self.retention))
                or (entry.counted and entry.failing_since is not None and entry.recovered_at is None)
                or self.surge_move(entry.intent_id) is not None
            )
        )
        if len(kept.entries) == len(self.entries):
            return self
        return _replace(kept, complete_since=max(self.complete_since, now - self.retention))

    def problem(self, now: float) -> str:
        """Evictions that it has counted and whose entries it must still have, but has not; "" when there are none.

        Only a person can have removed them, and accepts that by `equipoise resume`.
        """
        since = max(self.started_at, self.complete_since, now - self.retention)
        settled = Counter(
            (entry.settled_at - entry.settled_at % HOUR, "" if "outcome" in entry.unknown_fields else entry.outcome)
            for entry in self.entries
            if entry.counted and entry.settled_at is not None
        )
        for hour in self.hours:
            for outcome, count in ((Outcome.EVICTED, hour.evictions), (Outcome.DRY_RUN, hour.dry_runs)):
                found = settled[hour.begin, outcome] + settled[hour.begin, ""]  # an unknown outcome may be an eviction
                if hour.begin >= since and found < count:
                    return f"it has {found} of the {count} entries with outcome {outcome} that it counts for one hour"
        return ""

    def without_refusals(self) -> "Ledger":
        """The ledger without entries that only a redelivery needs, and without reasons, which no decision needs."""
        return _replace(self._keeping(lambda entry: entry.counted), past=())

    def pause(self, reason: str) -> "Ledger":
        return _replace(self, paused=True, pause_reason=reason)

    def resume(self, now: float) -> "Ledger":
        """A person has accepted the known failures of replacements: only new ones stop evictions again.

        The grace period of an earlier outage is part of the one that begins now.
        """
        resumed = _replace(self, paused=False, pause_reason="", started_at=now, outage_ended_at=None, outage="")
        return resumed._with_each(lambda entry: _replace(entry, failing_since=None, failure=""))

    def _update(self, intent_id: str, **fields: Any) -> "Ledger":
        return self._with_each(lambda entry: _replace(entry, **fields) if entry.intent_id == intent_id else entry)

    def _with_each(self, update: Callable[[LedgerEntry], LedgerEntry]) -> "Ledger":
        return _replace(self, entries=tuple(update(entry) for entry in self.entries))

    def _keeping(self, kept: Callable[[LedgerEntry], bool]) -> "Ledger":
        return _replace(self, entries=tuple(entry for entry in self.entries if kept(entry)))


class LedgerClosed(msgspec.Struct, frozen=True, kw_only=True):
    """There is no ledger that can be used, so nothing may be evicted."""

    why: str
    """Why no ledger can be used, and what to do."""

    newer: bool = False
    """A later version has written it, and can use it."""

    missing: bool = False
    unreadable: bool = False
    """Whether its reader may not read it. Binders may have the permission, and evict."""
