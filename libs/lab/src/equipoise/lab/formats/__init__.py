"""Formats of traces, one file each. The format of a folder is detected by its files.

A format is a module with `FILES`, the required files, and `read(folder, *, nodes, seed)`, and one line in `FORMATS`.
"""

from pathlib import Path
from typing import Protocol

from equipoise.lab.formats import (
    alibaba,
    alibaba_published,
    bitbrains,
    bitbrains_published,
    folder,
    openb,
    openb_published,
)
from equipoise.lab.formats.tables import PLAIN_SUFFIX, SUFFIX, TraceError
from equipoise.lab.model.trace import Trace

__all__ = ["FORMATS", "Format", "TraceError", "load_trace"]


class Format(Protocol):
    FILES: tuple[str, ...]

    def read(self, folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
        """A slice of `nodes` nodes with their pods, drawn with `seed`; None or 0: all. Raises TraceError."""
        ...


FORMATS: dict[str, Format] = {
    "equipoise": folder,
    "alibaba": alibaba,
    "alibaba-published": alibaba_published,
    "bitbrains": bitbrains,
    "bitbrains-published": bitbrains_published,
    "openb": openb,
    "openb-published": openb_published,
}


def load_trace(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The trace in a folder of any known format.

    `nodes`: size of the slice, drawn with `seed`; None or 0: all. Raises TraceError with the fix.
    """
    present = {_required(path.name) for path in folder.iterdir()} if folder.is_dir() else set()
    # The format with the most present and the fewest missing files.
    nearest = max(FORMATS, key=lambda name: sum(1 if file in present else -1 for file in FORMATS[name].FILES))
    missing = [file for file in FORMATS[nearest].FILES if file not in present]
    if not present.intersection(FORMATS[nearest].FILES):
        needs = "; ".join(f"{name}: {', '.join(kind.FILES)}" for name, kind in FORMATS.items())
        raise TraceError(f"{folder} is not a trace folder; it must contain the files of one format ({needs})")
    if missing:
        raise TraceError(
            f"{folder} looks like a trace of format {nearest}, but {', '.join(missing)} is missing; add it"
        )
    return FORMATS[nearest].read(folder, nodes=nodes, seed=seed)


def _required(file: str) -> str:
    """The name under which a format requires a file: an uncompressed one will do."""
    compressed = f"{file.removesuffix(PLAIN_SUFFIX)}{SUFFIX}" if file.endswith(PLAIN_SUFFIX) else file
    published = (openb_published, alibaba_published, bitbrains_published)
    required = (each.required(compressed) for each in published)
    return next((name for name in required if name != compressed), compressed)
