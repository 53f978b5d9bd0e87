"""The log: one line per event on stderr, as JSON or for people.

The library that the other services use is too large for the agent.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from equipoise.contracts.plain_text import safe_json

LEVELS = ("debug", "info", "warning", "error")


class Log:
    """Writes lines like those of the other services."""

    def __init__(
        self, now: Callable[[], float], *, console: bool = False, level: str = "info", stream: TextIO | None = None
    ) -> None:
        """`now`: seconds since 1970."""
        self._now = now
        self._console = console
        self._levels = LEVELS[LEVELS.index(level) :]
        self._stream = stream or sys.stderr

    def info(self, event: str, **facts: Any) -> None:
        self._line("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._line("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        self._line("error", event, facts)

    def _line(self, level: str, event: str, facts: dict[str, Any]) -> None:
        if level not in self._levels:
            return
        time = datetime.fromtimestamp(self._now(), UTC).isoformat().replace("+00:00", "Z")
        if self._console:
            text = " ".join([time, f"[{level}]", event, *(f"{name}={value!r}" for name, value in facts.items())])
        else:
            line = {"time": time, "level": level, "event": event, "service": "agent", **facts}
            text = safe_json(msgspec.json.encode(line, enc_hook=str).decode())
        print(text, file=self._stream, flush=True)
