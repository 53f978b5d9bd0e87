"""Formats of traces: one file each, told apart by the files that a folder holds.

A format is a module with two names, and a line of `FORMATS`: `FILES` it needs, and `read(folder, *, nodes, seed)`.
"""

from pathlib import Path
from typing import Protocol

from equipoise.lab.formats import alibaba, bitbrains, folder
from equipoise.lab.formats.tables import TraceError
from equipoise.lab.model.trace import Trace

__all__ = ["FORMATS", "Format", "TraceError", "load_trace"]


class Format(Protocol):
    FILES: tuple[str, ...]

    def read(self, folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
        """`nodes` of the trace's nodes with what runs there, drawn by `seed`; None or 0: all. Raises TraceError."""
        ...


FORMATS: dict[str, Format] = {
    "equipoise": folder,
    "alibaba": alibaba,
    "bitbrains": bitbrains,
}


def load_trace(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The trace in a folder of any known format.

    `nodes`: a slice of so many nodes, drawn by `seed`; None or 0: all. Raises TraceError that says what to do.
    """
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    # The format of which most is there and least is missing: one file too few must not make it look like another.
    nearest = max(FORMATS, key=lambda name: sum(1 if file in present else -1 for file in FORMATS[name].FILES))
    missing = [file for file in FORMATS[nearest].FILES if file not in present]
    if not present.intersection(FORMATS[nearest].FILES):
        needs = "; ".join(f"{name}: {', '.join(kind.FILES)}" for name, kind in FORMATS.items())
        raise TraceError(f"{folder} is no trace folder; it must hold the files of one format ({needs})")
    if missing:
        raise TraceError(
            f"{folder} looks like a trace of format {nearest}, and {', '.join(missing)} is missing; add it"
        )
    return FORMATS[nearest].read(folder, nodes=nodes, seed=seed)
