"""Limits the times of the week at which pods may be evicted."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from equipoise.binder.decisions.limits.rule import Limit, ProposedEviction
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_json import clock_time
from equipoise.contracts.configuration.settings import Section

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

ClockTime = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="a time such as 08:30")]
"""Hours and minutes of local time: "22:30"."""


class WeeklyTimes(Section, frozen=True, kw_only=True):
    """A period that repeats on some days of the week, such as Mon and Tue 22:00 to 06:00, in one time zone."""

    days: tuple[Day, ...] = DAYS
    """The days on which the period begins, of Mon to Sun."""

    begin: ClockTime = msgspec.field(name="from", default="00:00")

    end: ClockTime = msgspec.field(name="to", default="00:00")
    """The end. If it is not later than `from`, it is on the next day."""

    time_zone: str = "UTC"
    """An IANA name such as Europe/Berlin."""

    def __post_init__(self) -> None:
        if not self.days:
            raise ValueError("at least one day is needed (days: Mon to Sun)")
        try:
            self.zone  # noqa: B018  resolved once, so that a wrong name is an error at start
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"unknown time zone {self.time_zone!r} (examples: UTC, Europe/Berlin)") from None

    @property
    def zone(self) -> tzinfo:
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)

    def occurrences(self, now: float) -> Iterable[tuple[float, float]]:
        """Begin and end (Unix seconds) of each occurrence from yesterday to a week from now, oldest first."""
        today = datetime.fromtimestamp(now, self.zone).date()
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            if DAYS[day.weekday()] in self.days:
                last = day if self.end > self.begin else day + timedelta(days=1)
                yield self._at(day, self.begin), self._at(last, self.end)

    def _at(self, day: date, clock: str) -> float:
        return datetime.combine(day, time.fromisoformat(clock), self.zone).timestamp()

    def contain(self, now: float) -> bool:
        """Whether `now` is in an occurrence. An occurrence does not include its end."""
        return any(begin <= now < end for begin, end in self.occurrences(now))

    def __str__(self) -> str:
        return f"{','.join(self.days)} {self.begin}-{self.end} {self.time_zone}"


class Maintenance(Limit, frozen=True, kw_only=True):
    """Times at which pods may be evicted, and times at which they may not."""

    scope = "cluster"

    only: tuple[WeeklyTimes, ...] = ()
    """Pods are evicted only in these times. Empty: at any time."""

    never: tuple[WeeklyTimes, ...] = ()
    """Pods are not evicted in these times, whatever `only` allows."""

    def refusal(self, eviction: ProposedEviction, view: LedgerView) -> str:
        return self.refusal_at(view.now)

    def retry_at(self, eviction: ProposedEviction, view: LedgerView) -> float | None:
        return self.opens_at(view.now)

    def refusal_at(self, now: float) -> str:
        """ "" when pods may be evicted at that time, else the reason."""
        forbidden = next((times for times in self.never if times.contain(now)), None)
        if forbidden is not None:
            return f"no evictions at this time ({forbidden})"
        if self.only and not any(times.contain(now) for times in self.only):
            return f"evictions only at other times ({'; '.join(str(times) for times in self.only)})"
        return ""

    def refusal_until(self, now: float) -> str:
        """The refusal of `refusal_at`, with its end if that is known."""
        why = self.refusal_at(now)
        opens_at = self.opens_at(now) if why else None
        return f"{why}, until {clock_time(opens_at)}" if opens_at is not None else why

    def opens_at(self, now: float) -> float | None:
        """The time from which pods may be evicted again; None if that is not within the next week."""
        edges = {edge for times in (*self.only, *self.never) for span in times.occurrences(now) for edge in span}
        return next((edge for edge in sorted(edges) if edge > now and not self.refusal_at(edge)), None)
