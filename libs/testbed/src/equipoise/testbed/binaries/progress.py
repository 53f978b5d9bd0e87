"""Progress of a long build: one live line on a terminal, otherwise a plain line every 15 seconds."""

import sys
import time
from typing import Self, TextIO

from rich.console import Console
from rich.status import Status

PLAIN_SECONDS = 15.0


class Progress:
    """Writes to standard error: standard output is for results."""

    def __init__(self, stream: TextIO | None = None, *, plain_seconds: float = PLAIN_SECONDS) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._plain_seconds = plain_seconds
        self._status: Status | None = None
        self._next_plain = 0.0

    def __enter__(self) -> Self:
        self._next_plain = time.monotonic() + self._plain_seconds
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def note(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, markup=False)

    def show(self, text: str) -> None:
        """Update the status line. May be called at any rate."""
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(text)
                self._status.start()
            self._status.update(text)
        elif time.monotonic() >= self._next_plain:
            self._next_plain = time.monotonic() + self._plain_seconds
            self.note(text)
