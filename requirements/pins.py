"""Reads the requirements files that `make lock` writes. Standard library only: the build of the image runs it."""

import re
from dataclasses import dataclass

_PIN = re.compile(r"([a-z0-9-]+)==([^ ;]+)(?: ; (.+?))? \\")
_HASH = re.compile(r"    --hash=sha256:([0-9a-f]{64})(?: \\)?")
_REQUIRED_BY = re.compile(r"    #   ([a-z0-9-]+)(?: \(.+\))?")


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One version of a package."""

    name: str
    version: str
    marker: str
    """Of the environments that it is for (PEP 508); empty for all."""

    hashes: tuple[str, ...]
    """SHA-256, one per file: a package has a wheel for each platform."""

    required_by: tuple[str, ...]
    """The packages that depend on it."""


def read_pins(text: str) -> list[Pin]:
    """Raises ValueError for anything that is not pinned and hashed, such as a host or the path of a folder."""
    entries: list[tuple[tuple[str, str, str], list[str], list[str]]] = []
    for line in text.replace("    # via ", "    # via\n    #   ").splitlines():
        if match := _PIN.fullmatch(line):
            entries.append(((match[1], match[2], match[3] or ""), [], []))
        elif entries and (match := _HASH.fullmatch(line)):
            entries[-1][1].append(match[1])
        elif entries and (match := _REQUIRED_BY.fullmatch(line)):
            entries[-1][2].append(match[1])
        elif line.strip() and not line.lstrip().startswith("#"):
            raise ValueError(f"not a pinned version, nor a hash: {line!r}")
    if without := [name for (name, _, _), hashes, _ in entries if not hashes]:
        raise ValueError(f"no hash: {', '.join(without)}")
    return [
        Pin(name=name, version=version, marker=marker, hashes=tuple(hashes), required_by=tuple(required_by))
        for (name, version, marker), hashes, required_by in entries
    ]
