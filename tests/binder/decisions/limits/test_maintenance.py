"""Times of the week at which pods may be evicted."""

from datetime import UTC, datetime

import msgspec
import pytest
from binder.ledgers import an_eviction
from builders import NOW

from equipoise.binder.decisions.limits import (
    Limits,
    Maintenance,
)
from equipoise.binder.decisions.limits.maintenance import WeeklyTimes
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry


def a_view(*entries: LedgerEntry, now: float = NOW, halved: bool = False) -> LedgerView:
    return LedgerView(now=now, entries=entries, migration_timeout=600.0, halved=halved)


TUESDAY = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC).timestamp()


NIGHTS = WeeklyTimes(begin="22:00", end="06:00", time_zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("maintenance", "hours", "allowed"),
    [
        (Maintenance(), 0, True),
        (Maintenance(only=(NIGHTS,)), 0, True),  # 23:13 in Berlin
        (Maintenance(only=(NIGHTS,)), 6.7, True),  # 05:55
        (Maintenance(only=(NIGHTS,)), 6.8, False),  # 06:01
        (Maintenance(never=(NIGHTS,)), 0, False),
        (Maintenance(only=(NIGHTS,), never=(NIGHTS,)), 0, False),
        (Maintenance(only=(WeeklyTimes(days=("Mon",), begin="22:00", end="23:30"),)), 0, False),
        (Maintenance(only=(WeeklyTimes(days=("Tue",), begin="22:00", end="23:30"),)), 0, True),
        (Maintenance(only=(WeeklyTimes(days=("Tue",), begin="20:00", end="06:00"),)), 5, True),  # Wednesday 03:13
        (Maintenance(only=(WeeklyTimes(days=("Wed",), begin="20:00", end="06:00"),)), 5, False),
        (Maintenance(only=(WeeklyTimes(days=("Tue",)),)), 0, True),  # a whole day
        (Maintenance(only=(WeeklyTimes(days=("Tue",)),)), 1.8, False),
    ],
)
def test_maintenance_allows_only_inside_and_never_inside(maintenance: Maintenance, hours: float, allowed: bool) -> None:
    """In the local time of its zone; a night belongs to the day on which it begins."""
    view = a_view(now=TUESDAY + hours * 3_600)
    assert (maintenance.refusal(an_eviction(), view) == "") == allowed


def test_maintenance_follows_daylight_saving_time() -> None:
    """22:00 in Berlin is 21:00 UTC in winter and 20:00 UTC in summer."""
    summer = datetime(2024, 7, 1, 20, 30, tzinfo=UTC).timestamp()
    assert NIGHTS.contain(summer)
    assert not NIGHTS.contain(summer - 3_600)
    changing = WeeklyTimes(days=("Sat",), begin="22:00", end="06:00", time_zone="Europe/Berlin")
    first, last = (datetime(2024, 3, 30, 21, tzinfo=UTC), datetime(2024, 3, 31, 4, tzinfo=UTC))
    assert (first.timestamp(), last.timestamp()) in list(changing.occurrences(first.timestamp()))


def test_a_refusal_by_maintenance_has_the_time_at_which_it_ends() -> None:
    """None when that is not within a week."""
    limits = Limits(maintenance=Maintenance(only=(WeeklyTimes(days=("Sun",), begin="03:00", end="05:00"),)))
    refusal = limits.refusal(an_eviction(), a_view(now=TUESDAY))
    assert refusal is not None
    assert (refusal.limit, refusal.retry_at) == ("maintenance", datetime(2023, 11, 19, 3, tzinfo=UTC).timestamp())
    never = Maintenance(never=(WeeklyTimes(),))
    assert never.refusal(an_eviction(), a_view())
    assert never.opens_at(TUESDAY) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"only": [{"timeZone": "Europe/Atlantis"}]}',
        '{"only": [{"timeZone": "../etc/passwd"}]}',
        '{"only": [{"days": ["Monday"]}]}',
        '{"only": [{"days": []}]}',
        '{"only": [{"from": "24:00"}]}',
        '{"only": [{"begin": "22:00"}]}',
    ],
)
def test_invalid_maintenance_times_are_errors(text: str) -> None:
    """When the configuration is read, not at night."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Maintenance)


def test_maintenance_times_are_written_with_from_and_to() -> None:
    text = '{"never": [{"days": ["Fri"], "from": "16:00", "to": "20:00", "timeZone": "America/New_York"}]}'
    (times,) = msgspec.json.decode(text, type=Maintenance).never
    assert str(times) == "Fri 16:00-20:00 America/New_York"
