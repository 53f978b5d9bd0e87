"""What a long build shows meanwhile: one live line on a terminal, a plain line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.status import Status

PLAIN_SECONDS = 15.0


class Progress:
    """Writes to standard error, so that what a program answers stays clean."""

    def __init__(self, stream: TextIO | None = None, *, plain_seconds: float = PLAIN_SECONDS) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._plain_seconds = plain_seconds
        self._status: Status | None = None
        self._next_plain = 0.0

    def __enter__(self) -> Self:
        self._next_plain = time.monotonic() + self._plain_seconds
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, markup=False)

    def show(self, text: str) -> None:
        """The state of affairs, as often as you like."""
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(text)
                self._status.start()
            self._status.update(text)
        elif time.monotonic() >= self._next_plain:
            self._next_plain = time.monotonic() + self._plain_seconds
            self.note(text)
