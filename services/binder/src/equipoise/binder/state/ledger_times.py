"""Corrects the times of a ledger after a clock was wrong: times in the future become the present, so that no window
ends early.
"""

from collections.abc import Iterator, Sequence

import msgspec

from equipoise.binder.state.campaign import MAX_DURATION, Campaign
from equipoise.binder.state.ledger import DAY, HOUR, MAX_CLOCK_TOLERANCE, HourlyCount, Ledger
from equipoise.binder.state.ledger_entry import LedgerEntry, PastEviction
from equipoise.binder.state.surge_move import SurgeMove

_replace = msgspec.structs.replace

MAX_LIFETIME = DAY
"""Seconds for which an intent is valid at most. An entry that expires later was written with a wrong clock."""


def with_possible_times(ledger: Ledger, now: float) -> Ledger:
    """The ledger itself if none of its times is in the future. Otherwise these times are set to `now`, and an outage is
    recorded.


    A time that is further ahead than the clocks of API servers may differ was written while a clock was wrong. The
    true time is unknown, and `now` is the safe choice: the eviction counts, and the grace period lasts, for their whole
    length from now on. Times in the past are not changed.
    """
    ahead = max(_times(ledger), default=now) - now
    if ahead <= MAX_CLOCK_TOLERANCE:
        return ledger
    why = f"times of the ledger were {ahead:.0f} s ahead of the API server's clock"
    return _not_after(ledger, now).after_outage(why, now)


def counting_again(ledger: Ledger, now: float) -> Ledger:
    """The ledger in which all evictions count for the whole length of each window again, because their age is unknown.

    The clock was set forward, perhaps by a day, and would make them appear old. The hourly counts of their time do not
    include them any more.
    """
    entries = tuple(_counting_again(entry, now) if entry.counted else entry for entry in ledger.entries)
    return _replace(ledger, entries=entries, complete_since=now)


def _counting_again(entry: LedgerEntry, now: float) -> LedgerEntry:
    expires_at = entry.expires_at + max(0.0, now - entry.reserved_at)
    if entry.settled_at is None:
        return _replace(entry, reserved_at=max(now, entry.reserved_at), expires_at=expires_at)
    return _replace(entry, settled_at=max(now, entry.settled_at), expires_at=expires_at)


def _times(ledger: Ledger) -> Iterator[float]:
    """All times that were the present when they were written; the end of an intent is compared with `MAX_LIFETIME`."""
    yield from (ledger.created_at, ledger.started_at, ledger.retention_needed_at, ledger.complete_since)
    yield from (hour.begin for hour in ledger.hours)
    yield from (time for past in ledger.past for time in (past.reserved_at, past.settled_at))
    for entry in ledger.entries:
        yield from (entry.reserved_at, entry.expires_at - MAX_LIFETIME)
        yield from (time for time in (entry.settled_at, entry.recovered_at, entry.failing_since) if time is not None)
    for move in ledger.surge_moves:
        yield from (move.stage_at, move.ready_by - MAX_LIFETIME)
    if ledger.outage_ended_at is not None:
        yield ledger.outage_ended_at
    if (campaign := ledger.campaign) is not None:
        yield from (campaign.started_at, campaign.expires_at - MAX_DURATION, campaign.ended_at or 0.0)


def _not_after(ledger: Ledger, now: float) -> Ledger:
    return _replace(
        ledger,
        created_at=min(ledger.created_at, now),
        started_at=min(ledger.started_at, now),
        outage_ended_at=_earlier(ledger.outage_ended_at, now),
        retention_needed_at=min(ledger.retention_needed_at, now),
        complete_since=min(ledger.complete_since, now),
        hours=_hours_not_after(ledger.hours, now),
        past=tuple(_past_not_after(past, now) for past in ledger.past),
        entries=tuple(_entry_not_after(entry, now) for entry in ledger.entries),
        surge_moves=tuple(_move_not_after(move, now) for move in ledger.surge_moves),
        campaign=None if ledger.campaign is None else _campaign_not_after(ledger.campaign, now),
    )


def _entry_not_after(entry: LedgerEntry, now: float) -> LedgerEntry:
    expires_at = entry.expires_at - max(0.0, entry.reserved_at - now)
    return _replace(
        entry,
        reserved_at=min(entry.reserved_at, now),
        expires_at=min(expires_at, now + MAX_LIFETIME),
        settled_at=_earlier(entry.settled_at, now),
        recovered_at=_earlier(entry.recovered_at, now),
        failing_since=_earlier(entry.failing_since, now),
    )


def _move_not_after(move: SurgeMove, now: float) -> SurgeMove:
    ready_by = move.ready_by - max(0.0, move.stage_at - now)
    return _replace(move, stage_at=min(move.stage_at, now), ready_by=min(ready_by, now + MAX_LIFETIME))


def _campaign_not_after(campaign: Campaign, now: float) -> Campaign:
    """The campaign has the time left that it had: a longer one would be more than a person has allowed."""
    expires_at = campaign.expires_at - max(0.0, campaign.started_at - now)
    return _replace(
        campaign,
        started_at=min(campaign.started_at, now),
        expires_at=min(expires_at, now + MAX_DURATION),
        observed_at=min(campaign.observed_at, now),
        ended_at=_earlier(campaign.ended_at, now),
    )


def _past_not_after(past: PastEviction, now: float) -> PastEviction:
    return _replace(past, reserved_at=min(past.reserved_at, now), settled_at=min(past.settled_at, now))


def _hours_not_after(hours: Sequence[HourlyCount], now: float) -> tuple[HourlyCount, ...]:
    """The counts of future hours are added to the present hour, to which the entries are moved as well."""
    by_begin: dict[float, HourlyCount] = {}
    for hour in hours:
        begin = hour.begin if hour.begin <= now else now - now % HOUR
        other = by_begin.get(begin, HourlyCount(begin=begin))
        evictions, dry_runs = other.evictions + hour.evictions, other.dry_runs + hour.dry_runs
        unknown = other.unknown_fields | hour.unknown_fields
        by_begin[begin] = HourlyCount(begin=begin, evictions=evictions, dry_runs=dry_runs, unknown_fields=unknown)
    return tuple(by_begin[begin] for begin in sorted(by_begin))


def _earlier(time: float | None, now: float) -> float | None:
    return None if time is None else min(time, now)
