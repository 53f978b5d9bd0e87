"""Makes stdout and stderr safe for text that others wrote, so that it cannot control the terminal."""

import codecs
import io
import sys
from contextlib import suppress
from typing import Any, TextIO

from equipoise.contracts.plain_text import visible

ESCAPED = "equipoise.escaped"
"""The name of our error handler for characters that an encoding lacks."""


class VisibleStream(io.TextIOBase):
    """Writes text with its control characters made visible, except line breaks and tabs.

    Code that writes control sequences itself uses `raw_stream`, and must then check the text between them. Bytes that a
    library writes to `buffer` are decoded and written as text.
    """

    def __init__(self, raw: TextIO) -> None:
        self.rich_proxied_file = raw
        """The attribute by which rich finds the stream for its colors. The console of rich checks the text in
        between."""

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


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """The characters that an encoding lacks, escaped as in JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


codecs.register_error(ESCAPED, _escaped)


def make_output_visible() -> None:
    """Replaces stdout and stderr of this program by a VisibleStream, which writes any text in any encoding."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # a stream may have no position that can be read
                stream.reconfigure(errors=ESCAPED)
        if stream is not None and not isinstance(stream, VisibleStream):
            setattr(sys, name, VisibleStream(stream))


def raw_stream(stream: TextIO | VisibleStream) -> TextIO:
    """The stream itself, for code that writes control sequences, such as colors."""
    return stream.rich_proxied_file if isinstance(stream, VisibleStream) else stream
