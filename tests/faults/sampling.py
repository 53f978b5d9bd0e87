"""What the operating system shows of a process, how late its event loop is, and what it must not write to its log."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from faults.history import LATE, Leak, ProcessSample

PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessSampler:
    """Of one process; `file` is written by `faults.instrumented`."""

    def __init__(self, name: str, pid: int, file: Path) -> None:
        self._name = name
        self._pid = pid
        self._file = file
        self._read = file.stat().st_size if file.exists() else 0

    def sample(self, at: float, *, disturbed: bool = False, ready: bool = True) -> ProcessSample | None:
        """Since the previous call. None when the process has ended.

        `disturbed`: the harness suspends or blocks the process itself, so its lag is not counted. `ready`: whether it
        has been ready once.
        """
        lags, tasks = self._measured()
        if disturbed:
            lags = []
        try:
            resident = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * PAGE
            descriptors = len(os.listdir(f"/proc/{self._pid}/fd"))
        except (OSError, IndexError):
            return None
        return ProcessSample(
            at=at,
            name=self._name,
            pid=self._pid,
            resident=resident,
            descriptors=descriptors,
            tasks=max(tasks, default=0),
            measured=len(lags),
            late=sum(lag > LATE for lag in lags),
            worst=max(lags, default=0.0),
            ready=ready,
        )

    def _measured(self) -> tuple[list[float], list[int]]:
        if not self._file.exists():
            return [], []
        with self._file.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        complete = lines[: lines.rfind(b"\n") + 1]
        self._read += len(complete)
        documents = [json.loads(line) for line in complete.splitlines()]
        return [each["lag"] for each in documents], [each["tasks"] for each in documents]


class LogSearch:
    """Finds secrets in logs; each call searches what was written since the previous one."""

    def __init__(self, secrets: dict[str, str]) -> None:
        """By what they are: a text that no log may contain."""
        self.secrets = secrets
        self._read: dict[Path, int] = {}

    def found(self, at: float, logs: Iterable[Path]) -> list[Leak]:
        leaks = []
        for log in logs:
            if not log.exists():
                continue
            with log.open("rb") as file:
                file.seek(self._read.get(log, 0))
                text = file.read()
            self._read[log] = self._read.get(log, 0) + len(text)
            leaks += [
                Leak(at=at, log=log.name, what=what) for what, secret in self.secrets.items() if secret.encode() in text
            ]
        return leaks
