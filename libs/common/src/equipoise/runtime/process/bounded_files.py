"""Reads files of a limited size: a longer file is an error, and does not exhaust the memory of the process."""

import errno
import os
from pathlib import Path

DOCUMENT_LIMIT = 16 * 2**20
"""The maximum size of a document that users or commands write (bytes): a configuration, a kubeconfig, a stored plan."""

SECRET_LIMIT = 2**16
"""The maximum size of a file with a password or a token (bytes)."""


class FileTooLarge(OSError):
    """The file has more bytes than any valid one."""


def read_bounded(path: str | os.PathLike[str], limit: int = DOCUMENT_LIMIT) -> bytes:
    """The content of a file. Raises OSError, and FileTooLarge if there are more than `limit` bytes.

    The rest of a large file is not read, so a device or a pipe that never ends is too large as well.
    """
    with Path(path).open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise FileTooLarge(errno.EFBIG, f"more than {limit} bytes, which no valid file of this kind has", str(path))
    return content


def read_bounded_text(path: str | os.PathLike[str], limit: int = DOCUMENT_LIMIT) -> str:
    """The content of `read_bounded` as text. Raises OSError and UnicodeDecodeError."""
    return read_bounded(path, limit).decode()
