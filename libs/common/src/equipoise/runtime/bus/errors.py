"""What goes wrong on a bus: counted for machines, told once for people."""

import math
from collections import Counter as Tally
from functools import partial

import prometheus_client
import structlog

from equipoise.runtime.process.clock import Clock

log = structlog.get_logger()

_PROBLEM_LIFE = 300.0
"""Seconds that a problem without a known end stays in sight after it was last seen."""

KINDS = ("connection", "permission", "stream", "follow", "work", "slow", "size")
"""First words of the keys of problems."""

_LOG_PAUSE = 60.0
"""Seconds between two log lines about the same trouble: some come once per message."""


class BusErrors:
    """Counts errors by kind (`equipoise_bus_errors_total`), logs them, and keeps what an operator should know."""

    def __init__(self, clock: Clock, metrics: prometheus_client.CollectorRegistry | None = None) -> None:
        self._clock = clock
        self._seen: Tally[str] = Tally()
        self._problems: dict[str, tuple[str, float]] = {}
        self._logged: dict[tuple[str, str], float] = {}
        self._counter = prometheus_client.Counter(
            "equipoise_bus_errors",
            "What went wrong on the bus, by kind.",
            ["kind"],
            registry=metrics,
        )
        problems = prometheus_client.Gauge(
            "equipoise_bus_problems", "Troubles of the bus that /readyz tells of, by kind.", ["kind"], registry=metrics
        )
        for kind in KINDS:
            problems.labels(kind).set_function(partial(self._problems_of, kind))

    def count(self, kind: str, about: str, error: BaseException | str = "") -> None:
        """One more error of this kind. `about` says where: a subject, a stream; logged at most once a minute each."""
        self._seen[kind] += 1
        self._counter.labels(kind).inc()
        now = self._clock.monotonic()
        if now - self._logged.get((kind, about), -_LOG_PAUSE) < _LOG_PAUSE:
            return
        if len(self._logged) > 1_000:
            self._logged.clear()
        self._logged[(kind, about)] = now
        trace = error if isinstance(error, Exception) and kind in ("handler", "worker", "endpoint") else None
        log.warning("bus error", kind=kind, about=about, error=str(error) or repr(error), exc_info=trace)

    def total(self, kind: str) -> int:
        """How many errors of this kind there were."""
        return self._seen[kind]

    def set_problem(self, key: str, text: str | None, *, lasting: bool = False) -> None:
        """Keep something in sight of the operator until it is cleared (None) or was not seen for five minutes.

        A key is a word of `KINDS`, and where there may be several of them what it is about. `lasting`: it is said once
        only, so it stays until it is cleared.
        """
        if text is None:
            self._problems.pop(key, None)
        else:
            self._problems[key] = (text, math.inf if lasting else self._clock.monotonic())

    def clear(self, kind: str) -> None:
        """Clear all problems of a kind."""
        for key in [key for key in self._problems if key.split(" ")[0] == kind]:
            del self._problems[key]

    @property
    def problems(self) -> list[str]:
        return [text for text, seen_at in self._problems.values() if self._is_alive(seen_at)]

    def _problems_of(self, kind: str) -> float:
        """Asked by another thread, while problems come and go."""
        return float(
            sum(
                self._is_alive(seen_at)
                for key, (_, seen_at) in list(self._problems.items())
                if key.split(" ")[0] == kind
            )
        )

    def _is_alive(self, seen_at: float) -> bool:
        return self._clock.monotonic() - seen_at <= _PROBLEM_LIFE
