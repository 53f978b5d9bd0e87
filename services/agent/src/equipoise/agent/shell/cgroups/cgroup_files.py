"""Reads and writes cgroup files. They stay open: opening one takes ten times as long as reading it."""

import errno
import os
from collections.abc import Callable
from typing import Literal

GONE = (errno.ENOENT, errno.ENODEV)
"""The group was removed: ENODEV where a file of it is still open."""

Result = Literal["unchanged", "written", "refused", "ignored", "gone"]
"""refused: the kernel returned an error. ignored: it returned none, and another value is there."""

LONGEST = 65_536
"""Bytes of a file: memory.stat, the longest one, has 2 KiB."""


class CgroupFiles:
    """Open files by path. One is opened at its first use, and closed when its group is gone or nobody reads it."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._used: set[str] = set()
        self.error = ""
        """The error of the last write that was refused."""

    def read(self, path: str) -> str | None:
        """None: the file does not exist (any more) or cannot be read."""
        descriptor = self._open.get(path)
        try:
            if descriptor is None:
                descriptor = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._used.add(path)
            return os.pread(descriptor, LONGEST, 0).decode().strip()
        except OSError:
            self._close(path)
            return None

    def ensure(self, path: str, text: str, same: Callable[[str, str], bool] = str.__eq__) -> Result:
        """Writes the value unless it is there already, and reads it back. `same`: whether the value found and `text`
        mean the same."""
        found = self.read(path)
        if found is None:
            return "gone" if not os.path.exists(path) else self._refused(path, "cannot be read")
        if same(found, text):
            return "unchanged"
        try:
            self._write(path, text)
        except OSError as error:
            if error.errno in GONE:
                return "gone"
            return self._refused(path, f"{os.strerror(error.errno or 0)} when {text!r} was written")
        found = self.read(path)
        if found is None:
            return "gone"
        if same(found, text):
            return "written"
        self.error = f"{path}: {text!r} was written, and {found!r} is there"
        return "ignored"

    def _refused(self, path: str, why: str) -> Result:
        self.error = f"{path}: {why}"
        return "refused"

    @staticmethod
    def _write(path: str, text: str) -> None:
        """Writes without a buffer, which would report the kernel's error when the file is closed, or never."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode() or b"\n")
        finally:
            os.close(descriptor)

    def close_unused(self) -> None:
        """Closes the files that were not read since the last call."""
        for path in self._open.keys() - self._used:
            self._close(path)
        self._used.clear()

    def close(self) -> None:
        for path in list(self._open):
            self._close(path)

    def _close(self, path: str) -> None:
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)
