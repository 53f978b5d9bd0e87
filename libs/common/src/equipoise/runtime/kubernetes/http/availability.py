"""Whether requests to the API server succeed. Readiness depends on it, so a single failure must not change it."""

import structlog

from equipoise.runtime.process.clock import Clock

log = structlog.get_logger()

FAILURE_SECONDS = 60.0
"""The seconds after which the connection is reported as down, if all requests have failed."""


class Availability:
    """The state of one API server, as its client sees it. Without requests, the state does not change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing_since: float | None = None
        """The time at which the first request after the last success failed (monotonic)."""

        self._reason = ""
        self._down = False

    def succeeded(self) -> None:
        self._failing_since = None
        if self._down:
            self._down = False
            log.info("the API server responds again")

    def failed(self, reason: str) -> None:
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._reason = reason
        if not self._down and now - self._failing_since >= FAILURE_SECONDS:
            self._down = True
            log.error("no request to the API server succeeds", seconds=FAILURE_SECONDS, error=reason)

    @property
    def problem(self) -> str:
        """The reason why no request has succeeded, and for how long; empty while the server is available."""
        since = self._failing_since  # read once: /metrics is rendered in another thread
        if not self._down or since is None:
            return ""
        seconds = self._clock.monotonic() - since
        return f"no request to the API server has succeeded for {seconds:.0f} s: {self._reason}"
