"""stdout and stderr of a program that prints what others wrote: nothing of it controls the terminal."""

import io
import sys
from typing import Any, TextIO

from equipoise.contracts.plain_text import visible


class VisibleStream(io.TextIOBase):
    """Writes text with its control characters made visible, except line breaks and tabs.

    What writes commands of the terminal itself uses `raw_stream`, and is then responsible for the text between them.
    Bytes that a library writes to the `buffer` come back here as text.
    """

    def __init__(self, raw: TextIO) -> None:
        self.rich_proxied_file = raw
        """The name by which rich finds the stream for its colors; its console checks the text that they enclose."""

        self.buffer = _Bytes(self)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(visible(text))
        return len(text)

    def flush(self) -> None:
        self.rich_proxied_file.flush()

    def isatty(self) -> bool:
        return self.rich_proxied_file.isatty()

    def fileno(self) -> int:
        return self.rich_proxied_file.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute of the standard streams
        return self.rich_proxied_file.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.rich_proxied_file.errors


class _Bytes(io.RawIOBase):
    def __init__(self, stream: VisibleStream) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._stream.write(content.decode(errors="replace"))
        return len(content)

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True


def make_output_visible() -> None:
    """Replace stdout and stderr of this program."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, VisibleStream):
            setattr(sys, name, VisibleStream(stream))


def raw_stream(stream: TextIO | VisibleStream) -> TextIO:
    """The stream itself, for programs that write commands of the terminal, such as colors."""
    return stream.rich_proxied_file if isinstance(stream, VisibleStream) else stream
