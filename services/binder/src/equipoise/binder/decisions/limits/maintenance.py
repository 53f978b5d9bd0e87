"""When evictions may happen at all: inside given times of the week, or outside of others."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.settings import Section

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

ClockTime = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
"""Hours and minutes of a local day: "22:30"."""


class Times(Section, frozen=True, kw_only=True):
    """A part of some days, by the clock of one place."""

    days: tuple[Day, ...] = DAYS
    """Mon to Sun: the days on which it begins."""

    begin: ClockTime = msgspec.field(name="from", default="00:00")

    end: ClockTime = msgspec.field(name="to", default="00:00")
    """Not later than `from`: on the next day."""

    time_zone: str = "UTC"
    """As the IANA calls it: Europe/Berlin."""

    def __post_init__(self) -> None:
        if not self.days:
            raise ValueError("at least one day is needed (days: Mon to Sun)")
        try:
            self.zone  # noqa: B018  reads it once, so that a wrong name is told at start
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"unknown time zone {self.time_zone!r} (examples: UTC, Europe/Berlin)") from None

    @property
    def zone(self) -> tzinfo:
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)

    def around(self, now: float) -> Iterable[tuple[float, float]]:
        """Begin and end (Unix seconds) of every occurrence from yesterday to a week from now, oldest first."""
        today = datetime.fromtimestamp(now, self.zone).date()
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            if DAYS[day.weekday()] in self.days:
                last = day if self.end > self.begin else day + timedelta(days=1)
                yield self._at(day, self.begin), self._at(last, self.end)

    def _at(self, day: date, clock: str) -> float:
        return datetime.combine(day, time.fromisoformat(clock), self.zone).timestamp()

    def hold(self, now: float) -> bool:
        """Is it now one of these times? The end does not belong to it."""
        return any(begin <= now < end for begin, end in self.around(now))

    def __str__(self) -> str:
        return f"{','.join(self.days)} {self.begin}-{self.end} {self.time_zone}"


class Maintenance(Section, frozen=True, kw_only=True):
    """Times in which evictions are wanted, and times in which they are not."""

    only: tuple[Times, ...] = ()
    """Evictions happen inside one of these only. None given: at any time."""

    never: tuple[Times, ...] = ()
    """Evictions do not happen inside any of these, whatever `only` says."""

    @property
    def memory(self) -> float:
        return 0.0

    def refusal(self, move: Move, view: View) -> str:
        return self.closed(view.now)

    def opens_at(self, now: float) -> float | None:
        """When evictions may happen again; None when that is not within the next week."""
        edges = {edge for times in (*self.only, *self.never) for span in times.around(now) for edge in span}
        return next((edge for edge in sorted(edges) if edge > now and not self.closed(edge)), None)

    def closed(self, now: float) -> str:
        """ "" when evictions may happen at that moment, else why not."""
        forbidden = next((times for times in self.never if times.hold(now)), None)
        if forbidden is not None:
            return f"no evictions at this time ({forbidden})"
        if self.only and not any(times.hold(now) for times in self.only):
            return f"evictions only at other times ({'; '.join(str(times) for times in self.only)})"
        return ""
