"""The check of the files of a release: signature first, then the checksum of every file."""

import hashlib
import re
from pathlib import Path

from release import ReleaseError
from release.signature import SUFFIX, verify

CHECKSUMS = "SHA256SUMS"
REHEARSAL_KEY = "rehearsal.pub"
"""The public key of a release that was signed with a key made for it alone."""

_LINE = re.compile(r"([0-9a-f]{64})  ([^/\\]+)")


def write_checksums(folder: Path) -> Path:
    """The checksums of all files of the folder, as `sha256sum` writes them."""
    file = folder / CHECKSUMS
    lines = [f"{sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path != file]
    file.write_text("".join(lines))
    return file


def verify_release(folder: Path, public_key: Path) -> list[Path]:
    """The files of a release. Raises ReleaseError if one is missing, changed, or not part of the signed release."""
    checksums = folder / CHECKSUMS
    if not checksums.is_file():
        raise ReleaseError(f"{checksums} is missing: {folder} is not the folder of a release, or not all of it")
    verify(checksums, public_key)
    signed = _read_checksums(checksums)
    others = {path.name for path in folder.iterdir()} - {CHECKSUMS, CHECKSUMS + SUFFIX, REHEARSAL_KEY}
    if unknown := sorted(others - signed.keys()):
        raise ReleaseError(f"{folder} has files that are not part of the release: remove {', '.join(unknown)}")
    for name, expected in signed.items():
        path = folder / name
        if not path.is_file():
            raise ReleaseError(f"{path} is missing: fetch it again, the release is not complete without it")
        if sha256(path) != expected:
            raise ReleaseError(f"{path} was changed: it differs from its checksum in {CHECKSUMS}, fetch it again")
    return [folder / name for name in signed]


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal digits. Archives of images are not read at once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checksums(file: Path) -> dict[str, str]:
    """The checksum of each file, by its name. What was signed by mistake is not trusted either."""
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise ReleaseError(f"{file}, line {number}: expected a checksum, two spaces and the name of one file")
        found[match[2]] = match[1]
    return found
