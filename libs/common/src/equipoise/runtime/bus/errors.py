"""Errors of the bus: counted in metrics, logged, and kept as problems for /readyz."""

import math
from collections import Counter as Tally
from functools import partial

import prometheus_client
import structlog

from equipoise.contracts.bus.streams import stream_of
from equipoise.contracts.bus.subjects import object_of
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason
from equipoise.runtime.process.unreadable import ENTRY_LIMIT, UnreadableThings

log = structlog.get_logger()

_PROBLEM_LIFE = 300.0
"""Seconds for which a problem is reported after it last occurred, if its end cannot be observed."""

KINDS = ("connection", "permission", "stream", "follow", "work", "slow", "size", "content")
"""The kinds of problems. The key of a problem begins with its kind."""

MESSAGES = "messages"
"""The name of the source under which unreadable messages are listed, by subject."""

_DAY = 86_400.0

_LOG_PAUSE = 60.0
"""Seconds between two log lines about the same error, because some errors occur for every message."""


class BusErrors:
    """Counts errors by kind (`equipoise_bus_errors_total`), logs them, and reports problems in /readyz."""

    def __init__(self, clock: Clock, metrics: prometheus_client.CollectorRegistry | None = None) -> None:
        self._clock = clock
        self._seen: Tally[str] = Tally()
        self._problems: dict[str, tuple[str, float]] = {}
        self._logged: dict[tuple[str, str], float] = {}
        self._kept_until: dict[str, float] = {}
        """The time at which an unreadable message has left the bus, by subject."""

        self.unreadable = UnreadableThings()
        """Messages that were received and cannot be read or handled, by subject."""

        self._counter = prometheus_client.Counter(
            "equipoise_bus_errors",
            "Errors of the bus, by kind.",
            ["kind"],
            registry=metrics,
        )
        self._outdated = prometheus_client.Counter(
            "equipoise_bus_outdated_messages",
            "Messages that were older than the latest one, or measured in the far future, by kind.",
            ["kind"],
            registry=metrics,
        )
        # For an alert: `increase()` does not see the first increment of a new series.
        self._counter.labels("redirected")
        problems = prometheus_client.Gauge(
            "equipoise_bus_problems", "Problems of the bus that /readyz reports, by kind.", ["kind"], registry=metrics
        )
        self.certificate_end = prometheus_client.Gauge(
            "equipoise_bus_certificate_expiry_timestamp_seconds",
            "When the certificate of NATS expires, as of the last connection; 0 without TLS.",
            registry=metrics,
        )
        for kind in KINDS:
            problems.labels(kind).set_function(partial(self._problems_of, kind))

    def count(self, kind: str, about: str, error: BaseException | str = "") -> None:
        """Counts an error. `about` is the subject or stream. Errors of a kind about it are logged at most once a
        minute."""
        self._seen[kind] += 1
        self._counter.labels(kind).inc()
        now = self._clock.monotonic()
        if now - self._logged.get((kind, about), -_LOG_PAUSE) < _LOG_PAUSE:
            return
        if len(self._logged) > 1_000:
            self._logged.clear()
        self._logged[(kind, about)] = now
        trace = error if isinstance(error, Exception) and kind in ("handler", "worker", "endpoint") else None
        text = str(error) or (failure_reason(error) if isinstance(error, BaseException) else "")
        log.warning("bus error", kind=kind, about=about, error=text, exc_info=trace)

    def count_outdated(self, kind: str) -> None:
        """Counts a message that is not used. It is not logged, because messages may be repeated and late."""
        self._seen["outdated"] += 1
        self._outdated.labels(kind).inc()

    def add_unreadable(self, kind: str, subject: str, error: Exception) -> None:
        """Counts and lists a message that cannot be read or handled. `kind`: the kind of the error."""
        self.count(kind, subject, error)
        about, reason = object_of(subject), str(error) or type(error).__name__
        self.unreadable.add(MESSAGES, subject, f"{about}: {reason}" if about else reason)
        stream = stream_of(subject)
        kept = (stream.max_age or _DAY) if stream is not None and stream.last_per_subject else _PROBLEM_LIFE
        self._kept_until[subject] = self._clock.monotonic() + kept
        if len(self._kept_until) > 2 * ENTRY_LIMIT:
            self._remove_expired()
            self._kept_until = dict(list(self._kept_until.items())[-ENTRY_LIMIT:])

    def remove_unreadable(self, subject: str) -> None:
        """Removes the entry of a subject, because a later message of it was handled."""
        if self._kept_until and self._kept_until.pop(subject, None) is not None:
            self.unreadable.remove(MESSAGES, subject)

    def _remove_expired(self) -> None:
        """Removes the entries of messages that have left the bus and were not published again."""
        now = self._clock.monotonic()
        for subject in [subject for subject, until in self._kept_until.items() if until < now]:
            self.remove_unreadable(subject)

    def total(self, kind: str) -> int:
        """The number of errors of this kind."""
        return self._seen[kind]

    def set_problem(self, key: str, text: str | None, *, lasting: bool = False) -> None:
        """Reports a problem until it is cleared (None), or has not occurred for five minutes.

        A key is one of `KINDS`, followed by the object if there may be several. `lasting`: the problem is reported
        only once by the server, so it is kept until it is cleared.
        """
        if text is None:
            self._problems.pop(key, None)
        else:
            self._problems[key] = (text, math.inf if lasting else self._clock.monotonic())

    def clear(self, kind: str) -> None:
        """Clears all problems of a kind."""
        for key in [key for key in self._problems if key.split(" ")[0] == kind]:
            del self._problems[key]

    @property
    def problems(self) -> list[str]:
        self._remove_expired()
        return [text for text, seen_at in self._problems.values() if self._is_alive(seen_at)]

    def _problems_of(self, kind: str) -> float:
        """The number of problems of this kind. It is called in another thread while problems are added and removed."""
        return float(
            sum(
                self._is_alive(seen_at)
                for key, (_, seen_at) in list(self._problems.items())
                if key.split(" ")[0] == kind
            )
        )

    def _is_alive(self, seen_at: float) -> bool:
        return self._clock.monotonic() - seen_at <= _PROBLEM_LIFE
